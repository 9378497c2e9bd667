// One walk over a received frame, Ethernet → IP → ESP, UDP, ICMP, that proves every length on the
// way.
//
// The walk does each check once, in the order of the bytes: link header, version, header length,
// total length, header checksum, fragmentation, extension headers, transport header. What follows
// the IP packet in the frame (Ethernet pad, a trailer) is not part of anything. A view that came
// out may be read at all its offsets without another check. Spec: RFC 894, RFC 791, RFC 1122
// §3.2.1, RFC 8200, IBA annex A17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tl/expected.hpp>

#include "base/address.h"
#include "base/bytes.h"
#include "base/drop.h"
#include "net/ether.h"
#include "net/ip_protocol.h"

namespace h4a::net {

/// A proven packet; offsets count from the first byte of the frame. Borrows the frame.
/// If `type` is kArp, the IP members have no meaning, except that l3_offset .. l3_end is the ARP
/// packet (with link pad).
struct PacketView {
  const std::uint8_t* frame = nullptr;
  IpAddress source;
  IpAddress destination;
  std::uint32_t l3_end = 0;         // end of the IP packet; link pad lies behind
  std::uint32_t transport_end = 0;  // end of the UDP datagram; l3_end for other protocols
  EtherType type = EtherType::kIpv4;
  std::uint8_t ip_version = 0;        // 4, 6; 0: not IP
  std::uint8_t tag_count = 0;         // VLAN tags, 0..2
  std::uint8_t l3_offset = 0;         // of the IP header; 0 if the frame has no link header
  std::uint8_t transport_offset = 0;  // of the header that `protocol` names
  IpProtocol protocol = IpProtocol::kNoNextHeader;  // behind IPv6 extension headers
  std::uint8_t ttl = 0;                             // or hop limit
  std::uint8_t tos = 0;                             // or traffic class
  bool ip_checksum_ok = true;                       // false only out of inspect_packet()

  [[nodiscard]] bool has_link_header() const noexcept { return l3_offset != 0; }
  /// has_link_header() must hold for these four.
  [[nodiscard]] MacAddress destination_mac() const noexcept { return MacAddress::load(frame); }
  /// True if the frame is addressed to `mac` or to a group. Compares in the frame.
  [[nodiscard]] bool is_for(const MacAddress& mac) const noexcept {
    return std::memcmp(frame, mac.bytes().data(), MacAddress::kSize) == 0 || (frame[0] & 1) != 0;
  }
  [[nodiscard]] MacAddress source_mac() const noexcept { return MacAddress::load(frame + 6); }
  /// Tag `i` from the outside, i < tag_count.
  [[nodiscard]] VlanTag tag(std::size_t i) const noexcept;

  [[nodiscard]] Ecn ecn() const noexcept { return static_cast<Ecn>(tos & 3); }
  /// The IP packet, header included. Its size is what a port's MTU bounds: tags and pad do not
  /// count.
  [[nodiscard]] Bytes ip_packet() const noexcept {
    return {frame + l3_offset, l3_end - std::size_t{l3_offset}};
  }
  [[nodiscard]] std::size_t ip_size() const noexcept { return l3_end - std::size_t{l3_offset}; }
  /// Transport header and what it covers.
  [[nodiscard]] Bytes transport() const noexcept {
    return {frame + transport_offset, transport_end - std::size_t{transport_offset}};
  }
  /// What follows the UDP header. Only if `protocol` is kUdp.
  [[nodiscard]] Bytes udp_payload() const noexcept { return transport().subspan(8); }
};

/// Walks an Ethernet frame. Reads nothing behind `frame`, whatever it holds.
/// ARP frames pass as they are (ArpView proves them). Other protocols than UDP, ESP, ICMP and
/// ICMPv6 pass too, and are for the caller to reject.
/// @return kTruncated, kBadVlan, kUnknownEthertype, kBadIpVersion, kBadIpHeader, kBadIpChecksum,
/// kFragment (any fragment, the first too, and any IPv6 fragment header: neither RoCEv2 nor our ESP
/// is ever fragmented, IBA annex A17; atomic fragments, RFC 6946, are not sent by anyone who
/// follows RFC 8021), kBadAddress (multicast source; IPv4-mapped addresses in an IPv6 header, which
/// would pass for IPv4), kBadUdp, kBadIcmp. UDP and ICMP checksums are not verified here.
/// Thread: any. Allocates nothing. Cost: about 40 cycles for an untagged packet in the cache.
[[nodiscard]] tl::expected<PacketView, Drop> parse_packet(Bytes frame) noexcept;

/// The same for a frame that starts at the IP header (raw IP captures, tunnels); both versions.
[[nodiscard]] tl::expected<PacketView, Drop> parse_ip_packet(Bytes packet) noexcept;

/// parse_packet() for tools that look at captures: a wrong IPv4 header checksum is a fact in the
/// view (`ip_checksum_ok`) and not a drop, since senders with checksum offload are captured so, and
/// what lies behind (an ICRC) is worth a verdict of its own.
[[nodiscard]] tl::expected<PacketView, Drop> inspect_packet(Bytes frame) noexcept;
/// The same for a frame that starts at the IP header.
[[nodiscard]] tl::expected<PacketView, Drop> inspect_ip_packet(Bytes packet) noexcept;

[[nodiscard]] std::string to_string(const PacketView& v);

}  // namespace h4a::net
