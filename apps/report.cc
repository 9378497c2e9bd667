#include "apps/report.h"

#include <fmt/format.h>

namespace h4a::apps {

std::string format_size(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double v = static_cast<double>(bytes) / 1024;
  std::size_t u = 0;
  for (; v >= 1024 && u + 1 < std::size(units); ++u) v /= 1024;
  return fmt::format("{:.1f} {}", v, units[u]);
}

std::string format_rate(std::uint64_t bytes, double seconds) {
  const double bits = seconds > 0 ? 8 * static_cast<double>(bytes) / seconds : 0;
  if (bits < 1e6) return fmt::format("{:.1f} kb/s", bits / 1e3);
  return bits < 1e9 ? fmt::format("{:.1f} Mb/s", bits / 1e6)
                    : fmt::format("{:.2f} Gb/s", bits / 1e9);
}

void print_counters(std::FILE* to, const verbs::DeviceCounters& c) {
  if (c.rx_packets + c.tx_packets > 0) {
    fmt::print(to, "packets: {} received, {} sent, {} of them again; {} time-outs\n", c.rx_packets,
               c.tx_packets, c.retransmitted_packets, c.timeouts);
  }
  c.drops.for_each([&](Drop reason, std::uint64_t count) {
    fmt::print(to, "dropped {}: {} ({})\n", count, to_string(reason), info(reason).text);
  });
}

nlohmann::json counters_json(const verbs::DeviceCounters& c) {
  nlohmann::json drops = nlohmann::json::object();
  c.drops.for_each(
      [&](Drop reason, std::uint64_t count) { drops[std::string(to_string(reason))] = count; });
  return {{"rx_packets", c.rx_packets},
          {"tx_packets", c.tx_packets},
          {"retransmitted_packets", c.retransmitted_packets},
          {"timeouts", c.timeouts},
          {"drops", std::move(drops)}};
}

}  // namespace h4a::apps
