#include "net/packet_view.h"

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/udp.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

using Packet = std::vector<std::uint8_t>;

const IpAddress kV4a = IpAddress::v4(10, 77, 0, 1);
const IpAddress kV4b = IpAddress::v4(10, 77, 0, 2);
const IpAddress kV6a = *IpAddress::parse("fd77::1");
const IpAddress kV6b = *IpAddress::parse("fd77::2");
const MacAddress kMacA({0x52, 0x54, 0, 0, 0, 0x0a});
const MacAddress kMacB({0x52, 0x54, 0, 0, 0, 0x0b});

/// Template of a packet; a test names only what differs.
struct Template {
  bool v6 = false;
  std::size_t tags = 0;
  std::size_t udp_payload = 20;        // BTH, AETH, ICRC
  Packet options{};                    // IPv4 options, or IPv6 extension headers
  IpProtocol next = IpProtocol::kUdp;  // what the IP header says
  Ipv4Fields v4{};
  std::size_t pad = 0;  // link pad behind
};

Packet make(const Template& t) {
  EtherFields ether{kMacB, kMacA, t.tags, {}, t.v6 ? EtherType::kIpv6 : EtherType::kIpv4};
  ether.tags[0].id = 10;
  ether.tags[1].id = 20;
  const auto udp_length = static_cast<std::uint16_t>(UdpView::kSize + t.udp_payload);
  const std::size_t l3 = header_size(ether);
  const std::size_t l4 = l3 + (t.v6 ? Ipv6View::kSize : Ipv4View::kSize) + t.options.size();
  Packet b(l4 + udp_length + t.pad, 0xaa);
  build(b.data(), ether);
  if (t.v6) {
    Ipv6Fields ip{3,    0,   static_cast<std::uint16_t>(udp_length + t.options.size()), t.next, 7,
                  kV6a, kV6b};
    build(&b[l3], ip);
    std::copy(t.options.begin(), t.options.end(), &b[l3 + Ipv6View::kSize]);
  } else {
    Ipv4Fields ip = t.v4;
    ip.options = t.options;
    ip.protocol = t.next;
    ip.source = kV4a;
    ip.destination = kV4b;
    ip.total_length = static_cast<std::uint16_t>(l4 - l3 + udp_length);
    build(&b[l3], ip);
  }
  build(&b[l4], UdpFields{49152, kRoceUdpPort, udp_length, 0});
  return b;
}

Drop drop_of(Bytes frame) {
  const auto v = parse_packet(frame);
  return v ? Drop::kNone : v.error();
}

