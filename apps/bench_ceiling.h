// `h4a bench ceiling`: what one core of this machine can do at most, to hold every other figure against.
//
// A bare loop over frames that were just received, so to speak: AES-GCM opened in place and the record
// copied into a 64 MiB region (DESIGN §9), and beside it CRC-32 and the copy alone. The loop runs one
// packet after the other, each still in the first-level cache when it is copied; no protocol is involved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace h4a::apps {

/// Median of all rounds, one packet.
struct StageCost {
  double cycles = 0;  // of the time-stamp counter
  double gbit_s = 0;  // payload
};

struct CeilingResult {
  std::size_t bytes = 0;      // of one record
  StageCost open_copy_128{};  // AES-128-GCM in place, then the copy
  StageCost open_copy_256{};  // the same with AES-256-GCM
  StageCost crc{};            // CRC-32 of the record
  StageCost copy{};           // the copy alone
};

/// Sizes that the table shows.
inline constexpr std::size_t kCeilingSizes[] = {256, 512, 1024, 2048, 4096, 8192};
inline constexpr std::size_t kCeilingBytesMax = 9000;
inline constexpr std::size_t kCeilingRounds = 41;

/// Measures at one record size, on the core that calls. Takes 70 MiB of memory meanwhile, and about
/// half a second at 4096 bytes; call it right before or after what is held against it.
/// @param bytes 1..kCeilingBytesMax. @param rounds of 512 packets each, at least 1.
[[nodiscard]] CeilingResult measure_ceiling(std::size_t bytes, std::size_t rounds = kCeilingRounds);

struct CeilingArguments {
  std::vector<std::size_t> sizes;  // empty: kCeilingSizes
  bool json = false;
};

/// Adds `ceiling` below `bench`.
void add_bench_ceiling_command(CLI::App& bench, CeilingArguments& a);
/// Measures and prints. @return the exit code.
[[nodiscard]] int run_bench_ceiling(const CeilingArguments& a);

/// The results as people read them, and as programs do.
[[nodiscard]] std::string ceiling_table(const std::vector<CeilingResult>& rows);
[[nodiscard]] std::string ceiling_json(const std::vector<CeilingResult>& rows);

/// The CPU's own name, for whoever reads the figures later; "unknown" if the system does not tell.
[[nodiscard]] std::string cpu_name();

}  // namespace h4a::apps
