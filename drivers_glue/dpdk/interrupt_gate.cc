#include "drivers_glue/dpdk/interrupt_gate.h"

#include <atomic>
#include <mutex>
#include <poll.h>
#include <rte_alarm.h>
#include <sched.h>

namespace h4a::dpdk {
namespace {

constexpr int kSleepMs = 50;
constexpr int kSleepLinkDownMs = 1;
/// Long enough that the EAL leaves its alarm loop, and serves other descriptors, before it is due.
constexpr std::uint64_t kAlarmSoonUs = 50;

/// The gate's state. Order of the two atomics is the whole algorithm: each side announces itself
/// first and looks at the other second, both sequentially consistent, so that never both go ahead.
struct Gate {
  std::mutex mutex;
  bool alarm_set = false;
  int ports = 0;
  std::atomic<int> links_down{0};
  std::atomic<int> bursts{0};
  std::atomic<bool> handlers_run{true};
};

Gate& gate() noexcept {
  static Gate g;
  return g;
}

}  // namespace

InterruptGate& InterruptGate::instance() noexcept {
  static InterruptGate g;
  return g;
}

Result<void> InterruptGate::add_port(std::string& error) {
  Gate& g = gate();
  const std::lock_guard lock(g.mutex);
  if (!g.alarm_set && rte_eal_alarm_set(kAlarmSoonUs, on_alarm, nullptr) != 0) {
    error = "memif: DPDK has no memory for its alarm: lower frames=N or give DPDK more memory";
    return failure(Error::kNoMemory);
  }
  g.alarm_set = true;
  ++g.ports;
  ++g.links_down;
  return {};
}

void InterruptGate::remove_port() noexcept {
  Gate& g = gate();
  const std::lock_guard lock(g.mutex);
  --g.links_down;
  --g.ports;
}

bool InterruptGate::enter() noexcept {
  Gate& g = gate();
  g.bursts.fetch_add(1);
  if (!g.handlers_run.load()) return true;
  g.bursts.fetch_sub(1);
  return false;
}

void InterruptGate::leave() noexcept {
  gate().bursts.fetch_sub(1);
}

void InterruptGate::link_changed(bool up) noexcept {
  gate().links_down.fetch_add(up ? -1 : 1);
}

/// On the interrupt thread. The handlers that were due have run when this is entered.
void InterruptGate::on_alarm(void* /*ignored*/) noexcept {
  Gate& g = gate();
  g.handlers_run.store(false);
  ::poll(nullptr, 0, g.links_down.load() > 0 ? kSleepLinkDownMs : kSleepMs);
  g.handlers_run.store(true);
  while (g.bursts.load() > 0) ::sched_yield();
  const std::lock_guard lock(g.mutex);
  g.alarm_set = g.ports > 0 && rte_eal_alarm_set(kAlarmSoonUs, on_alarm, nullptr) == 0;
}

}  // namespace h4a::dpdk
