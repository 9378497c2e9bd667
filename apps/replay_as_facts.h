// What a conversation says about the host that is to be played: where its PSNs start, its path MTU,
// the work requests it posted, and the memory that the peer reached.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "apps/replay_as_capture.h"
#include "base/serial.h"

namespace h4a::apps {

/// Packets by PSN, counted from the flow's first one, so that they stand in order across the wrap.
class PsnMap {
 public:
  /// The first packet of each PSN stays.
  void add(Psn psn, const RecordedPacket& p) { packets_.try_emplace(order(psn), &p); }
  [[nodiscard]] const RecordedPacket* find(Psn psn) const {
    const auto it = packets_.find(order(psn));
    return it == packets_.end() ? nullptr : it->second;
  }
  [[nodiscard]] bool empty() const noexcept { return packets_.empty(); }
  /// Smallest and largest; the map is not empty.
  [[nodiscard]] Psn first() const noexcept { return base_ + packets_.begin()->first; }
  [[nodiscard]] Psn last() const noexcept { return base_ + packets_.rbegin()->first; }
  [[nodiscard]] auto begin() const noexcept { return packets_.begin(); }
  [[nodiscard]] auto end() const noexcept { return packets_.end(); }
  void set_base(Psn psn) noexcept { base_ = psn; }

 private:
  // Half of the PSN space lies in front of the base, half behind it.
  [[nodiscard]] std::uint32_t order(Psn psn) const noexcept {
    return (psn - base_.value()).value();
  }
  Psn base_;
  std::map<std::uint32_t, const RecordedPacket*> packets_;
};

/// A work request of the host.
struct Message {
  Psn first_psn;
  std::uint32_t packets = 1;  // PSNs it takes
  const RecordedPacket* first = nullptr;
  const RecordedPacket* last = nullptr;
  std::vector<std::uint8_t> payload;  // of SEND and WRITE
};

/// A range of the host's memory under one key.
struct ReachedMemory {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool window = false;  // the peer invalidated it
};

struct Facts {
  std::uint16_t mtu = 1024;
  Psn rq_psn;
  Psn sq_psn;
  std::uint8_t rnr_timer = 12;
  std::vector<Message> messages;
  bool messages_cut =
      false;  // a message is not in the capture as a whole; it and later ones are not posted
  std::map<std::uint32_t, ReachedMemory> memory;  // by key
  std::uint64_t inbound_bytes = 0;                // room that a receive needs at most

  PsnMap requests_in;   // of the peer
  PsnMap requests_out;  // of the host
};

[[nodiscard]] Facts facts_of(const Conversation& c);

/// The PSNs that a request takes: of a READ, those of its responses.
[[nodiscard]] std::uint32_t psns_of(const net::TransportPacket& p, std::uint16_t mtu) noexcept;
/// The memory that a request reaches: its length is 0 for SENDs and for what reaches none.
struct Reach {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Rkey rkey;
};
[[nodiscard]] Reach reach_of(const net::TransportPacket& p) noexcept;

}  // namespace h4a::apps