#define assert_drop(frame, expected)                                            \
  do {                                                                          \
    const Drop got_ = drop_of(frame);                                           \
    if (got_ != (expected)) fail_msg("%s: %s", #frame, to_string(got_).data()); \
  } while (0)

void all_members_of_a_v4_packet(void**) {
  Template t;
  t.v4.tos = 0x03;
  t.v4.ttl = 9;
  const Packet b = make(t);
  const auto v = parse_packet(b);
  assert_true(v.has_value());
  assert_int_equal(v->ip_version, 4);
  assert_eq(v->type, EtherType::kIpv4);
  assert_eq(v->source, kV4a);
  assert_eq(v->destination, kV4b);
  assert_eq(v->source_mac(), kMacA);
  assert_eq(v->destination_mac(), kMacB);
  assert_int_equal(v->ttl, 9);
  assert_eq(v->ecn(), Ecn::kCongestionExperienced);
  assert_eq(v->protocol, IpProtocol::kUdp);
  assert_int_equal(v->l3_offset, 14);
  assert_int_equal(v->transport_offset, 34);
  assert_int_equal(v->l3_end, 62);
  assert_int_equal(v->transport_end, 62);
  assert_int_equal(v->udp_payload().size(), 20);
}

void all_members_of_a_double_tagged_v6_packet_with_options(void**) {
  Template t;
  t.v6 = true;
  t.tags = 2;
  t.next = IpProtocol::kDestinationOptions;
  t.options = {17, 0, 1, 4, 0, 0, 0, 0};
  const Packet b = make(t);
  const auto v = parse_packet(b);
  assert_true(v.has_value());
  assert_int_equal(v->ip_version, 6);
  assert_int_equal(v->tag_count, 2);
  assert_int_equal(v->tag(0).id, 10);
  assert_int_equal(v->tag(1).id, 20);
  assert_eq(v->source, kV6a);
  assert_eq(v->destination, kV6b);
  assert_int_equal(v->ttl, 7);
  assert_int_equal(v->tos, 3);
  assert_eq(v->protocol, IpProtocol::kUdp);
  assert_int_equal(v->l3_offset, 22);
  assert_int_equal(v->transport_offset, 70);
  assert_int_equal(v->l3_end, b.size());
}

void lengths_of_roce_packets(void**) {
  // Vectors roce.ip_lengths. Bytes of UDP payload: BTH 12, extended headers, ICRC 4.
  struct Case {
    const char* what;
    bool v6;
    std::size_t udp_payload, ip_total, udp_length, frame;
  };
  const Case cases[] = {
      {"1 RC ACK v4", false, 12 + 4 + 4, 48, 28, 62},
      {"2 RC ACK v6", true, 12 + 4 + 4, 40 + 28, 28, 82},
      {"3 CNP v4", false, 12 + 16 + 4, 60, 40, 74},
      {"4 SEND_ONLY 0 bytes v4", false, 12 + 4, 44, 24, 58},
      {"5 READ request v4", false, 12 + 16 + 4, 60, 40, 74},
      {"6 atomic v4", false, 12 + 28 + 4, 72, 52, 86},
  };
  for (const Case& c : cases) {
    Template t;
    t.v6 = c.v6;
    t.udp_payload = c.udp_payload;
    for (t.pad = 0; t.pad < 3; ++t.pad) {
      const Packet b = make(t);
      const auto v = parse_packet(b);
      if (!v) fail_msg("%s", c.what);
      assert_int_equal(b.size(), c.frame + t.pad);
      assert_int_equal(v->ip_size(), c.ip_total);
      assert_int_equal(v->l3_end, c.frame);
      assert_int_equal(v->transport().size(), c.udp_length);
    }
  }
}

void B22_ethernet_pad_is_not_payload(void**) {
  // FIELD-REPORTS B22: a SEND ONLY of 0 bytes is 58 bytes and gets 2 of pad; the ICRC sits before
  // them.
  Template t;
  t.udp_payload = 16;
  t.pad = 2;
  Packet b = make(t);
  assert_int_equal(b.size(), 60);
  store_be<4>(&b[54], 0xdeadbeef);  // where the ICRC is
  const auto v = parse_packet(b);
  assert_true(v.has_value());
  assert_int_equal(v->l3_end, 58);
  assert_int_equal(load_be32(&v->udp_payload().last(4)[0]), 0xdeadbeef);
  // IP length beyond the frame: drop.
  b.resize(57);
  assert_drop(b, Drop::kTruncated);
  // UDP length beyond the IP packet, though still within the frame.
  b = make(t);
  store_be<2>(&b[38], 8 + 17);
  assert_drop(b, Drop::kBadUdp);
  store_be<2>(&b[38], 7);
  assert_drop(b, Drop::kBadUdp);
  // UDP length below the IP payload: the datagram ends there.
  store_be<2>(&b[38], 8 + 12);
  assert_int_equal(parse_packet(b)->udp_payload().size(), 12);
}

void B24_fragments_never_reach_the_transport_header(void**) {
  // FIELD-REPORTS B24. The bytes behind the header look like a good RoCEv2 packet in each of them.
  struct Case {
    bool dont_fragment, more;
    std::uint16_t offset;
  };
  const Case cases[] = {
      {false, true, 0},       // 1 first
      {false, true, 1480},    // 2 middle
      {false, false, 1480},   // 3 last
      {true, true, 0},        // 4 contradicts itself
      {false, false, 65528},  // 5 the last offset there is
      {false, false, 8},      // 6
  };
  for (const Case& c : cases) {
    Template t;
    t.v4.dont_fragment = c.dont_fragment;
    t.v4.more_fragments = c.more;
    t.v4.fragment_offset_bytes = c.offset;
    assert_drop(make(t), Drop::kFragment);
  }
  Template whole;
  whole.v4.dont_fragment = false;
  assert_drop(make(whole), Drop::kNone);

  Template v6;
  v6.v6 = true;
  v6.next = IpProtocol::kFragment;
  v6.options = {17, 0, 0, 1, 0, 0, 0, 9};  // first
  assert_drop(make(v6), Drop::kFragment);
  v6.options = {17, 0, 5, 0xc8, 0, 0, 0, 9};  // last
  assert_drop(make(v6), Drop::kFragment);
  v6.options = {17, 0, 0, 0, 0, 0, 0, 9};  // atomic
  assert_drop(make(v6), Drop::kFragment);
  v6.next = IpProtocol::kHopByHop;
  v6.options = {44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9};  // behind another header
  assert_drop(make(v6), Drop::kFragment);
}

void B24_the_header_length_of_v4_is_honoured(void**) {
  for (std::size_t words = 0; words <= 10; ++words) {
    Template t;
    t.options.assign(4 * words, 1);  // NOP
    const Packet b = make(t);
    const auto v = parse_packet(b);
    assert_true(v.has_value());
    assert_int_equal(v->transport_offset, 34 + 4 * words);
    assert_int_equal(load_be16(&v->transport()[2]), kRoceUdpPort);
  }
}

void the_mtu_counts_the_ip_packet_alone(void**) {
  // FIELD-REPORTS B45: frames of 1514, 1518 (one tag) and 1522 (two) hold the same 1500 bytes.
  for (std::size_t tags = 0; tags <= 2; ++tags) {
    Template t;
    t.tags = tags;
    t.udp_payload = 1500 - 28;
    const Packet b = make(t);
    assert_int_equal(b.size(), 1514 + 4 * tags);
    assert_int_equal(parse_packet(b)->ip_size(), 1500);
    // A device that cut the frame, as one with a smaller buffer does: no silent cut.
    for (std::size_t n : {b.size() - 1, b.size() - 4, std::size_t{1500}, std::size_t{60}})
      assert_drop(Bytes(b).first(n), Drop::kTruncated);
  }
}

void every_truncation_is_a_drop(void**) {
  for (const bool v6 : {false, true})
    for (std::size_t tags = 0; tags <= 2; ++tags) {
      Template t;
      t.v6 = v6;
      t.tags = tags;
      const Packet b = make(t);
      for (std::size_t n = 0; n < b.size(); ++n)
        assert_drop(Packet(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n)),
                    Drop::kTruncated);
      assert_drop(b, Drop::kNone);
    }
}

