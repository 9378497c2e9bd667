// Drop reasons: why a packet that a peer or the network sent went no further. Every drop has a name and
// a counter (DESIGN D11). docs/DROPS.md is made from this list and a test keeps the two equal.
//
// To add a reason: one row here, then `scripts/drops --write` for the page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace h4a {

// X(enumerator, "name", "what it means and what to look at")
#define H4A_DROP_REASONS(X)                                                                        \
  /* link and network */                                                                           \
  X(kTruncated, "truncated", "fewer bytes than the headers need or the length fields claim")       \
  X(kOversize, "oversize", "longer than the MTU or than a frame buffer")                           \
  X(kBadMac, "bad_mac", "not for our MAC address, broadcast or a multicast group of ours")         \
  X(kUnknownEthertype, "unknown_ethertype", "a protocol above Ethernet that we do not speak")      \
  X(kBadVlan, "bad_vlan", "more than two VLAN tags, or a VLAN this port is not in")                \
  X(kBadArp, "bad_arp", "ARP packet of a wrong shape")                                             \
  X(kBadIpVersion, "bad_ip_version", "IP version is neither 4 nor 6, or not the ethertype's")      \
  X(kBadIpHeader, "bad_ip_header", "IHL, total length or extension headers are inconsistent")      \
  X(kBadIpChecksum, "bad_ip_checksum", "IPv4 header checksum is wrong")                            \
  X(kFragment, "fragment", "IP fragment: RoCEv2 and ESP are never fragmented here")                \
  X(kBadAddress, "bad_address", "source or destination address is not valid for us")               \
  X(kUnknownIpProtocol, "unknown_ip_protocol", "an IP protocol that we do not speak")              \
  X(kBadIcmp, "bad_icmp", "ICMP, ICMPv6 or NDP message malformed or with a wrong checksum")        \
  X(kIcmpUnhandled, "icmp_unhandled", "a valid ICMP message that needs no answer")                 \
  X(kBadUdp, "bad_udp", "UDP length or checksum is wrong")                                         \
  X(kUnknownUdpPort, "unknown_udp_port", "no one listens on this UDP port")                        \
  X(kNoNeighbour, "no_neighbour", "the next hop's MAC address could not be resolved")              \
  X(kNoRoute, "no_route", "no path to the destination address")                                    \
  X(kMtuTooSmall, "mtu_too_small", "the packet does not fit the port's MTU")                       \
  X(kTransmitFull, "transmit_full", "the port took no more frames; the transport sends it again")  \
  X(kNoFrames, "no_frames", "the frame pool was empty")                                            \
  X(kInjected, "injected", "dropped on purpose by the fault injector")                             \
  /* ESP */                                                                                        \
  X(kUdpEncapKeepalive, "udp_encap_keepalive", "NAT keepalive (one byte ff), RFC 3948 2.3")        \
  X(kUdpEncapIke, "udp_encap_ike", "IKE behind the non-ESP marker; no IKE daemon is attached")     \
  X(kBadUdpEncap, "bad_udp_encap", "too short for ESP or a non-ESP marker on port 4500")           \
  X(kBadSpi, "bad_spi", "SPI 0, which is never on the wire (RFC 4303 2.1)")                        \
  X(kNoSa, "no_sa", "no security association for this SPI and destination")                        \
  X(kReplayed, "replayed", "ESP sequence number was received already")                             \
  X(kReplayOld, "replay_old", "ESP sequence number is left of the replay window")                  \
  X(kBadSequence, "bad_sequence", "ESP sequence number 0 without ESN")                             \
  X(kBadIcv, "bad_icv", "integrity check failed: wrong key, wrong ESN state or a forged packet")   \
  X(kBadEspTrailer, "bad_esp_trailer", "pad length or padding does not fit the decrypted data")    \
  X(kEspDummy, "esp_dummy", "dummy packet (next header 59), discarded as RFC 4303 2.6 says")       \
  X(kBadEspNextHeader, "bad_esp_next_header",                                                      \
    "next header inside ESP that this SA does not carry")                                          \
  X(kSaExpired, "sa_expired", "hard limit of the key reached; it opens and seals no more")         \
  X(kSaExhausted, "sa_exhausted", "ESP sequence numbers used up")                                  \
  X(kNeedsEsp, "needs_esp", "clear packet for a protected queue pair")                             \
  X(kWrongAssociation, "wrong_association",                                                        \
    "protected packet through an association that does not own the queue pair")                    \
  /* RoCE */                                                                                       \
  X(kBadIcrc, "bad_icrc", "invariant CRC is wrong")                                                \
  X(kBadBth, "bad_bth", "transport header version is not 0")                                       \
  X(kBadOpcode, "bad_opcode", "opcode is reserved or does not fit the queue pair's type")          \
  X(kBadExtendedHeader, "bad_extended_header", "the extended headers of the opcode do not fit")    \
  X(kBadPad, "bad_pad", "pad count is larger than the payload or wrong for the opcode")            \
  X(kBadPkey, "bad_pkey", "partition key does not match")                                          \
  X(kNoQp, "no_qp", "no queue pair of this number")                                                \
  X(kBadQpState, "bad_qp_state", "queue pair is not in a state that receives")                     \
  X(kWrongPeer, "wrong_peer", "packet for a connected queue pair from another address")            \
  X(kDuplicatePsn, "duplicate_psn", "request executed already; acknowledged again")                \
  X(kOutOfSequence, "out_of_sequence", "request ahead of the expected PSN; NAK sent once a gap")   \
  X(kReceiverNotReady, "receiver_not_ready", "no receive work request was posted; RNR NAK sent")   \
  X(kUnexpectedAck, "unexpected_ack", "acknowledgement or response that nothing waits for")        \
  X(kBadSyndrome, "bad_syndrome", "reserved AETH syndrome")                                        \
  X(kInvalidRequest, "invalid_request", "request breaks the order or length rules; NAK sent")      \
  X(kRemoteAccess, "remote_access", "rkey, bounds, rights or association do not match; NAK sent")  \
  X(kRemoteOperational, "remote_operational", "responder could not execute the request; NAK sent") \
  X(kRetired, "retired", "WRITE into a retired window: acknowledged and discarded")                \
  X(kBadQkey, "bad_qkey", "datagram with another Q_Key than the queue pair's")                     \
  X(kNoReceive, "no_receive", "unreliable message, and no receive work request was posted for it") \
  X(kReceiveTooShort, "receive_too_short",                                                         \
    "unreliable message longer than the receive work request that it met")                         \
  X(kMessageBroken, "message_broken",                                                              \
    "rest of an unreliable message that lost a packet or was refused before")                      \
  X(kCnpUnhandled, "cnp_unhandled", "congestion notification; no controller is attached")          \
  /* management datagrams and RDMA-CM */                                                           \
  X(kBadMad, "bad_mad", "management datagram of a wrong size, version or method")                  \
  X(kUnknownMadClass, "unknown_mad_class", "management class that we do not speak")                \
  X(kUnknownCmAttribute, "unknown_cm_attribute", "CM message of an unknown kind")                  \
  X(kBadCmMessage, "bad_cm_message", "CM message whose fields contradict each other or the spec")  \
  X(kCmWrongPeer, "cm_wrong_peer",                                                                 \
    "CM message that names other addresses than its packet, or not from the connection's peer")    \
  X(kCmUnmatched, "cm_unmatched", "CM message for no connection and no listener of ours")          \
  X(kCmDuplicate, "cm_duplicate", "CM message received already; answered again if it needs it")    \
  X(kCmUnexpected, "cm_unexpected", "CM message that the connection does not take in this state")  \
  X(kCmRefused, "cm_refused", "connection request answered with a REJ; it names the reason")       \
  X(kCmOutputFull, "cm_output_full",                                                               \
    "a CM answer was not sent for lack of room; the peer repeats")                                 \
  /* capture replay */                                                                             \
  X(kUnknownLinkType, "unknown_link_type", "capture with a link type that is not read")            \
  X(kUnsupportedSuite, "unsupported_suite", "the key is of an ESP suite that is not built")

