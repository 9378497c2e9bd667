// The stack as an IP host and as a gate: what it answers, what it drops and under which name. Frames are
// put on a port in memory and what the stack sends is read back with the parsers of lib/net.
#include "stack/stack.h"

#include <memory>
#include <vector>

#include "net/arp.h"
#include "net/bth.h"
#include "net/ether.h"
#include "net/icmp.h"
#include "net/icmpv6.h"
#include "net/icrc.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/ndp.h"
#include "net/udp.h"
#include "packet/test_port.h"

#include "test/test_support.h"

namespace h4a::stack {
namespace {

using Raw = std::vector<std::uint8_t>;

const MacAddress kOurMac({2, 0, 0, 0, 0, 1});  // TestPort's
const MacAddress kPeerMac({2, 0, 0, 0, 0, 2});
const IpAddress kOurs = IpAddress::v4(10, 0, 0, 1);
const IpAddress kPeer = IpAddress::v4(10, 0, 0, 2);
const IpAddress kOurs6 = *IpAddress::parse("fd77::1");
const IpAddress kPeer6 = *IpAddress::parse("fd77::2");
constexpr Instant kNow = Instant::from_ns(1'000'000'000);

struct Bench {
  packet::test::TestPort port{512};
  SeededRandom random{1};
  Stack stack{
      port, {.addresses = {{kOurs, 24}, {kOurs6, 64}}, .gateways = {}, .engine = {}}, random};

  /// Delivers one frame, runs a turn. @return the drop counter of `reason` after it.
  std::uint64_t feed(const Raw& frame, Drop reason = Drop::kNone) {
    port.deliver(frame);
    (void)stack.poll_once(kNow);
    return stack.counters().drops[reason];
  }
};

Raw ether(net::EtherType type, Bytes payload, MacAddress to = kOurMac) {
  Raw f(net::EtherView::kSize);
  net::EtherFields e;
  e.destination = to;
  e.source = kPeerMac;
  e.type = type;
  net::build(f.data(), e);
  f.insert(f.end(), payload.begin(), payload.end());
  if (f.size() < 60) f.resize(60);  // Ethernet pads short frames
  return f;
}

Raw ipv4(net::IpProtocol protocol, Bytes payload, IpAddress to = kOurs, IpAddress from = kPeer) {
  Raw p(net::Ipv4View::kSize);
  net::Ipv4Fields f;
  f.total_length = static_cast<std::uint16_t>(p.size() + payload.size());
  f.protocol = protocol;
  f.source = from;
  f.destination = to;
  net::build(p.data(), f);
  p.insert(p.end(), payload.begin(), payload.end());
  return p;
}

Raw ipv6(net::IpProtocol next, Bytes payload, IpAddress to, IpAddress from, std::uint8_t hops) {
  Raw p(net::Ipv6View::kSize);
  net::Ipv6Fields f;
  f.payload_length = static_cast<std::uint16_t>(payload.size());
  f.next_header = next;
  f.hop_limit = hops;
  f.source = from;
  f.destination = to;
  net::build(p.data(), f);
  p.insert(p.end(), payload.begin(), payload.end());
  return p;
}

Raw udp(std::uint16_t port, Bytes payload) {
  Raw d(net::UdpView::kSize);
  net::UdpFields f;
  f.source_port = 50000;
  f.destination_port = port;
  f.length = static_cast<std::uint16_t>(d.size() + payload.size());
  net::build(d.data(), f);
  d.insert(d.end(), payload.begin(), payload.end());
  return d;
}

// A SEND ONLY of 4 bytes for `qpn`, with a right ICRC, as an IPv4 packet.
Raw roce(Qpn qpn) {
  Raw b(net::kBthSize + 4 + net::kIcrcSize, 0x5a);
  net::Bth bth;
  bth.dest_qp = qpn;
  bth.build(b.data());
  Raw packet = ipv4(net::IpProtocol::kUdp, udp(net::kRoceUdpPort, b));
  const std::uint32_t icrc =
      net::icrc(Bytes(packet).first(packet.size() - net::kIcrcSize), net::Ipv4View::kSize);
  net::store_icrc(packet.data() + packet.size() - net::kIcrcSize, icrc);
  return packet;
}

Raw arp(const net::ArpFields& f) {
  Raw a(net::ArpView::kSize);
  net::build(a.data(), f);
  return ether(net::EtherType::kArp, a, MacAddress::broadcast());
}

void arp_requests_for_us_are_answered(void**) {
  Bench b;
  b.feed(arp(net::arp_request(kPeerMac, kPeer, kOurs)));
  assert_int_equal(b.port.sent.size(), 1);
  const auto e = net::EtherView::parse(b.port.sent[0]);
  assert_true(e->destination() == kPeerMac);
  const auto reply = net::ArpView::parse(e->rest());
  assert_ok(reply);
  assert_true(reply->operation() == net::ArpOperation::kReply);
  assert_true(reply->sender_mac() == kOurMac);
  assert_true(reply->sender_ip() == kOurs);
  b.feed(arp(net::arp_request(kPeerMac, kPeer, IpAddress::v4(10, 0, 0, 9))));
  assert_int_equal(b.port.sent.size(), 1);
}

void arp_that_lies_about_its_sender_is_dropped(void**) {
  Bench b;
  net::ArpFields f = net::arp_request(MacAddress({2, 0, 0, 0, 0, 9}), kPeer, kOurs);
  assert_int_equal(b.feed(arp(f), Drop::kBadArp), 1);
  f = net::arp_request(kPeerMac, kOurs, kOurs);  // someone else has our address
  assert_int_equal(b.feed(arp(f), Drop::kBadAddress), 1);
  assert_int_equal(b.port.sent.size(), 0);
}

void echo_is_answered_with_the_same_data(void**) {
  Bench b;
  Raw message(net::IcmpView::kSize + 13, 0x42);
  net::build(MutableBytes(message), {net::IcmpType::kEchoRequest, 0, 7, 9});
  b.feed(ether(net::EtherType::kIpv4, ipv4(net::IpProtocol::kIcmp, message)));
  assert_int_equal(b.port.sent.size(), 1);
  const auto view = net::parse_packet(b.port.sent[0]);
  assert_true(view.has_value());
  assert_true(view->source == kOurs && view->destination == kPeer);
  const auto reply = net::IcmpView::parse(view->transport());
  assert_true(reply->checksum_ok());
  assert_true(reply->type() == net::IcmpType::kEchoReply);
  assert_int_equal(reply->sequence(), 9);
  assert_int_equal(reply->rest().size(), 13);
  message.back() ^= 1;
  assert_int_equal(
      b.feed(ether(net::EtherType::kIpv4, ipv4(net::IpProtocol::kIcmp, message)), Drop::kBadIcmp),
      1);
}

void echo_v6_is_answered(void**) {
  Bench b;
  Raw message(net::Icmpv6View::kSize + 5, 0x42);
  net::build(MutableBytes(message), {net::Icmpv6Type::kEchoRequest, 0, 0x70009}, kPeer6, kOurs6);
  b.feed(ether(net::EtherType::kIpv6, ipv6(net::IpProtocol::kIcmpv6, message, kOurs6, kPeer6, 64)));
  assert_int_equal(b.port.sent.size(), 1);
  const auto view = net::parse_packet(b.port.sent[0]);
  assert_true(view.has_value());
  const auto reply = net::Icmpv6View::parse(view->transport());
  assert_true(reply->checksum_ok(view->source, view->destination));
  assert_true(reply->type() == net::Icmpv6Type::kEchoReply);
  assert_true(view->destination == kPeer6);
}

void neighbour_solicitations_are_answered(void**) {
  Bench b;
  const IpAddress group = net::solicited_node_group(kOurs6);
  Raw m(net::kNeighbourMessageSizeMax);
  m.resize(net::build_neighbour_solicitation(m.data(), kOurs6, kPeerMac, kPeer6, group));
  const Raw packet = ipv6(net::IpProtocol::kIcmpv6, m, group, kPeer6, 255);
  b.feed(ether(net::EtherType::kIpv6, packet, MacAddress({0x33, 0x33, 0xff, 0, 0, 1})));
  assert_int_equal(b.port.sent.size(), 1);
  const auto view = net::parse_packet(b.port.sent[0]);
  const auto ndp = net::NdpView::parse(view->transport());
  assert_ok(ndp);
  assert_true(ndp->type() == net::Icmpv6Type::kNeighbourAdvertisement);
  assert_true(ndp->is_solicited());
  assert_true(*ndp->target_link_address() == kOurMac);
  assert_true(ndp->acceptable(view->source, view->destination, view->ttl));
  // From beyond a router: hop limit not 255.
  const Raw far = ipv6(net::IpProtocol::kIcmpv6, m, group, kPeer6, 254);
  assert_int_equal(
      b.feed(ether(net::EtherType::kIpv6, far, MacAddress({0x33, 0x33, 0xff, 0, 0, 1})),
             Drop::kBadIcmp),
      1);
}

void strangers_are_dropped_by_name(void**) {
  Bench b;
  const Raw packet = roce(Qpn(5));
  const MacAddress other({2, 0, 0, 0, 0, 7});
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, packet, other), Drop::kBadMac), 1);
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, packet), Drop::kNoQp), 1);
  assert_int_equal(
      b.feed(ether(static_cast<net::EtherType>(0x88cc), packet), Drop::kUnknownEthertype), 1);
  const Raw elsewhere = ipv4(net::IpProtocol::kUdp, udp(9, {}), IpAddress::v4(10, 0, 0, 9));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, elsewhere), Drop::kBadAddress), 1);
  const Raw dns = ipv4(net::IpProtocol::kUdp, udp(53, {}));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, dns), Drop::kUnknownUdpPort), 1);
  const Raw tcp = ipv4(static_cast<net::IpProtocol>(6), Raw(20));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, tcp), Drop::kUnknownIpProtocol), 1);
  const Raw small = ipv4(net::IpProtocol::kUdp, udp(net::kRoceUdpPort, Raw(15)));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, small), Drop::kTruncated), 1);
  const Raw keepalive = ipv4(net::IpProtocol::kUdp, udp(4500, Raw{0xff}));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, keepalive), Drop::kUdpEncapKeepalive), 1);
  const Raw esp = ipv4(net::IpProtocol::kEsp, Raw(60, 1));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, esp), Drop::kNoSa), 1);
  assert_int_equal(b.port.sent.size(), 0);
}

