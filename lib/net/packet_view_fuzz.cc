// The walk over a whole frame. Whatever comes out lies within the frame and agrees with the views of the
// single headers; inspection differs from reception in the IPv4 header checksum alone. The checksum is
// also mended and the frame walked again, so that mutation reaches what lies behind it.
#include <vector>

#include "base/assert.h"
#include "net/arp.h"
#include "net/esp.h"
#include "net/icmp.h"
#include "net/icmpv6.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/packet_view.h"
#include "net/udp.h"

namespace {

using namespace h4a;
using namespace h4a::net;

void check_transport(const PacketView& v) {
  const Bytes b = v.transport();
  switch (v.protocol) {
    case IpProtocol::kUdp: {
      const auto udp = UdpView::parse(b);
      H4A_ASSERT(udp.has_value() && udp->bytes().size() == b.size());
      H4A_ASSERT(udp->payload().data() == v.udp_payload().data());
      (void)udp->checksum_ok(v.source, v.destination);
      return;
    }
    case IpProtocol::kEsp:
      H4A_ASSERT(EspView::parse(b).has_value());
      return;
    case IpProtocol::kIcmp:
      H4A_ASSERT(IcmpView::parse(b).has_value());
      return;
    case IpProtocol::kIcmpv6:
      H4A_ASSERT(Icmpv6View::parse(b).has_value());
      return;
    default:
      return;
  }
}

void check_network(const PacketView& v) {
  if (v.ip_version == 4) {
    const auto ip = Ipv4View::parse(v.ip_packet());
    H4A_ASSERT(ip.has_value() && !ip->is_fragment());
    H4A_ASSERT(ip->source() == v.source && ip->destination() == v.destination);
    H4A_ASSERT(ip->total_length() == v.ip_size() && ip->checksum_ok() == v.ip_checksum_ok);
  } else {
    const auto ip = Ipv6View::parse(v.ip_packet());
    H4A_ASSERT(ip.has_value() && !ip->transport()->fragment);
    H4A_ASSERT(ip->source() == v.source && ip->destination() == v.destination);
    H4A_ASSERT(!v.source.is_v4() && !v.destination.is_v4());
  }
}

void check_view(const PacketView& v, Bytes frame) {
  H4A_ASSERT(!to_string(v).empty());
  H4A_ASSERT(v.l3_offset <= v.transport_offset && v.transport_offset <= v.transport_end);
  H4A_ASSERT(v.transport_end <= v.l3_end && v.l3_end <= frame.size());
  for (std::size_t i = 0; i < v.tag_count; ++i) H4A_ASSERT(is_vlan(v.tag(i).tpid));
  if (v.ip_version == 0) {
    (void)ArpView::parse(v.ip_packet());
    return;
  }
  check_network(v);
  check_transport(v);
}

void check_frame(Bytes frame) {
  const auto inspected = inspect_packet(frame);
  const auto received = parse_packet(frame);
  if (inspected) check_view(*inspected, frame);
  if (received) {
    H4A_ASSERT(inspected.has_value() && inspected->ip_checksum_ok);
    H4A_ASSERT(received->transport_offset == inspected->transport_offset);
    H4A_ASSERT(received->l3_end == inspected->l3_end);
  } else if (inspected) {
    H4A_ASSERT(received.error() == Drop::kBadIpChecksum && !inspected->ip_checksum_ok);
  }
  if (const auto raw = inspect_ip_packet(frame)) check_view(*raw, frame);
}

/// True if there was an IPv4 header.
bool mend_checksum(MutableBytes frame) {
  const auto ether = EtherView::parse(frame);
  if (!ether || ether->type() != EtherType::kIpv4) return false;
  const auto ip = Ipv4View::parse(ether->rest());
  if (!ip) return false;
  const std::vector<std::uint8_t> options(ip->options().begin(), ip->options().end());
  Ipv4Fields f = ip->fields();
  f.options = options;
  build(frame.data() + ether->header_size(), f);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_frame({data, size});
  std::vector<std::uint8_t> mended(data, data + size);
  if (!mend_checksum(mended)) return 0;
  const auto v = parse_packet(mended);
  H4A_ASSERT(v || v.error() != Drop::kBadIpChecksum);
  check_frame(mended);
  return 0;
}
