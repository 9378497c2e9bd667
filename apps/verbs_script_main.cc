// verbs-script: runs verbs scripts from standard input on a port (verbs_script.cc lists the commands).
// Not installed: the interop tests drive our end with it (scripts/peer).
//
// Between lines the stack keeps running, so that a peer can read and write meanwhile.
// Exit status: 0 at the end of the input or at `quit`, 1 at the first command that failed, 2 if the
// port cannot be opened.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <poll.h>
#include <string>
#include <unistd.h>

#include "apps/host.h"
#include "apps/report.h"
#include "apps/stop_signal.h"
#include "apps/verbs_script.h"

namespace {

using namespace h4a;
using namespace h4a::apps;

/// Standard input as lines, without blocking.
class Input {
 public:
  /// @return false at the end of the input.
  bool fill() {
    pollfd p{STDIN_FILENO, POLLIN, 0};
    if (::poll(&p, 1, 0) <= 0) return true;
    char chunk[4096];
    const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof(chunk));
    if (n <= 0) return false;
    text_.append(chunk, static_cast<std::size_t>(n));
    return true;
  }
  bool next(std::string& line) {
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) return false;
    line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return true;
  }

 private:
  std::string text_;
};

int serve(Host& host) {
  const auto turn = [&](int wake_fd) {
    const Instant now = steady_now();
    const stack::PollResult r = host.poll(now);
    host.wait(r.received + r.sent > 0 || r.more, r.next_deadline, wake_fd);
    return stop_requested() ? Instant::never() : now;  // which ends every wait
  };
  VerbsScript script(
      host.stack(), [&] { return turn(-1); },
      [](std::string_view line) {
        fmt::print("{}\n", line);
        std::fflush(stdout);
      });
  Input input;
  std::string line;
  while (!stop_requested()) {
    turn(STDIN_FILENO);
    const bool open = input.fill();
    while (input.next(line)) {
      if (line == "quit") return kExitOk;
      if (!script.run(line)) return kExitFailed;
    }
    if (!open) return kExitOk;
  }
  return kExitOk;
}

int run(int argc, char** argv) {
  CLI::App app("Runs a verbs script from standard input", "verbs-script");
  HostArguments arguments;
  add_host_arguments(app, arguments);
  CLI11_PARSE(app, argc, argv);
  std::string error;
  const auto host = Host::open(arguments, error);
  if (!host) {
    fmt::print(stderr, "verbs-script: {}\n", error);
    return kExitUsage;
  }
  catch_stop_signals();
  const int code = serve(*host);
  print_counters(stderr, host->stack().counters());
  if (!host->finish_capture()) return kExitFailed;
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "verbs-script: {}\n", e.what());
    return h4a::apps::kExitFailed;
  }
}