void what_a_bad_header_gets(void**) {
  const Packet good4 = make({});
  Template t6;
  t6.v6 = true;
  const Packet good6 = make(t6);
  struct Case {
    const char* what;
    const Packet& base;
    std::size_t at;
    std::uint8_t value;
    Drop drop;
  };
  const Case cases[] = {
      {"1 LLDP", good4, 13, 0xcc, Drop::kUnknownEthertype},
      {"2 802.3 length", good4, 12, 0x00, Drop::kUnknownEthertype},
      {"3 v6 under the v4 type", good4, 14, 0x65, Drop::kBadIpVersion},
      {"4 v4 under the v6 type", good6, 14, 0x45, Drop::kBadIpVersion},
      {"5 IHL 4", good4, 14, 0x44, Drop::kBadIpHeader},
      {"6 total length 0", good4, 17, 0, Drop::kBadIpHeader},
      {"7 TTL changed", good4, 22, 1, Drop::kBadIpChecksum},
      {"8 multicast source", good6, 22, 0xff, Drop::kBadAddress},
      {"9 UDP read as destination options", good6, 20, 60, Drop::kBadIpHeader},
  };
  for (const Case& c : cases) {
    Packet b = c.base;
    b[c.at] = c.value;
    const Drop got = drop_of(b);
    if (got != c.drop) fail_msg("%s: %s", c.what, to_string(got).data());
  }
}

void a_third_vlan_tag_is_a_drop(void**) {
  Template t;
  t.tags = 2;
  Packet b = make(t);
  const std::uint8_t tag[4] = {0x81, 0, 0, 1};
  b.insert(b.begin() + 12, tag, tag + 4);
  assert_drop(b, Drop::kBadVlan);
}

void v4_addresses_do_not_travel_in_v6_headers(void**) {
  // ::ffff:10.77.0.1 would become the same IpAddress as 10.77.0.1.
  Template t;
  t.v6 = true;
  for (const std::size_t at : {std::size_t{22}, std::size_t{38}}) {
    Packet b = make(t);
    std::copy_n(kV4a.bytes().data(), 16, &b[at]);
    assert_drop(b, Drop::kBadAddress);
  }
}

void a_multicast_source_is_refused(void**) {
  Packet b = make({});
  Ipv4Fields ip = Ipv4View::parse(Bytes(b).subspan(14))->fields();
  ip.source = IpAddress::v4(224, 0, 0, 1);
  build(&b[14], ip);
  assert_drop(b, Drop::kBadAddress);
  ip.source = IpAddress::v4(239, 255, 255, 255);
  build(&b[14], ip);
  assert_drop(b, Drop::kBadAddress);
  ip.source = IpAddress::v4(223, 255, 255, 255);
  build(&b[14], ip);
  assert_drop(b, Drop::kNone);
}

