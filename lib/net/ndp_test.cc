#include "net/ndp.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

using Message = std::vector<std::uint8_t>;

const IpAddress kA = *IpAddress::parse("fd77::1");
const IpAddress kB = *IpAddress::parse("fd77::2");
const IpAddress kLinkLocal = *IpAddress::parse("fe80::1");
const MacAddress kMac({0x52, 0x54, 0, 0, 0, 0x0a});

Message solicitation(const std::optional<MacAddress>& mac = kMac) {
  Message m(kNeighbourMessageSizeMax);
  m.resize(build_neighbour_solicitation(m.data(), kB, mac, kA, solicited_node_group(kB)));
  return m;
}

Message advertisement(const NeighbourAdvertisement& a) {
  Message m(kNeighbourMessageSizeMax);
  m.resize(build_neighbour_advertisement(m.data(), a, kB, kA));
  return m;
}

/// A router advertisement with these options behind it.
Message router_advertisement(const std::vector<Message>& options) {
  Message m{134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0};
  for (const Message& o : options) m.insert(m.end(), o.begin(), o.end());
  return m;
}

Message prefix_option(std::uint8_t bits) {
  Message o(32);
  o[0] = 3;
  o[1] = 4;
  o[2] = bits;
  o[3] = 0xc0;
  store_be<4>(&o[4], 0xffff'ffff);
  store_be<4>(&o[8], 600);
  std::copy_n(kA.bytes().data(), 16, &o[16]);
  return o;
}

void a_solicitation_round_trips(void**) {
  const Message m = solicitation();
  assert_int_equal(m.size(), 32);
  assert_true(Icmpv6View::parse(m)->checksum_ok(kA, solicited_node_group(kB)));
  const auto v = NdpView::parse(m);
  assert_ok(v);
  assert_eq(v->type(), Icmpv6Type::kNeighbourSolicitation);
  assert_eq(v->target(), kB);
  assert_eq(*v->source_link_address(), kMac);
  assert_false(v->target_link_address().has_value());
  assert_int_equal(solicitation(std::nullopt).size(), 24);
}

void an_advertisement_round_trips_with_each_flag(void**) {
  for (unsigned flags = 0; flags < 8; ++flags) {
    const NeighbourAdvertisement a{kB, (flags & 4) != 0, (flags & 2) != 0, (flags & 1) != 0, kMac};
    const Message m = advertisement(a);
    assert_true(Icmpv6View::parse(m)->checksum_ok(kB, kA));
    const auto v = NdpView::parse(m);
    assert_ok(v);
    assert_eq(v->target(), kB);
    assert_int_equal(v->is_router(), a.is_router);
    assert_int_equal(v->is_solicited(), a.is_solicited);
    assert_int_equal(v->is_override(), a.is_override);
    assert_eq(*v->target_link_address(), kMac);
  }
}

void a_router_advertisement_with_all_options(void**) {
  const Message m = router_advertisement({{1, 1, 0x52, 0x54, 0, 0, 0, 0x0a},
                                          {5, 1, 0, 0, 0, 0, 0x05, 0xdc},
                                          {24, 1, 9, 9, 9, 9, 9, 9},  // unknown: ignored
                                          prefix_option(64),
                                          prefix_option(128)});
  const auto v = NdpView::parse(m);
  assert_ok(v);
  assert_int_equal(v->current_hop_limit(), 64);
  assert_int_equal(v->router_lifetime_s(), 1800);
  assert_eq(*v->source_link_address(), kMac);
  assert_int_equal(*v->mtu(), 1500);
  assert_int_equal(v->prefix_count(), 2);
  assert_eq(v->prefix(0), (NdpPrefix{kA, 64, true, true, 0xffff'ffff, 600}));
  assert_int_equal(v->prefix(1).prefix_bits, 128);
  assert_eq(v->target(), IpAddress{});
}

void more_prefixes_than_kept_are_ignored(void**) {
  const Message m = router_advertisement(std::vector<Message>(9, prefix_option(64)));
  assert_int_equal(NdpView::parse(m)->prefix_count(), NdpView::kPrefixMax);
}

void malformed_messages_are_refused(void**) {
  struct Case {
    const char* what;
    Message message;
    Error error;
  };
  Message code = solicitation();
  code[1] = 1;
  Message group = solicitation();
  group[8] = 0xff;
  Message mapped = solicitation();
  std::copy_n(IpAddress::v4(10, 0, 0, 1).bytes().data(), 16, &mapped[8]);
  const Case cases[] = {
      {"1 empty", {}, Error::kTruncated},
      {"2 echo request", {128, 0, 0, 0, 0, 0, 0, 0}, Error::kUnsupported},
      {"3 redirect", Message(40, 137), Error::kUnsupported},
      {"4 code 1", code, Error::kMalformed},
      {"5 multicast target", group, Error::kMalformed},
      {"6 IPv4-mapped target", mapped, Error::kMalformed},
      {"7 option of length 0", router_advertisement({{1, 0, 0, 0, 0, 0, 0, 0}}), Error::kMalformed},
      {"8 option too long", router_advertisement({{24, 2, 0, 0, 0, 0, 0, 0}}), Error::kMalformed},
      {"9 seven bytes left", router_advertisement({Message(7, 1)}), Error::kMalformed},
      {"10 long link address", router_advertisement({[] {
         Message o(16);
         o[0] = 1;
         o[1] = 2;
         return o;
       }()}),
       Error::kMalformed},
      {"11 long MTU", router_advertisement({[] {
         Message o(16);
         o[0] = 5;
         o[1] = 2;
         return o;
       }()}),
       Error::kMalformed},
      {"12 short prefix", router_advertisement({{3, 1, 64, 0, 0, 0, 0, 0}}), Error::kMalformed},
      {"13 prefix of 129 bits", router_advertisement({prefix_option(129)}), Error::kMalformed},
      {"14 broadcast link address", solicitation(MacAddress::broadcast()), Error::kMalformed},
      {"15 group's link address", advertisement({kB, false, true, true, MacAddress({1, 0, 0x5e})}),
       Error::kMalformed},
      {"16 zero link address", solicitation(MacAddress{}), Error::kMalformed},
  };
  for (const Case& c : cases) {
    const auto v = NdpView::parse(c.message);
    if (v) fail_msg("%s: accepted", c.what);
    if (v.error() != c.error) fail_msg("%s: %s", c.what, std::string(to_string(v.error())).c_str());
  }
  const Message good = solicitation();
  for (std::size_t n = 0; n < good.size(); ++n)
    if (n != 24) assert_false(NdpView::parse(Bytes(good).first(n)).has_value());
}

void the_rules_about_the_packet_around_it(void**) {
  const IpAddress none;
  const IpAddress group = solicited_node_group(kB);
  const Message with_mac = solicitation();
  const Message without = solicitation(std::nullopt);
  const Message solicited = advertisement({kB, false, true, true, kMac});
  const Message announced = advertisement({kB, false, false, true, kMac});
  const Message rs{133, 0, 0, 0, 0, 0, 0, 0};
  const Message rs_mac{133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1};
  const Message ra = router_advertisement({});
  struct Case {
    const char* what;
    const Message& message;
    IpAddress source, destination;
    std::uint8_t hop_limit;
    bool acceptable;
  };
  const Case cases[] = {
      {"1 ordinary", with_mac, kA, group, 255, true},
      {"2 came through a router", with_mac, kA, group, 254, false},
      {"3 hop limit 0", with_mac, kA, group, 0, false},
      {"4 unicast probe", with_mac, kA, kB, 255, true},
      {"5 duplicate detection", without, none, group, 255, true},
      {"6 ... with a link address", with_mac, none, group, 255, false},
      {"7 ... to a unicast address", without, none, kB, 255, false},
      {"8 ... to all nodes", without, none, all_nodes_group(), 255, false},
      {"9 advertisement", solicited, kB, kA, 255, true},
      {"10 solicited, to a group", solicited, kB, all_nodes_group(), 255, false},
      {"11 announced to a group", announced, kB, all_nodes_group(), 255, true},
      {"12 advertisement from afar", solicited, kB, kA, 64, false},
      {"13 router solicitation", rs, none, all_nodes_group(), 255, true},
      {"14 ... from nowhere with a link address", rs_mac, none, all_nodes_group(), 255, false},
      {"15 ... with a link address", rs_mac, kA, all_nodes_group(), 255, true},
      {"16 router advertisement", ra, kLinkLocal, all_nodes_group(), 255, true},
      {"17 ... from a global address", ra, kA, all_nodes_group(), 255, false},
      {"18 ... from afar", ra, kLinkLocal, all_nodes_group(), 1, false},
  };
  for (const Case& c : cases) {
    const auto v = NdpView::parse(c.message);
    if (!v) fail_msg("%s: does not parse", c.what);
    if (v->acceptable(c.source, c.destination, c.hop_limit) != c.acceptable) fail_msg("%s", c.what);
  }
}

void groups_of_addresses(void**) {
  assert_string_equal(to_string(solicited_node_group(*IpAddress::parse("fd77::aabb:ccdd"))).c_str(),
                      "ff02::1:ffbb:ccdd");
  assert_string_equal(to_string(all_nodes_group()).c_str(), "ff02::1");
}

void random_options_never_lead_outside(void**) {
  SeededRandom random(1);
  std::size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    Message m(24 + random.below(80));
    random.fill(m);
    m[0] = static_cast<std::uint8_t>(133 + random.below(4));
    m[1] = 0;
    for (std::size_t at = 8; at + 1 < m.size(); at += 8) {
      m[at] = static_cast<std::uint8_t>(random.below(6));
      m[at + 1] = static_cast<std::uint8_t>(random.below(5));
    }
    const auto v = NdpView::parse(m);
    if (v) accepted += !to_string(*v).empty();
  }
  assert_true(accepted > 100);
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_solicitation_round_trips),
      cmocka_unit_test(an_advertisement_round_trips_with_each_flag),
      cmocka_unit_test(a_router_advertisement_with_all_options),
      cmocka_unit_test(more_prefixes_than_kept_are_ignored),
      cmocka_unit_test(malformed_messages_are_refused),
      cmocka_unit_test(the_rules_about_the_packet_around_it),
      cmocka_unit_test(groups_of_addresses),
      cmocka_unit_test(random_options_never_lead_outside),
  };
  return cmocka_run_group_tests_name("ndp", tests, nullptr, nullptr);
}
