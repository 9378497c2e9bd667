// What commands print alike: sizes, rates, counters, and their exit codes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "verbs/device.h"

namespace h4a::apps {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;       // it was tried and did not work; stderr tells why
inline constexpr int kExitUsage = 2;        // the command line makes no sense
inline constexpr int kExitHttpStatus = 3;   // the server answered with another status than 200
inline constexpr int kExitCertificate = 4;  // the server's certificate was refused

/// "64.0 MiB".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
/// "1.23 Gb/s".
[[nodiscard]] std::string format_rate(std::uint64_t bytes, double seconds);

/// One line with the packet counts, one for each drop reason that was counted. Nothing if all is zero.
void print_counters(std::FILE* to, const verbs::DeviceCounters& c);
[[nodiscard]] nlohmann::json counters_json(const verbs::DeviceCounters& c);

}  // namespace h4a::apps
