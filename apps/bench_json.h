// Every text of the benchmark that is JSON: what two processes tell each other, and --json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench_end.h"
#include "apps/bench_table.h"
#include "base/result.h"

namespace h4a::apps {

[[nodiscard]] std::string_view name_of(BenchOperation operation) noexcept;

[[nodiscard]] std::string to_line(const BenchContact& contact);
/// @return kMalformed, as all parsers here.
[[nodiscard]] Result<BenchContact> parse_contact(std::string_view line);

/// Client to server: a row begins, or (size 0) it is over.
struct BenchCommand {
  std::size_t size = 0;  // 1..kBenchMessageMax
  std::uint8_t seed = 0;
  [[nodiscard]] bool begins_row() const noexcept { return size != 0; }
};
[[nodiscard]] std::string to_line(const BenchCommand& command);
[[nodiscard]] Result<BenchCommand> parse_command(std::string_view line);

/// Server to client, at the end of a row.
struct BenchReport {
  BenchUsage usage;
  bool intact = false;
};
[[nodiscard]] std::string to_line(const BenchReport& report);
[[nodiscard]] Result<BenchReport> parse_report(std::string_view line);

/// For --json: what was run, and its rows.
[[nodiscard]] std::string bench_json(const BenchOptions& options, std::size_t path_mtu,
                                     const std::vector<BenchRow>& rows);

}  // namespace h4a::apps
