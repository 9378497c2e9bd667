// The rows of the benchmark: what is computed from what was counted, and how it is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/bench.h"
#include "apps/bench_ceiling.h"
#include "apps/bench_end.h"
#include "apps/bench_loops.h"

namespace h4a::apps {

/// Wall-clock side of a row.
struct BenchTiming {
  std::uint64_t iterations = 0;
  double seconds = 0;
  double peak_bytes_per_second = 0;  // best slice of about a twentieth of the row
};

struct BenchRow {
  std::size_t size = 0;
  BenchTiming timing;
  BenchUsage receiver;
  std::uint64_t retransmitted = 0;  // both ends
  DropCounters drops;               // both ends
  std::size_t payload = 0;          // bytes of a full packet
  CeilingResult ceiling;            // at that packet size
  LoopCost loops;                   // the same
  bool clear = false;

  [[nodiscard]] double bytes() const noexcept {
    return static_cast<double>(size) * static_cast<double>(timing.iterations);
  }
  [[nodiscard]] double average_gbps() const noexcept { return bytes() / timing.seconds * 8e-9; }
  [[nodiscard]] double peak_gbps() const noexcept { return timing.peak_bytes_per_second * 8e-9; }
  [[nodiscard]] double message_rate_mpps() const noexcept {
    return static_cast<double>(timing.iterations) * 1e-6 / timing.seconds;
  }
  /// What the receiver's core would carry if it did nothing else (DESIGN §9).
  [[nodiscard]] double goodput_gbps() const noexcept;
  [[nodiscard]] double cycles_per_packet() const noexcept;
  [[nodiscard]] double driver_cycles_per_packet() const noexcept;
  /// Of stage kBenchStages[i].
  [[nodiscard]] double stage_cycles_per_packet(std::size_t i) const noexcept;
  /// Without port driver, crypto and copy. The latter two are what the bare loops need for a packet.
  [[nodiscard]] double own_cycles_per_packet() const noexcept;
  /// Goodput over the ceiling's.
  [[nodiscard]] double ceiling_ratio() const noexcept;

 private:
  /// The bytes that arrived in the turns that count.
  [[nodiscard]] double busy_bytes() const noexcept;
  [[nodiscard]] double per_packet(std::uint64_t cycles) const noexcept;
};

void print_table_head(std::FILE* out, const BenchOptions& options, std::size_t path_mtu);
/// The receiver's cycles for a packet, stage by stage.
void print_profile(std::FILE* out, const BenchRow& row);
void print_table_row(std::FILE* out, const BenchRow& row);

}  // namespace h4a::apps
