// What the tests over shared files have in common. The files are no part of the project: where
// H4A_SHARED does not name their folder, a test is skipped.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replay_frame.h"
#include "apps/replay_keys.h"
#include "apps/replay_output.h"
#include "net/capture_reader.h"

#include "test/test_support.h"

namespace h4a::pcap_tests {

/// Skips the running test if the shared files are not there; prints why.
#define require_shared(path)                                                                \
  do {                                                                                      \
    if (h4a::test::shared_dir() == nullptr || !std::filesystem::exists(shared(path))) {     \
      print_message("# skipped: $H4A_SHARED/%s is not there\n", std::string(path).c_str()); \
      skip();                                                                               \
    }                                                                                       \
  } while (0)

inline std::string shared(std::string_view path) {
  return std::string(h4a::test::shared_dir()) + "/" + std::string(path);
}

/// Bytes of a file that must be there.
inline std::vector<std::uint8_t> load(const std::string& path) {
  auto bytes = net::read_file(path);
  if (!bytes) fail_msg("%s: %s", path.c_str(), std::string(to_string(bytes.error())).c_str());
  return std::move(*bytes);
}

/// An opener with the keys of a table in text.
inline apps::EspOpener opener_of(std::string_view table) {
  auto keys = apps::parse_esp_keys(table);
  if (!keys) fail_msg("keys, line %zu: %s", keys.error().line, keys.error().what.c_str());
  auto opener = apps::EspOpener::create(std::move(*keys));
  assert_ok(opener);
  return std::move(*opener);
}

/// Reports on all frames of a capture, which must be readable to its end.
inline std::vector<apps::FrameReport> replay(const std::string& path, apps::EspOpener& opener) {
  const auto file = load(path);
  net::CaptureReader reader(file);
  net::CaptureRecord record;
  apps::Dissector dissector(opener);
  std::vector<apps::FrameReport> reports;
  while (reader.next(record)) reports.push_back(dissector.dissect(record, reports.size() + 1));
  if (reader.fault()) fail_msg("%s: %s", path.c_str(), to_string(*reader.fault()).c_str());
  return reports;
}

inline std::vector<apps::FrameReport> replay(const std::string& path) {
  apps::EspOpener none;
  return replay(path, none);
}

inline std::vector<std::string> captures_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".pcap") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

template <class Predicate>
std::size_t count(const std::vector<apps::FrameReport>& reports, Predicate predicate) {
  return static_cast<std::size_t>(std::count_if(reports.begin(), reports.end(), predicate));
}

}  // namespace h4a::pcap_tests
