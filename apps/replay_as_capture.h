// The RoCE packets of a capture, sorted into conversations: a queue pair of one host and its peer's, or a
// datagram queue pair of the host and everybody it talks to.
//
// A packet names the queue pair it goes to, but not the one it comes from. Which of the numbers that a
// host receives on belongs to which of the numbers it sends to is found by the PSNs: an acknowledgement
// answers requests of the other direction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replay_esp.h"
#include "base/address.h"
#include "base/ids.h"
#include "net/bth.h"
#include "net/capture_reader.h"

namespace h4a::apps {

/// A packet of a capture whose ICRC and structure are right, from BTH to the pad.
struct RecordedPacket {
  std::uint64_t frame = 0;  // its number in the file, from 1
  IpAddress source;
  IpAddress destination;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] net::TransportPacket packet() const noexcept {
    return *net::parse_transport(bytes);
  }
};

/// Reads all packets that a stack would take, those inside ESP with the opener's keys.
/// @param fault what is wrong with the file, if it could not be read to its end.
[[nodiscard]] std::vector<RecordedPacket> read_packets(Bytes file, EspOpener& opener,
                                                       std::optional<net::CaptureFault>& fault);

/// What went between a queue pair of `host` and one of `peer`, in the order of the capture. Of a datagram
/// queue pair `peer` is the first of several, and `remote` is 0.
struct Conversation {
  net::Service service = net::Service::kRc;
  IpAddress host;
  IpAddress peer;
  Qpn own;     // number of the host's queue pair; 0 if nothing was sent to it
  Qpn remote;  // number of the peer's; 0 if nothing was sent to it
  std::vector<const RecordedPacket*> packets;

  [[nodiscard]] bool from_host(const RecordedPacket& p) const noexcept { return p.source == host; }
};

struct Conversations {
  std::vector<Conversation> all;
  /// Packets of the host that are not replayed, by the name of their service.
  std::map<std::string_view, std::uint64_t> left_out;
};

/// Those that `host` takes part in. They borrow the packets.
[[nodiscard]] Conversations conversations_of(const std::vector<RecordedPacket>& packets,
                                             const IpAddress& host);

/// All addresses that packets come from or go to.
[[nodiscard]] std::vector<IpAddress> hosts_of(const std::vector<RecordedPacket>& packets);

}  // namespace h4a::apps
