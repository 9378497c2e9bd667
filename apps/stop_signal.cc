#include "apps/stop_signal.h"

#include <atomic>
#include <csignal>

namespace h4a::apps {
namespace {

// A signal handler can reach nothing but static memory.
std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
  if (g_stop.exchange(true)) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() noexcept {
  return g_stop.load(std::memory_order_relaxed);
}

}  // namespace h4a::apps
