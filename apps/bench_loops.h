// What a packet's payload costs the receiver whatever the protocol: opened, checked and copied by bare
// loops, a burst at a time in buffers that stay in the cache, as the stack does it.
//
// The ceiling (bench_ceiling.h) is the figure to hold a goodput against; these are taken off a packet's
// cycles to see what the protocol itself costs.
#pragma once

#include <cstddef>
#include <map>

namespace h4a::apps {

/// Cycles a record, of the median burst.
struct LoopCost {
  double open = 0;  // AES-128-GCM in place
  double crc = 0;   // CRC-32
  double copy = 0;  // to a region of 64 MiB
};

class BenchLoops {
 public:
  /// Measured once for each size in a run, some 150 ms. @param record_bytes at least 1.
  [[nodiscard]] LoopCost at(std::size_t record_bytes);

 private:
  std::map<std::size_t, LoopCost> by_size_;
};

}  // namespace h4a::apps
