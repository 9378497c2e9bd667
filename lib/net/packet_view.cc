#include "net/packet_view.h"

#include <fmt/format.h>

#include "net/esp.h"
#include "net/icmp.h"
#include "net/icmpv6.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/udp.h"

namespace h4a::net {
namespace {

static_assert(EtherView::kSizeMax + Ipv6View::kSize + Ipv6View::kExtensionBytesMax <= 0xff);
static_assert(EtherView::kSizeMax + Ipv4View::kSizeMax <= 0xff);

Drop drop_for_ip(Error e) noexcept {
  if (e == Error::kTruncated) return Drop::kTruncated;
  return e == Error::kBadVersion ? Drop::kBadIpVersion : Drop::kBadIpHeader;
}

/// Proves the transport header, and for UDP its length.
Drop walk_transport(PacketView& v) noexcept {
  v.transport_end = v.l3_end;
  const Bytes b = v.transport();
  switch (v.protocol) {
    case IpProtocol::kUdp: {
      const auto udp = UdpView::parse(b);
      if (!udp) return Drop::kBadUdp;
      v.transport_end = v.transport_offset + std::uint32_t{udp->length()};
      return Drop::kNone;
    }
    case IpProtocol::kEsp:
      return b.size() < EspView::kSize ? Drop::kTruncated : Drop::kNone;
    case IpProtocol::kIcmp:
      return b.size() < IcmpView::kSize ? Drop::kBadIcmp : Drop::kNone;
    case IpProtocol::kIcmpv6:
      return b.size() < Icmpv6View::kSize ? Drop::kBadIcmp : Drop::kNone;
    default:
      return Drop::kNone;
  }
}

enum class Mode { kReceive, kInspect };

template <Mode mode>
Drop walk_ipv4(PacketView& v, Bytes packet) noexcept {
  const auto ip = Ipv4View::parse(packet);
  if (!ip) [[unlikely]]
    return drop_for_ip(ip.error());
  if (!ip->checksum_ok()) [[unlikely]] {
    if (mode == Mode::kReceive) return Drop::kBadIpChecksum;
    v.ip_checksum_ok = false;
  }
  if (ip->is_fragment()) [[unlikely]]
    return Drop::kFragment;
  v.ip_version = 4;
  v.source = ip->source();
  v.destination = ip->destination();
  v.ttl = ip->ttl();
  v.tos = ip->tos();
  v.protocol = ip->protocol();
  v.l3_end = v.l3_offset + std::uint32_t{ip->total_length()};
  v.transport_offset = static_cast<std::uint8_t>(v.l3_offset + ip->header_size());
  if (packet[12] >= 0xe0 && packet[12] < 0xf0) [[unlikely]]
    return Drop::kBadAddress;
  return walk_transport(v);
}

Drop walk_ipv6(PacketView& v, Bytes packet) noexcept {
  const auto ip = Ipv6View::parse(packet);
  if (!ip) [[unlikely]]
    return drop_for_ip(ip.error());
  const auto transport = ip->transport();
  if (!transport) [[unlikely]]
    return drop_for_ip(transport.error());
  if (transport->fragment) [[unlikely]]
    return Drop::kFragment;
  v.ip_version = 6;
  v.source = ip->source();
  v.destination = ip->destination();
  v.ttl = ip->hop_limit();
  v.tos = ip->traffic_class();
  v.protocol = transport->protocol;
  v.l3_end = static_cast<std::uint32_t>(v.l3_offset + ip->packet().size());
  v.transport_offset = static_cast<std::uint8_t>(v.l3_offset + transport->offset);
  if (v.source.is_multicast() || v.source.is_v4() || v.destination.is_v4()) [[unlikely]]
    return Drop::kBadAddress;
  return walk_transport(v);
}

template <Mode mode>
Drop walk_frame(PacketView& v, Bytes frame) noexcept {
  const auto ether = EtherView::parse(frame);
  if (!ether) [[unlikely]]
    return ether.error() == Error::kTruncated ? Drop::kTruncated : Drop::kBadVlan;
  v.type = ether->type();
  v.tag_count = static_cast<std::uint8_t>(ether->tag_count());
  v.l3_offset = static_cast<std::uint8_t>(ether->header_size());
  switch (v.type) {
    case EtherType::kIpv4:
      return walk_ipv4<mode>(v, ether->rest());
    case EtherType::kIpv6:
      return walk_ipv6(v, ether->rest());
    case EtherType::kArp:
      v.l3_end = v.transport_end = static_cast<std::uint32_t>(frame.size());
      v.transport_offset = v.l3_offset;
      return Drop::kNone;
    default:
      return Drop::kUnknownEthertype;
  }
}

template <Mode mode>
tl::expected<PacketView, Drop> walk(Bytes frame) noexcept {
  tl::expected<PacketView, Drop> result;
  result->frame = frame.data();
  const Drop drop = walk_frame<mode>(*result, frame);
  if (drop != Drop::kNone) [[unlikely]]
    result = tl::unexpected(drop);
  return result;
}

template <Mode mode>
tl::expected<PacketView, Drop> walk_ip(Bytes packet) noexcept {
  if (packet.empty()) return tl::unexpected(Drop::kTruncated);
  tl::expected<PacketView, Drop> result;
  result->frame = packet.data();
  const bool v6 = packet[0] >> 4 == 6;
  result->type = v6 ? EtherType::kIpv6 : EtherType::kIpv4;
  const Drop drop = v6 ? walk_ipv6(*result, packet) : walk_ipv4<mode>(*result, packet);
  if (drop != Drop::kNone) [[unlikely]]
    result = tl::unexpected(drop);
  return result;
}

}  // namespace

VlanTag PacketView::tag(std::size_t i) const noexcept {
  return load_vlan_tag(frame + 12 + i * EtherView::kTagSize);
}

tl::expected<PacketView, Drop> parse_packet(Bytes frame) noexcept {
  return walk<Mode::kReceive>(frame);
}

tl::expected<PacketView, Drop> inspect_packet(Bytes frame) noexcept {
  return walk<Mode::kInspect>(frame);
}

tl::expected<PacketView, Drop> parse_ip_packet(Bytes packet) noexcept {
  return walk_ip<Mode::kReceive>(packet);
}

tl::expected<PacketView, Drop> inspect_ip_packet(Bytes packet) noexcept {
  return walk_ip<Mode::kInspect>(packet);
}

std::string to_string(const PacketView& v) {
  std::string s;
  if (v.has_link_header())
    s = fmt::format("{} > {} ", to_string(v.source_mac()), to_string(v.destination_mac()));
  for (std::size_t i = 0; i < v.tag_count; ++i) s += fmt::format("vlan {} ", v.tag(i).id);
  if (v.ip_version == 0) return s + "arp";
  return s + fmt::format("{} > {} ipv{} proto {} length {}", to_string(v.source),
                         to_string(v.destination), v.ip_version, static_cast<unsigned>(v.protocol),
                         v.ip_size());
}

}  // namespace h4a::net