enum class Drop : std::uint8_t {
  kNone = 0,
#define H4A_DROP_ENUM(e, name, text) e,
  H4A_DROP_REASONS(H4A_DROP_ENUM)
#undef H4A_DROP_ENUM
};

struct DropInfo {
  std::string_view name;  // stable, as in docs/DROPS.md, --json output and metrics
  std::string_view text;
};

#define H4A_DROP_COUNT(e, name, text) +1
/// Number of values of Drop, kNone included.
inline constexpr std::size_t kDropCount = 1 H4A_DROP_REASONS(H4A_DROP_COUNT);
#undef H4A_DROP_COUNT

[[nodiscard]] const DropInfo& info(Drop reason) noexcept;
[[nodiscard]] inline std::string_view to_string(Drop reason) noexcept {
  return info(reason).name;
}

/// One counter for each reason.
class DropCounters {
 public:
  void add(Drop reason, std::uint64_t n = 1) noexcept {
    counts_[static_cast<std::size_t>(reason)] += n;
  }
  [[nodiscard]] std::uint64_t operator[](Drop reason) const noexcept {
    return counts_[static_cast<std::size_t>(reason)];
  }
  /// Calls f(Drop, count) for each reason that was counted.
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t i = 1; i < kDropCount; ++i)
      if (counts_[i] != 0) f(static_cast<Drop>(i), counts_[i]);
  }
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 1; i < kDropCount; ++i) sum += counts_[i];
    return sum;
  }
  DropCounters& operator+=(const DropCounters& o) noexcept {
    for (std::size_t i = 0; i < kDropCount; ++i) counts_[i] += o.counts_[i];
    return *this;
  }

 private:
  std::array<std::uint64_t, kDropCount> counts_{};
};

}  // namespace h4a
