#include "base/address.h"

#include "test/test_support.h"

namespace h4a {
namespace {

void v4_is_kept_mapped(void**) {
  const auto ip = IpAddress::parse("10.0.0.1");
  assert_ok(ip);
  assert_true(ip->is_v4());
  assert_int_equal(ip->bytes()[10], 0xff);
  assert_int_equal(ip->wire_bytes().size(), 4);
  assert_string_equal(to_string(*ip).c_str(), "10.0.0.1");
}

void v6_round_trips(void**) {
  const auto ip = IpAddress::parse("fd77::2");
  assert_ok(ip);
  assert_false(ip->is_v4());
  assert_string_equal(to_string(*ip).c_str(), "fd77::2");
}

void prefixes_compare_bit_by_bit(void**) {
  const auto a = IpAddress::v4(10, 0, 0, 1);
  assert_true(a.same_prefix(IpAddress::v4(10, 0, 0, 254), 24));
  assert_false(a.same_prefix(IpAddress::v4(10, 0, 1, 1), 24));
  assert_true(a.same_prefix(IpAddress::v4(10, 0, 1, 1), 23));
  assert_false(a.same_prefix(IpAddress::v4(10, 0, 0, 2), 32));
  assert_true(a.same_prefix(IpAddress::v4(192, 168, 0, 1), 0));
  assert_false(a.same_prefix(*IpAddress::parse("fd77::1"), 0));
}

void interfaces_need_a_sane_prefix(void**) {
  const auto ok = IpInterface::parse("10.0.0.1/24");
  assert_ok(ok);
  assert_int_equal(ok->prefix_bits, 24);
  assert_ok(IpInterface::parse("fd77::1/64"));
  for (const char* bad : {"10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/2x", "/24",
                          "fd77::1/129", "10.0.0.1/-1", ""})
    assert_error(IpInterface::parse(bad), Error::kMalformed);
}

void macs_parse_strictly(void**) {
  const auto mac = parse_mac("02:00:00:00:00:0a");
  assert_ok(mac);
  assert_string_equal(to_string(*mac).c_str(), "02:00:00:00:00:0a");
  for (const char* bad : {"", "02:00:00:00:00", "02-00-00-00-00-0a", "02:00:00:00:00:0g",
                          "02:00:00:00:00:0a:", " 2:00:00:00:00:0a"})
    assert_error(parse_mac(bad), Error::kMalformed);
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(v4_is_kept_mapped),
      cmocka_unit_test(v6_round_trips),
      cmocka_unit_test(prefixes_compare_bit_by_bit),
      cmocka_unit_test(interfaces_need_a_sane_prefix),
      cmocka_unit_test(macs_parse_strictly),
  };
  return cmocka_run_group_tests_name("address", tests, nullptr, nullptr);
}
