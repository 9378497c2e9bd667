#include "net/udp.h"

#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

const IpAddress kV4a = IpAddress::v4(10, 0, 0, 1);
const IpAddress kV4b = IpAddress::v4(10, 0, 0, 2);

std::vector<std::uint8_t> datagram_of(UdpFields f) {
  std::vector<std::uint8_t> b(f.length);
  build(b.data(), f);
  return b;
}

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 1000; ++i) {
    UdpFields f;
    f.source_port = static_cast<std::uint16_t>(random.u32());
    f.destination_port = static_cast<std::uint16_t>(random.u32());
    f.length = static_cast<std::uint16_t>(8 + random.below(1500));
    f.checksum = static_cast<std::uint16_t>(random.u32());
    auto b = datagram_of(f);
    b.resize(b.size() + random.below(9));
    const auto v = UdpView::parse(b);
    assert_ok(v);
    assert_eq(v->fields(), f);
    assert_int_equal(v->payload().size(), f.length - 8);
  }
}

void lengths_that_lie_are_refused(void**) {
  std::vector<std::uint8_t> b(20);
  for (std::uint16_t length = 0; length < 40; ++length) {
    store_be<2>(&b[4], length);
    const auto v = UdpView::parse(b);
    if (length < 8)
      assert_error(v, Error::kMalformed);
    else if (length > 20)
      assert_error(v, Error::kTruncated);
    else
      assert_ok(v);
  }
  for (std::size_t n = 0; n < 8; ++n)
    assert_error(UdpView::parse(Bytes(b).first(n)), Error::kTruncated);
}

void checksums_verify_in_both_families(void**) {
  SeededRandom random(2);
  const IpAddress v6a = *IpAddress::parse("fd77::1");
  const IpAddress v6b = *IpAddress::parse("fd77::2");
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::uint8_t> b(8 + random.below(200));
    random.fill(b);
    store_be<2>(&b[4], b.size());
    const bool v6 = random.below(2) != 0;
    const IpAddress& from = v6 ? v6a : kV4a;
    const IpAddress& to = v6 ? v6b : kV4b;
    const std::uint16_t sum = udp_checksum(b, from, to);
    assert_int_not_equal(sum, 0);
    store_be<2>(&b[6], sum);
    assert_true(UdpView::parse(b)->checksum_ok(from, to));
    assert_true(UdpView::parse(b)->checksum_ok(to, from));
    assert_false(UdpView::parse(b)->checksum_ok(from, IpAddress::v4(10, 0, 0, 3)));
    b[random.below(4)] ^= 0x10;
    assert_false(UdpView::parse(b)->checksum_ok(from, to));
  }
}

void no_checksum_is_accepted(void**) {
  const auto b = datagram_of({4791, 4791, 28, 0});
  assert_true(UdpView::parse(b)->checksum_ok(kV4a, kV4b));
  const IpAddress v6 = *IpAddress::parse("fd77::1");
  assert_true(UdpView::parse(b)->checksum_ok(v6, v6));  // RFC 6935, RFC 6936
}

void a_sum_of_zero_goes_out_as_all_ones(void**) {
  auto b = datagram_of({0, 0, 10, 0});
  const std::uint16_t sum = udp_checksum(b, kV4a, kV4b);
  store_be<2>(&b[8], sum);  // now the sum of everything is all ones, its complement 0
  assert_int_equal(udp_checksum(b, kV4a, kV4b), 0xffff);
  store_be<2>(&b[6], 0xffff);
  assert_true(UdpView::parse(b)->checksum_ok(kV4a, kV4b));
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(lengths_that_lie_are_refused),
      cmocka_unit_test(checksums_verify_in_both_families),
      cmocka_unit_test(no_checksum_is_accepted),
      cmocka_unit_test(a_sum_of_zero_goes_out_as_all_ones),
  };
  return cmocka_run_group_tests_name("udp", tests, nullptr, nullptr);
}
