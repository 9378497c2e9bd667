// `h4a replay` alone, for the tests of this folder.
#include "apps/replay.h"

int main(int argc, char** argv) {
  CLI::App app("Check captures");
  app.require_subcommand(1);
  h4a::apps::ReplayOptions options;
  int exit_code = 0;
  h4a::apps::add_replay_command(app, options, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