void B01_a_wrong_icrc_is_silent(void**) {
  Bench b;
  Raw packet = roce(Qpn(5));
  packet[packet.size() - 6] ^= 1;
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, packet), Drop::kBadIcrc), 1);
  assert_int_equal(b.port.sent.size(), 0);
}

void no_bytes_crash_and_all_frames_come_back(void**) {
  Bench b;
  SeededRandom r(3);
  const std::size_t before = b.port.pool().available();
  const Raw good = ether(net::EtherType::kIpv4, roce(Qpn(5)));
  for (int i = 0; i < 20'000; ++i) {
    Raw frame = good;
    if (r.below(4) == 0) frame.resize(r.below(frame.size() + 1));
    for (std::uint64_t n = r.below(6); n > 0 && !frame.empty(); --n)
      frame[r.below(frame.size())] = static_cast<std::uint8_t>(r.u32());
    b.feed(frame);
  }
  assert_int_equal(b.port.pool().available(), before);
  assert_true(b.stack.counters().drops.total() >= 19'000);
}

struct Connected : Bench {
  verbs::PdId pd = *stack.alloc_pd();
  verbs::CqId cq = *stack.create_cq(16);
  Qpn qpn = create();

  Qpn create() {
    verbs::QpOptions o;
    o.pd = pd;
    o.send_cq = o.recv_cq = cq;
    const Qpn q = *stack.create_qp(o);
    assert_ok(stack.to_init(q, {}));
    return q;
  }
  Result<void> to_rtr(verbs::RtrAttributes a = {}) {
    if (a.local_address.is_unspecified()) a.local_address = kOurs;
    if (a.remote_address.is_unspecified()) a.remote_address = kPeer;
    return stack.to_rtr(qpn, a);
  }
};

void a_path_must_make_sense(void**) {
  Connected b;
  verbs::RtrAttributes a;
  a.local_address = kPeer;
  assert_error(b.to_rtr(a), Error::kInvalidArgument);  // not ours
  a = {};
  a.remote_address = IpAddress::v4(192, 168, 0, 1);
  assert_error(b.to_rtr(a), Error::kInvalidArgument);  // off-link, no gateway
  a = {};
  a.remote_address = kPeer6;
  assert_error(b.to_rtr(a), Error::kInvalidArgument);  // two families
  a = {};
  a.path_mtu = 2048;
  assert_error(b.to_rtr(a), Error::kInvalidArgument);  // the port has 1500
  a = {};
  a.association = AssociationId(77);
  assert_error(b.to_rtr(a), Error::kNotFound);
  assert_ok(b.to_rtr());
}

void a_clear_packet_for_a_protected_qp_is_dropped(void**) {
  Connected b;
  const auto association = b.stack.create_association({kOurs, kPeer});
  assert_ok(association);
  verbs::RtrAttributes a;
  a.association = *association;
  assert_ok(b.to_rtr(a));
  assert_int_equal(b.feed(ether(net::EtherType::kIpv4, roce(b.qpn)), Drop::kNeedsEsp), 1);
  assert_int_equal(b.port.sent.size(), 0);
}

void a_full_port_loses_nothing(void**) {
  Bench b;
  b.port.takes = 0;
  for (int i = 0; i < 10; ++i) b.feed(arp(net::arp_request(kPeerMac, kPeer, kOurs)));
  assert_int_equal(b.port.sent.size(), 0);
  b.port.takes = SIZE_MAX;
  (void)b.stack.poll_once(kNow);
  assert_int_equal(b.port.sent.size(), 10);
}

}  // namespace
}  // namespace h4a::stack

int main() {
  using namespace h4a::stack;
  const CMUnitTest tests[] = {
      cmocka_unit_test(arp_requests_for_us_are_answered),
      cmocka_unit_test(arp_that_lies_about_its_sender_is_dropped),
      cmocka_unit_test(echo_is_answered_with_the_same_data),
      cmocka_unit_test(echo_v6_is_answered),
      cmocka_unit_test(neighbour_solicitations_are_answered),
      cmocka_unit_test(strangers_are_dropped_by_name),
      cmocka_unit_test(B01_a_wrong_icrc_is_silent),
      cmocka_unit_test(no_bytes_crash_and_all_frames_come_back),
      cmocka_unit_test(a_path_must_make_sense),
      cmocka_unit_test(a_clear_packet_for_a_protected_qp_is_dropped),
      cmocka_unit_test(a_full_port_loses_nothing),
  };
  return cmocka_run_group_tests_name("stack", tests, nullptr, nullptr);
}
