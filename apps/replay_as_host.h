// HostPlayer: plays one host of a conversation against what its peer sent, with our transport engine.
//
// The packets of the capture are gone through in order. A packet of the peer is handed to the engine,
// its queue pair number, keys and addresses exchanged for ours. A packet of the host has to have come
// out of the engine: work requests are posted when the capture shows that the host had posted them, and
// when the host repeats itself without being asked to, the engine's next timer fires. So the clock is
// virtual and no time is compared.
//
// Of UC and UD only what the host sends can be compared: nothing is answered.
//
// Memory of the host is what the capture shows of it: what it answered to a READ or an atomic, it had.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/replay_as_capture.h"
#include "apps/replay_as_compare.h"

namespace h4a::apps {

/// Something that only one of the two sent, or sent differently.
struct PlayDifference {
  std::uint64_t frame =
      0;  // of the recorded packet; of the peer's packet that ours answers if `only_ours`
  bool only_ours = false;
  std::string packet;                   // in words
  std::vector<FieldDifference> fields;  // empty: the other has no such packet at all
};

struct PlayResult {
  IpAddress host;
  IpAddress peer;
  Qpn own;
  Qpn remote;
  std::uint16_t mtu = 0;
  std::uint64_t recorded = 0;  // packets of the host in the capture
  std::uint64_t equal = 0;     // of them, equal to one of ours
  std::uint64_t repeated =
      0;  // of them, repeats that ours made at another time; equal to the first
  std::uint64_t coalesced =
      0;  // ACKs that only one of both sent, covered by a later one of the other
  std::uint64_t unrecorded =
      0;  // of ours: lost before the capture, as the peer's repeats show, or repeats
  std::uint64_t incomparable = 0;  // of messages that are not in the capture as a whole
  std::uint64_t own_changes = 0;   // bytes of reached memory that the host's own program changed
  std::uint32_t msn_offset = 0;    // MSN at which the capture begins
  bool silent =
      false;  // the host sent nothing: there is nothing to compare, and nothing was played
  std::string obstacle;  // why nothing could be played, or ""
  std::vector<PlayDifference> differences;

  [[nodiscard]] bool clean() const noexcept { return obstacle.empty() && differences.empty(); }
};

[[nodiscard]] PlayResult play(const Conversation& conversation);

}  // namespace h4a::apps
