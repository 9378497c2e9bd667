#include "net/ether.h"

#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

std::vector<std::uint8_t> frame_of(const EtherFields& f, std::size_t payload = 0) {
  std::vector<std::uint8_t> b(header_size(f) + payload);
  build(b.data(), f);
  return b;
}

EtherFields random_fields(Random& random) {
  EtherFields f;
  std::array<std::uint8_t, 12> macs{};
  random.fill(macs);
  f.destination = MacAddress::load(macs.data());
  f.source = MacAddress::load(macs.data() + 6);
  f.tag_count = random.below(3);
  for (std::size_t i = 0; i < f.tag_count; ++i)
    f.tags[i] = {random.below(2) != 0 ? EtherType::kVlan : EtherType::kServiceVlan,
                 static_cast<std::uint8_t>(random.below(8)), random.below(2) != 0,
                 static_cast<std::uint16_t>(random.below(4096))};
  do f.type = static_cast<EtherType>(random.below(65536));
  while (is_vlan(f.type));
  return f;
}

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 2000; ++i) {
    const EtherFields f = random_fields(random);
    const auto b = frame_of(f, random.below(50));
    const auto v = EtherView::parse(b);
    assert_ok(v);
    assert_eq(v->fields(), f);
    assert_int_equal(v->header_size(), header_size(f));
    assert_int_equal(v->rest().size(), b.size() - header_size(f));
  }
}

void bytes_are_where_the_standard_puts_them(void**) {
  EtherFields f;
  f.destination = MacAddress({1, 2, 3, 4, 5, 6});
  f.source = MacAddress({7, 8, 9, 10, 11, 12});
  f.tag_count = 2;
  f.tags[0] = {EtherType::kServiceVlan, 5, true, 0x123};
  f.tags[1] = {EtherType::kVlan, 0, false, 0xfff};
  f.type = EtherType::kIpv6;
  const std::vector<std::uint8_t> expected{1,    2,    3,    4,    5,    6,    7,    8,
                                           9,    10,   11,   12,   0x88, 0xa8, 0xb1, 0x23,
                                           0x81, 0x00, 0x0f, 0xff, 0x86, 0xdd};
  assert_eq(frame_of(f), expected);
}

void every_truncation_is_refused(void**) {
  for (std::size_t tags = 0; tags <= 2; ++tags) {
    EtherFields f;
    f.tag_count = tags;
    const auto b = frame_of(f);
    for (std::size_t n = 0; n < b.size(); ++n)
      assert_error(EtherView::parse(Bytes(b).first(n)), Error::kTruncated);
    assert_ok(EtherView::parse(b));
  }
}

void a_third_tag_is_refused(void**) {
  EtherFields f;
  f.tag_count = 2;
  f.type = EtherType::kVlan;
  assert_error(EtherView::parse(frame_of(f, 100)), Error::kUnsupported);
  f.type = EtherType::kServiceVlan;
  assert_error(EtherView::parse(frame_of(f)), Error::kUnsupported);
}

void groups_have_their_own_addresses(void**) {
  assert_eq(multicast_mac(IpAddress::v4(224, 129, 2, 3)), MacAddress({1, 0, 0x5e, 1, 2, 3}));
  assert_eq(multicast_mac(*IpAddress::parse("ff02::1:ff01:203")),
            MacAddress({0x33, 0x33, 0xff, 1, 2, 3}));
}

void a_mac_address_has_a_link_local_address(void**) {
  assert_eq(link_local_address(MacAddress({0x52, 0x54, 0, 0, 0, 0x0a})),
            *IpAddress::parse("fe80::5054:ff:fe00:a"));
  assert_eq(link_local_address(MacAddress({0x00, 0x11, 0x22, 0x33, 0x44, 0x55})),
            *IpAddress::parse("fe80::211:22ff:fe33:4455"));
}

void prints_what_matters(void**) {
  EtherFields f;
  f.tag_count = 1;
  f.tags[0].id = 7;
  const auto b = frame_of(f);
  assert_string_equal(to_string(*EtherView::parse(b)).c_str(),
                      "00:00:00:00:00:00 > 00:00:00:00:00:00 vlan 7 prio 0 type 0x0800");
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(bytes_are_where_the_standard_puts_them),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(a_third_tag_is_refused),
      cmocka_unit_test(groups_have_their_own_addresses),
      cmocka_unit_test(a_mac_address_has_a_link_local_address),
      cmocka_unit_test(prints_what_matters),
  };
  return cmocka_run_group_tests_name("ether", tests, nullptr, nullptr);
}
