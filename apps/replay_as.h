// `h4a replay --as IP FILE…`: plays one host of the recorded conversations with our transport engine, and
// tells where our packets differ from the recorded ones (replay_as_host.h says how).
//
// Exit codes: 0, all that could be played was equal; 1, something differs or could not be played; 2, a file
// or the keys could not be read, or the address is not in the capture.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replay_as_host.h"

namespace h4a::apps {

struct PlayReport {
  std::vector<PlayResult> conversations;
  /// Packets of services that are not played.
  std::map<std::string_view, std::uint64_t> left_out;

  [[nodiscard]] bool clean() const noexcept;
};

/// Plays `host` in everything that the packets hold of it.
[[nodiscard]] PlayReport play_as(const std::vector<RecordedPacket>& packets, const IpAddress& host);

/// Lines, one or more a conversation. @param file named in them if it is not empty.
[[nodiscard]] std::string to_text(const PlayReport& report, const std::string& file);
/// One object a conversation, and a summary.
[[nodiscard]] std::string to_json(const PlayReport& report, const std::string& file);

}  // namespace h4a::apps
