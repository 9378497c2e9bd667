// The walk. Spec: RFC 791, RFC 8200, RFC 768, RFC 3948 (UDP encapsulation), RFC 4303, IBA vol. 1 §9.2,
// annex A16 (RoCEv1), A17 (RoCEv2).
#include "apps/replay_frame.h"

#include <algorithm>

#include "apps/replay_link.h"
#include "ipsec/ip_header.h"
#include "net/arp.h"
#include "net/bth.h"
#include "net/esp.h"
#include "net/ether.h"
#include "net/icmp.h"
#include "net/icmpv6.h"
#include "net/icrc.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/udp.h"

namespace h4a::apps {
namespace {

constexpr std::size_t kGrh = 40;
constexpr std::uint8_t kGrhNextHeaderBth = 0x1b;
constexpr std::uint8_t kIpv4InIp = 4;
constexpr std::uint8_t kIpv6InIp = 41;

std::string_view protocol_name(net::IpProtocol protocol) noexcept {
  switch (protocol) {
    case net::IpProtocol::kUdp:
      return "udp";
    case net::IpProtocol::kTcp:
      return "tcp";
    case net::IpProtocol::kEsp:
      return "esp";
    case net::IpProtocol::kIcmp:
      return "icmp";
    case net::IpProtocol::kIcmpv6:
      return "icmpv6";
    default:
      return "ip";
  }
}

/// Where an opened packet's own protocol is named: the outer one stays "esp".
void name(FrameReport& r, bool inner, std::string_view protocol) {
  (inner ? r.inner_protocol : r.protocol) = protocol;
}

void malformed(FrameReport& r, Drop why, std::string_view where, std::size_t offset, bool inner) {
  r.drop(why);
  r.where = where;
  if (!inner) r.offset = static_cast<std::uint32_t>(offset);
}

/// The transport protocol of a packet that is cut or lies about its length, as far as it can be read.
struct Quoted {
  net::IpProtocol protocol = net::IpProtocol::kNoNextHeader;
  std::size_t offset = 0;  // of the transport header; 0: the IP header itself is wrong
};

Quoted quote(Bytes packet) noexcept {
  if (const auto v4 = net::Ipv4View::parse_quoted(packet))
    return {v4->protocol(), v4->header_size()};
  if (const auto v6 = net::Ipv6View::parse_quoted(packet))
    if (const auto t = v6->transport()) return {t->protocol, t->offset};
  return {};
}

/// True if the IP header holds and the fault lies behind it.
bool ip_holds(Bytes packet) noexcept {
  return net::Ipv4View::parse(packet).has_value() || net::Ipv6View::parse(packet).has_value();
}

/// Fills in BTH's fields and the verdict on structure and ICRC. `packet` is BTH to ICRC.
void transport_packet(Bytes packet, std::uint32_t computed, std::size_t offset, FrameReport& r,
                      bool inner) {
  const Bytes covered = packet.first(packet.size() - net::kIcrcSize);
  r.icrc_on_wire = net::load_icrc(&packet[covered.size()]);
  const bool right = computed == r.icrc_on_wire;
  r.icrc = right ? Check::kOk : Check::kBad;
  r.opcode = net::opcode_name(covered[0]);
  r.dest_qp = load_be24(&covered[5]);
  r.psn = load_be24(&covered[9]);
  if (!right) return malformed(r, Drop::kBadIcrc, "icrc", offset + covered.size(), inner);
  const auto parsed = net::parse_transport(covered);
  if (!parsed) return malformed(r, parsed.error(), "bth", offset, inner);
  r.payload_bytes = static_cast<std::uint32_t>(parsed->payload().size());
  if (!parsed->row().has(net::Header::kAeth)) return;
  r.syndrome = parsed->aeth().syndrome;
  const net::AckKind kind = parsed->aeth().kind();
  if (kind == net::AckKind::kReserved || kind == net::AckKind::kNakReserved)
    malformed(r, Drop::kBadSyndrome, "aeth", offset + net::BthView::kSize, inner);
}

}  // namespace

FrameReport Dissector::dissect(const net::CaptureRecord& record, std::uint64_t number) {
  FrameReport r;
  r.frame = number;
  r.time_ns = record.time_ns;
  r.size = static_cast<std::uint32_t>(record.bytes.size());
  r.original_size = record.original_size;
  const LinkPayload link = link_payload(record);
  switch (link.kind) {
    case LinkPayload::Kind::kEthernet:
      ethernet(link.bytes, r);
      break;
    case LinkPayload::Kind::kIp:
      ip(link.bytes, r, false);
      break;
    case LinkPayload::Kind::kArp:
      arp(link.bytes, r);
      break;
    case LinkPayload::Kind::kNone:
      if (link.drop == Drop::kUnknownLinkType) {
        r.unchecked(link.drop);
      } else {
        malformed(r, link.drop, to_string(record.link_type), 0, false);
      }
      break;
  }
  // Offsets so far count from the packet; the report's count from the record.
  if (r.offset && !link.bytes.empty())
    *r.offset += static_cast<std::uint32_t>(link.bytes.data() - record.bytes.data());
  return r;
}

void Dissector::ethernet(Bytes frame, FrameReport& r) {
  r.protocol = "ethernet";
  const auto ether = net::EtherView::parse(frame);
  if (!ether) {
    const bool cut = ether.error() == Error::kTruncated;
    return malformed(r, cut ? Drop::kTruncated : Drop::kBadVlan, "ethernet", 0, false);
  }
  r.vlan_tags = static_cast<std::uint8_t>(ether->tag_count());
  switch (ether->type()) {
    case net::EtherType::kIpv4:
      ip_of_version(4, ether->rest(), r);
      break;
    case net::EtherType::kIpv6:
      ip_of_version(6, ether->rest(), r);
      break;
    case net::EtherType::kArp:
      arp(ether->rest(), r);
      break;
    case net::EtherType::kRocev1:
      rocev1(ether->rest(), r);
      break;
    default:
      malformed(r, Drop::kUnknownEthertype, "ethernet", 0, false);
      return;
  }
  if (r.offset) *r.offset += static_cast<std::uint32_t>(ether->header_size());
}

// The version in the header has to be the one that the Ethernet type promises.
void Dissector::ip_of_version(unsigned version, Bytes packet, FrameReport& r) {
  if (packet.empty() || packet[0] >> 4 == version) return ip(packet, r, false);
  r.protocol = "ip";
  malformed(r, Drop::kBadIpVersion, "ip", 0, false);
}

// GRH, BTH, payload, pad, ICRC; the GRH's payload length runs from BTH to the ICRC.
void Dissector::rocev1(Bytes packet, FrameReport& r) const {
  r.protocol = "rocev1";
  if (packet.size() < kGrh) return malformed(r, Drop::kTruncated, "grh", 0, false);
  if (packet[0] >> 4 != 6 || packet[6] != kGrhNextHeaderBth)
    return malformed(r, Drop::kBadIpHeader, "grh", 0, false);
  r.source = IpAddress::load_v6(&packet[8]);
  r.destination = IpAddress::load_v6(&packet[24]);
  const std::size_t length = load_be16(&packet[4]);
  if (length > packet.size() - kGrh) return malformed(r, Drop::kTruncated, "grh", 0, false);
  if (length < net::BthView::kSize + net::kIcrcSize) {
    r.icrc = Check::kNone;
    return malformed(r, Drop::kTruncated, "bth", kGrh, false);
  }
  const std::uint32_t computed = net::icrc_rocev1(packet.first(kGrh + length - net::kIcrcSize));
  transport_packet(packet.subspan(kGrh, length), computed, kGrh, r, false);
}

void Dissector::arp(Bytes packet, FrameReport& r) const {
  r.protocol = "arp";
  const auto view = net::ArpView::parse(packet);
  if (!view) {
    const bool cut = view.error() == Error::kTruncated;
    return malformed(r, cut ? Drop::kTruncated : Drop::kBadArp, "arp", 0, false);
  }
  r.source = view->sender_ip();
  r.destination = view->target_ip();
}

void Dissector::ip(Bytes packet, FrameReport& r, bool inner) {
  name(r, inner, "ip");
  const auto view = net::inspect_ip_packet(packet);
  if (view) {
    (inner ? r.inner_source : r.source) = view->source;
    (inner ? r.inner_destination : r.destination) = view->destination;
    if (!view->ip_checksum_ok) r.bad_ip_checksum = true;
    return transport(*view, r, inner);
  }
  const Quoted quoted = quote(packet);
  if (quoted.offset != 0 && view.error() != Drop::kFragment)
    name(r, inner, protocol_name(quoted.protocol));
  const bool behind_ip = quoted.offset != 0 && ip_holds(packet) &&
                         view.error() != Drop::kFragment && view.error() != Drop::kBadAddress;
  malformed(r, view.error(), behind_ip ? protocol_name(quoted.protocol) : "ip",
            behind_ip ? quoted.offset : 0, inner);
}

void Dissector::transport(const net::PacketView& view, FrameReport& r, bool inner) {
  name(r, inner, protocol_name(view.protocol));
  switch (view.protocol) {
    case net::IpProtocol::kUdp:
      return udp(view, r, inner);
    case net::IpProtocol::kIcmp:
    case net::IpProtocol::kIcmpv6:
      return icmp(view, r);
    case net::IpProtocol::kEsp:
      if (!inner) return esp(view, view.transport(), r);
      break;  // ESP inside ESP is not looked into
    default:
      break;
  }
  r.unchecked(Drop::kUnknownIpProtocol);
}

void Dissector::udp(const net::PacketView& view, FrameReport& r, bool inner) {
  const std::uint16_t from = load_be16(view.frame + view.transport_offset);
  const std::uint16_t to = load_be16(view.frame + view.transport_offset + 2);
  if (to == net::kRoceUdpPort) {
    name(r, inner, "roce");
    return roce(view, r);
  }
  if (!inner && (to == net::kUdpEncapPort || from == net::kUdpEncapPort)) return udp_encap(view, r);
  r.unchecked(Drop::kUnknownUdpPort);
}

void Dissector::roce(const net::PacketView& view, FrameReport& r) const {
  const bool inner = !r.inner_protocol.empty();
  const Bytes payload = view.udp_payload();
  const std::size_t bth_at = view.transport_offset + net::UdpView::kSize;
  if (payload.size() < net::BthView::kSize + net::kIcrcSize) {
    r.icrc = Check::kNone;
    return malformed(r, Drop::kTruncated, "bth", bth_at, inner);
  }
  // From the IP header to the end of the UDP datagram: what follows it is padding of others.
  const Bytes packet{view.frame + view.l3_offset, view.transport_end - std::size_t{view.l3_offset}};
  const std::uint32_t computed = net::icrc(packet.first(packet.size() - net::kIcrcSize),
                                           view.transport_offset - std::size_t{view.l3_offset});
  transport_packet(payload, computed, bth_at, r, inner);
  if (hook_ && r.verdict == Verdict::kOk)
    hook_(r, view, payload.first(payload.size() - net::kIcrcSize));
}

void Dissector::icmp(const net::PacketView& view, FrameReport& r) const {
  const bool v4 = view.protocol == net::IpProtocol::kIcmp;
  const Bytes message = view.transport();
  bool right = v4 == (view.ip_version == 4);
  if (right && v4) {
    const auto icmp = net::IcmpView::parse(message);
    right = icmp && icmp->checksum_ok();
  } else if (right) {
    const auto icmp = net::Icmpv6View::parse(message);
    right = icmp && icmp->checksum_ok(view.source, view.destination);
  }
  const bool inner = !r.inner_protocol.empty();
  if (!right)
    malformed(r, Drop::kBadIcmp, protocol_name(view.protocol), view.transport_offset, inner);
}

void Dissector::udp_encap(const net::PacketView& view, FrameReport& r) {
  const Bytes payload = view.udp_payload();
  const std::size_t at = view.transport_offset + net::UdpView::kSize;
  switch (net::classify_udp_encap(payload)) {
    case net::UdpEncap::kKeepalive:
      return r.drop(Drop::kUdpEncapKeepalive);
    case net::UdpEncap::kIke:
      r.protocol = "ike";
      return r.unchecked(Drop::kUdpEncapIke);
    case net::UdpEncap::kBad:
      return malformed(r, Drop::kBadUdpEncap, "udp", at, false);
    case net::UdpEncap::kEsp:
      break;
  }
  r.protocol = "esp";
  r.udp_encap = true;
  esp(view, payload, r);
}

void Dissector::esp(const net::PacketView& view, Bytes packet, FrameReport& r) {
  const auto header = net::EspView::parse(packet);
  const auto at = static_cast<std::size_t>(packet.data() - view.frame);
  if (!header) return malformed(r, Drop::kTruncated, "esp", at, false);
  r.spi = header->spi().value();
  const OpenedEsp esp = opener_.open(packet, view.source, view.destination);
  r.sequence = esp.sequence;
  r.suite = esp.algorithm;
  switch (esp.icv) {
    case OpenedEsp::Icv::kNone:
      r.icv = Check::kNone;
      return malformed(r, esp.drop, "esp", at, false);
    case OpenedEsp::Icv::kNoKey:
      r.icv = Check::kNoKey;
      return r.unchecked(Drop::kNoSa);
    case OpenedEsp::Icv::kNoSuite:
      return r.unchecked(Drop::kUnsupportedSuite);
    case OpenedEsp::Icv::kBad:
      r.icv = Check::kBad;
      return r.drop(Drop::kBadIcv);
    case OpenedEsp::Icv::kOk:
      break;
  }
  r.icv = Check::kOk;
  r.esn = esp.esn;
  if (esp.drop != Drop::kNone) return r.drop(esp.drop);
  opened(view, esp, r);
}

void Dissector::opened(const net::PacketView& view, const OpenedEsp& esp, FrameReport& r) {
  const bool tunnel = esp.next_header == kIpv4InIp || esp.next_header == kIpv6InIp;
  r.mode = tunnel ? "tunnel" : "transport";
  if (!tunnel) return ip(rebuild(view, esp), r, true);
  const unsigned version = esp.next_header == kIpv4InIp ? 4 : 6;
  if (!esp.payload.empty() && esp.payload[0] >> 4 != version)
    return malformed(r, Drop::kBadIpVersion, "ip", 0, true);
  ip(esp.payload, r, true);
}

/// The packet as it was before ESP in transport mode, over UDP or not: ICRC and checksums are its.
Bytes Dissector::rebuild(const net::PacketView& view, const OpenedEsp& esp) {
  const std::uint8_t* ip_header = view.frame + view.l3_offset;
  const std::size_t header_size = view.transport_offset - std::size_t{view.l3_offset};
  inner_.resize(header_size + esp.payload.size());
  std::copy_n(ip_header, header_size, inner_.begin());
  std::copy(esp.payload.begin(), esp.payload.end(),
            inner_.begin() + static_cast<std::ptrdiff_t>(header_size));
  ipsec::IpHeader header(MutableBytes(inner_).first(header_size));
  if (header.protocol() != nullptr)
    header.rewrite(static_cast<net::IpProtocol>(esp.next_header), esp.payload.size());
  return inner_;
}

}  // namespace h4a::apps
