// `h4a`: one binary with subcommands. Exceptions of the libraries end here.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fmt/format.h>

#include "apps/bench.h"
#include "apps/get.h"
#include "apps/pingpong.h"
#include "apps/replay.h"
#include "apps/report.h"
#include "apps/rping.h"
#include "apps/serve.h"

namespace {

int run(int argc, char** argv) {
  using namespace h4a::apps;
  CLI::App app("HTTP/4A: HTTP over RDMA, encrypted, on any network and without RDMA hardware");
  app.name("h4a");
  app.set_version_flag("--version", H4A_VERSION);
  app.require_subcommand(1);
  app.footer(
      "A first try on one machine, in two terminals:\n"
      "  h4a serve --root . --port memif:/tmp/h4a.sock,role=server --ip 10.99.0.1/24 "
      "--self-signed\n"
      "  h4a get https://127.0.0.1:8443/README.md --port memif:/tmp/h4a.sock --ip 10.99.0.2/24 "
      "--cacert CERT.pem\n"
      "Exit codes: 0 done, 1 failed, 2 bad command line, 3 another HTTP status than 200,\n"
      "4 certificate refused.");
  int exit_code = kExitOk;  // of `replay`, which runs as a callback
  ServeArguments serve;
  add_serve_command(app, serve);
  GetArguments get;
  add_get_command(app, get);
  ReplayOptions replay;
  add_replay_command(app, replay, exit_code);
  BenchOptions bench;
  add_bench_command(app, bench);
  PingpongArguments pingpong;
  add_pingpong_command(app, pingpong);
  RpingArguments rping;
  add_rping_command(app, rping);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? kExitOk : kExitUsage;
  }
  if (app.got_subcommand("serve")) return run_serve(serve);
  if (app.got_subcommand("get")) return run_get(get);
  if (app.got_subcommand("bench")) return run_bench(bench);
  if (app.got_subcommand("pingpong")) return run_pingpong(pingpong);
  if (app.got_subcommand("rping")) return run_rping(rping);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "h4a: {}\n", e.what());
    return h4a::apps::kExitFailed;
  }
}
