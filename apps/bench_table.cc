#include "apps/bench_table.h"

#include <fmt/format.h>

#include "apps/bench_json.h"

namespace h4a::apps {
namespace {

/// "12 (no_qp 10, bad_icv 2)" or "0".
std::string drops_text(const DropCounters& drops) {
  if (drops.total() == 0) return "0";
  std::string reasons;
  drops.for_each([&](Drop reason, std::uint64_t n) {
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", to_string(reason), n);
  });
  return fmt::format("{} ({})", drops.total(), reasons);
}

}  // namespace

double BenchRow::busy_bytes() const noexcept {
  if (receiver.packets == 0) return 0;
  return bytes() * static_cast<double>(receiver.busy_packets) /
         static_cast<double>(receiver.packets);
}

double BenchRow::goodput_gbps() const noexcept {
  if (receiver.busy_cycles == 0) return 0;
  return busy_bytes() * 8e-9 * receiver.cycles_per_second /
         static_cast<double>(receiver.busy_cycles);
}

double BenchRow::cycles_per_packet() const noexcept {
  return per_packet(receiver.busy_cycles);
}

double BenchRow::stage_cycles_per_packet(std::size_t i) const noexcept {
  return per_packet(receiver.stages[i]);
}

double BenchRow::driver_cycles_per_packet() const noexcept {
  return per_packet(receiver.stages.front() + receiver.stages.back());
}

double BenchRow::own_cycles_per_packet() const noexcept {
  const double crypto = (clear ? 0 : loops.open) + loops.crc;
  return cycles_per_packet() - driver_cycles_per_packet() - crypto - loops.copy;
}

double BenchRow::ceiling_ratio() const noexcept {
  if (receiver.busy_cycles == 0 || payload == 0) return 0;
  const double cycles_a_byte = ceiling.open_copy_128.cycles / static_cast<double>(payload);
  return cycles_a_byte * busy_bytes() / static_cast<double>(receiver.busy_cycles);
}

double BenchRow::per_packet(std::uint64_t cycles) const noexcept {
  if (receiver.busy_packets == 0) return 0;
  return static_cast<double>(cycles) / static_cast<double>(receiver.busy_packets);
}

void print_table_head(std::FILE* out, const BenchOptions& options, std::size_t path_mtu) {
  fmt::print(out, "RDMA {} · {} · path MTU {} · depth {}\n", name_of(options.operation),
             options.clear ? "clear" : "ESP AES-GCM-128", path_mtu, options.depth);
  fmt::print(out, "{:>9} {:>12} {:>16} {:>19} {:>13} {:>15} {:>8} {:>8} {:>10} {:>8} {}\n",
             "#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]",
             "RxCore[Gb/sec]", "cyc/pkt", "own cyc", "of ceiling", "resent", "drops");
  std::fflush(out);
}

void print_table_row(std::FILE* out, const BenchRow& r) {
  fmt::print(out,
             "{:>9} {:>12} {:>16.2f} {:>19.2f} {:>13.6f} {:>15.2f} {:>8.0f} {:>8.0f} {:>10.2f} "
             "{:>8} {}\n",
             r.size, r.timing.iterations, r.peak_gbps(), r.average_gbps(), r.message_rate_mpps(),
             r.goodput_gbps(), r.cycles_per_packet(), r.own_cycles_per_packet(), r.ceiling_ratio(),
             r.retransmitted, drops_text(r.drops));
  std::fflush(out);
}

void print_profile(std::FILE* out, const BenchRow& row) {
  fmt::print(out, "          cycles a packet:");
  for (std::size_t i = 0; i < kBenchStages.size(); ++i)
    fmt::print(out, " {} {:.0f}", kBenchStages[i], row.stage_cycles_per_packet(i));
  fmt::print(out, " · bare loops: open {:.0f} crc {:.0f} copy {:.0f} ceiling {:.0f}\n",
             row.loops.open, row.loops.crc, row.loops.copy, row.ceiling.open_copy_128.cycles);
  std::fflush(out);
}

}  // namespace h4a::apps
