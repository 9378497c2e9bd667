// What the played host answered to its peer's requests, and what that says of its receive queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "apps/replay_as_capture.h"
#include "apps/replay_as_facts.h"

namespace h4a::apps {

class HostAnswers {
 public:
  explicit HostAnswers(const Conversation& c);

  /// Called for each request that needs a receive, in order. @return false while the host had none
  /// posted: for the request that it refused, and for those behind it until that one came again.
  [[nodiscard]] bool is_ready(Psn psn, std::size_t index);

  /// If the host refused a packet of the message that starts with `psn` as too long, its receive had
  /// room for what came before that packet.
  [[nodiscard]] std::optional<std::uint64_t> room_before_refusal(const PsnMap& requests,
                                                                 Psn psn) const;

  /// The first answer of this kind to `psn` behind a frame, or nullptr.
  [[nodiscard]] const RecordedPacket* after(Psn psn, std::uint64_t frame,
                                            net::Operation operation) const;
  /// How many PSNs were answered at all.
  [[nodiscard]] std::size_t size() const noexcept { return answers_.size(); }

 private:
  std::map<std::uint32_t, std::vector<const RecordedPacket*>> answers_;  // by PSN
  std::set<std::size_t> not_ready_;  // requests that were answered with an RNR NAK, by index
  std::optional<Psn> refused_;       // the request that waits for a receive
};

}  // namespace h4a::apps
