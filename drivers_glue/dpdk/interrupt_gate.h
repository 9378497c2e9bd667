// InterruptGate: keeps DPDK's interrupt thread and the bursts of memif ports apart.
//
// net_memif handles its control socket on the EAL's interrupt thread. When the peer goes away, that
// thread unmaps the shared memory while a burst on another thread may still be copying from it: the
// death of a peer would crash us. The driver has no lock for this, so the gate makes one out of
// what the EAL offers: an alarm, which runs on the interrupt thread and sets itself again. The
// thread spends its time inside the alarm, asleep; it leaves, and so gets to the driver's handlers,
// every few milliseconds, and only when no burst is under way; bursts do not start until it is
// back. Cost: two atomic operations a burst, and one wake-up of the interrupt thread every 10 ms (1
// ms while a link is down, so that connections come up quickly).
#pragma once

#include <string>

#include "base/result.h"

namespace h4a::dpdk {

class InterruptGate {
 public:
  /// One gate a process, as there is one interrupt thread. The EAL must be running.
  [[nodiscard]] static InterruptGate& instance() noexcept;

  /// Each memif port holds the gate as long as it exists.
  [[nodiscard]] Result<void> add_port(std::string& error);
  void remove_port() noexcept;

  /// @return true if the interrupt thread is asleep and stays so until leave().
  [[nodiscard]] bool enter() noexcept;
  void leave() noexcept;
  /// Counts the links that are down: with any, the interrupt thread wakes more often.
  void link_changed(bool up) noexcept;

 private:
  InterruptGate() = default;
  static void on_alarm(void* ignored) noexcept;
};

}  // namespace h4a::dpdk