void short_transports_are_drops(void**) {
  struct Case {
    std::uint8_t protocol;
    std::size_t needs;
    Drop drop;
  };
  const Case cases[] = {{17, 8, Drop::kBadUdp},
                        {50, 8, Drop::kTruncated},
                        {1, 8, Drop::kBadIcmp},
                        {58, 8, Drop::kBadIcmp},
                        {6, 0, Drop::kNone}};
  for (const Case& c : cases)
    for (std::size_t n = 0; n < 10; ++n) {
      Packet b(34 + n);
      build(b.data(), EtherFields{kMacB, kMacA, 0, {}, EtherType::kIpv4});
      Ipv4Fields ip;
      ip.total_length = static_cast<std::uint16_t>(20 + n);
      ip.protocol = static_cast<IpProtocol>(c.protocol);
      build(&b[14], ip);
      if (n >= 8) store_be<2>(&b[38], n);
      assert_drop(b, n < c.needs ? c.drop : Drop::kNone);
    }
}

void arp_passes_as_it_is(void**) {
  Packet b(60);
  build(b.data(), EtherFields{MacAddress::broadcast(), kMacA, 0, {}, EtherType::kArp});
  const auto v = parse_packet(b);
  assert_true(v.has_value());
  assert_int_equal(v->ip_version, 0);
  assert_eq(v->type, EtherType::kArp);
  assert_int_equal(v->ip_packet().size(), 46);
}

void a_packet_without_a_link_header(void**) {
  for (const bool v6 : {false, true}) {
    Template t;
    t.v6 = v6;
    const Packet b = make(t);
    const auto v = parse_ip_packet(Bytes(b).subspan(14));
    assert_true(v.has_value());
    assert_false(v->has_link_header());
    assert_int_equal(v->ip_version, v6 ? 6 : 4);
    assert_int_equal(v->transport_offset, v6 ? 40 : 20);
    assert_int_equal(v->l3_end, b.size() - 14);
  }
  assert_int_equal(parse_ip_packet({}).error(), Drop::kTruncated);
}

void inspection_reports_the_header_checksum_as_a_fact(void**) {
  Packet b = make({});
  b[22] = 1;  // TTL, as in a capture behind a router that forgot the checksum
  const auto v = inspect_packet(b);
  assert_true(v.has_value());
  assert_false(v->ip_checksum_ok);
  assert_int_equal(v->udp_payload().size(), 20);
  assert_true(inspect_ip_packet(Bytes(b).subspan(14)).has_value());
  assert_true(inspect_packet(make({}))->ip_checksum_ok);
  b.resize(40);
  assert_false(inspect_packet(b).has_value());
}

void whatever_comes_out_lies_within_the_frame(void**) {
  SeededRandom random(7);
  std::size_t accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    Template t;
    t.v6 = random.below(2) != 0;
    t.tags = random.below(3);
    t.udp_payload = random.below(64);
    t.pad = random.below(4);
    Packet b = make(t);
    for (std::uint64_t flips = random.below(4); flips > 0; --flips)
      b[random.below(b.size())] = static_cast<std::uint8_t>(random.u32());
    b.resize(b.size() - random.below(3));
    const auto v = inspect_packet(b);
    if (!v) continue;
    ++accepted;
    assert_true(v->l3_offset <= v->transport_offset);
    assert_true(v->transport_offset <= v->transport_end);
    assert_true(v->transport_end <= v->l3_end);
    assert_true(v->l3_end <= b.size());
  }
  assert_true(accepted > 10000);
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(all_members_of_a_v4_packet),
      cmocka_unit_test(all_members_of_a_double_tagged_v6_packet_with_options),
      cmocka_unit_test(lengths_of_roce_packets),
      cmocka_unit_test(B22_ethernet_pad_is_not_payload),
      cmocka_unit_test(B24_fragments_never_reach_the_transport_header),
      cmocka_unit_test(B24_the_header_length_of_v4_is_honoured),
      cmocka_unit_test(the_mtu_counts_the_ip_packet_alone),
      cmocka_unit_test(every_truncation_is_a_drop),
      cmocka_unit_test(what_a_bad_header_gets),
      cmocka_unit_test(a_third_vlan_tag_is_a_drop),
      cmocka_unit_test(v4_addresses_do_not_travel_in_v6_headers),
      cmocka_unit_test(a_multicast_source_is_refused),
      cmocka_unit_test(short_transports_are_drops),
      cmocka_unit_test(arp_passes_as_it_is),
      cmocka_unit_test(a_packet_without_a_link_header),
      cmocka_unit_test(inspection_reports_the_header_checksum_as_a_fact),
      cmocka_unit_test(whatever_comes_out_lies_within_the_frame),
  };
  return cmocka_run_group_tests_name("packet_view", tests, nullptr, nullptr);
}
