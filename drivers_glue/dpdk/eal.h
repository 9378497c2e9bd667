// The DPDK environment (EAL) of this process: started once, by the first port, from the program
// itself.
//
// A process has one EAL and cannot start it twice; that is DPDK's rule, and the only global state
// here. Nothing has to be set up: with free hugepages they are used, otherwise ordinary memory
// (--no-huge). Nothing is left behind: no files in /var/run or on hugetlbfs, also after a kill.
// Several processes run side by side. Call start() yourself, before the first open_port(), only to
// choose the options.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace h4a::dpdk {

struct EalOptions {
  /// Use hugepages if enough are free. False: never.
  bool hugepages = true;
  /// Memory for the frames of all ports together.
  std::size_t memory_mb = 512;
  /// Look for PCI devices at start; pci: ports need it. With it, start() takes longer.
  bool pci = false;
  /// Print DPDK's own log on stderr (also: environment H4A_DPDK_LOG=1).
  bool verbose = false;
};

/// Starts the EAL, or does nothing if it runs already (then `options` are ignored).
/// Thread: the main thread, before others use ports; its CPU affinity is kept.
/// @param error one line that says what failed and what to do, if the result is an error.
/// @return kAccess, kNoMemory, kInvalidState (an earlier start failed), kIo.
[[nodiscard]] Result<void> start_eal(const EalOptions& options, std::string& error);

/// True once start_eal() succeeded. `has_pci`: it was started with EalOptions::pci.
[[nodiscard]] bool eal_running() noexcept;
[[nodiscard]] bool eal_has_pci() noexcept;

/// Forgets the DPDK log lines captured so far; the next last_log() speaks of what comes after.
void clear_log() noexcept;
/// The last warnings or errors that DPDK logged, joined by "; ", or "" if there were none.
[[nodiscard]] std::string last_log();

/// Gives the calling thread DPDK's per-thread cache of free buffers; a no-op if it has one.
/// Ports call it by themselves. The cache is given back when the thread ends.
void register_thread() noexcept;

}  // namespace h4a::dpdk
