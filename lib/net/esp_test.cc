#include "net/esp.h"

#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 200; ++i) {
    const EspFields f{Spi(random.u32()), random.u32()};
    std::vector<std::uint8_t> b(8 + random.below(100));
    build(b.data(), f);
    const auto v = EspView::parse(b);
    assert_ok(v);
    assert_eq(v->fields(), f);
    assert_int_equal(v->rest().size(), b.size() - 8);
  }
}

void every_truncation_is_refused(void**) {
  const std::array<std::uint8_t, 8> b{};
  for (std::size_t n = 0; n < 8; ++n)
    assert_error(EspView::parse(Bytes(b).first(n)), Error::kTruncated);
}

/// Exactly as many bytes as the case has, so that the address sanitizer sees a read behind the end.
void what_a_datagram_on_port_4500_is(void**) {
  // Vectors udp_encap and FIELD-REPORTS B38.
  struct Case {
    const char* what;
    std::vector<std::uint8_t> payload;
    UdpEncap expected;
  };
  const Case cases[] = {
      {"1 keepalive", {0xff}, UdpEncap::kKeepalive},
      {"2 ff twice is no keepalive", {0xff, 0xff}, UdpEncap::kBad},
      {"3 empty", {}, UdpEncap::kBad},
      {"4 non-ESP marker and IKE",
       {0, 0, 0, 0, 0,    1,    2,    3, 4, 5, 6, 7, 0, 0, 0,   0,
        0, 0, 0, 0, 0x29, 0x20, 0x23, 8, 0, 0, 0, 0, 0, 0, 0x1c},
       UdpEncap::kIke},
      {"5 three bytes of a marker", {0, 0, 0}, UdpEncap::kBad},
      {"6 ESP with SPI 0x100",
       {0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       UdpEncap::kEsp},
      {"7 one byte, not ff", {0xfe}, UdpEncap::kBad},
      {"8 one zero byte", {0}, UdpEncap::kBad},
      {"9 a marker and nothing behind", {0, 0, 0, 0}, UdpEncap::kBad},
      {"10 a marker and one byte", {0, 0, 0, 0, 0}, UdpEncap::kIke},
      {"11 an SPI without sequence number", {0, 0, 1, 0}, UdpEncap::kBad},
      {"12 seven bytes of ESP", {0, 0, 1, 0, 0, 0, 0}, UdpEncap::kBad},
      {"13 an ESP header alone", {0, 0, 1, 0, 0, 0, 0, 1}, UdpEncap::kEsp},
      {"14 ESP that starts with ff", {0xff, 0, 0, 0, 0, 0, 0, 1}, UdpEncap::kEsp},
      {"15 smallest SPI", {0, 0, 0, 1, 0, 0, 0, 1}, UdpEncap::kEsp},
  };
  for (const Case& c : cases) {
    const UdpEncap got = classify_udp_encap(c.payload);
    if (got != c.expected) fail_msg("%s: %s", c.what, to_string(got).data());
  }
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(what_a_datagram_on_port_4500_is),
  };
  return cmocka_run_group_tests_name("esp_header", tests, nullptr, nullptr);
}
