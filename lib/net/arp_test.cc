#include "net/arp.h"

#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

using Packet = std::array<std::uint8_t, ArpView::kSize>;

const MacAddress kMacA({2, 0, 0, 0, 0, 0xa});
const MacAddress kMacB({2, 0, 0, 0, 0, 0xb});
const IpAddress kIpA = IpAddress::v4(10, 0, 0, 1);
const IpAddress kIpB = IpAddress::v4(10, 0, 0, 2);

Packet packet_of(const ArpFields& f) {
  Packet b{};
  build(b.data(), f);
  return b;
}

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 1000; ++i) {
    Packet noise{};
    random.fill(noise);
    noise[0] = static_cast<std::uint8_t>((noise[0] & 0xfe) | 2);  // a station, not a group
    const ArpFields f{random.below(2) != 0 ? ArpOperation::kRequest : ArpOperation::kReply,
                      MacAddress::load(&noise[0]), IpAddress::load_v4(&noise[6]),
                      MacAddress::load(&noise[10]), IpAddress::load_v4(&noise[16])};
    const Packet b = packet_of(f);
    const auto v = ArpView::parse(b);
    assert_ok(v);
    assert_eq(v->fields(), f);
  }
}

void bytes_are_where_rfc_826_puts_them(void**) {
  const Packet expected{0,  1, 8, 0, 6, 4, 0, 1, 2, 0, 0,  0, 0, 0xa,
                        10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2};
  assert_eq(packet_of(arp_request(kMacA, kIpA, kIpB)), expected);
}

void a_reply_answers_its_request(void**) {
  const Packet request = packet_of(arp_request(kMacA, kIpA, kIpB));
  const ArpFields reply = arp_reply(*ArpView::parse(request), kMacB);
  assert_eq(reply, (ArpFields{ArpOperation::kReply, kMacB, kIpB, kMacA, kIpA}));
}

void other_shapes_are_refused(void**) {
  struct Case {
    const char* what;
    std::size_t at;
    std::uint8_t value;
    Error error;
  };
  const Case cases[] = {
      {"1 hardware", 1, 6, Error::kUnsupported},
      {"2 protocol", 2, 0x86, Error::kUnsupported},
      {"3 hardware address length", 4, 8, Error::kUnsupported},
      {"4 protocol address length", 5, 16, Error::kUnsupported},
      {"5 operation 0", 7, 0, Error::kUnsupported},
      {"6 reverse ARP", 7, 3, Error::kUnsupported},
      {"7 a group as sender", 8, 3, Error::kMalformed},
  };
  for (const Case& c : cases) {
    Packet b = packet_of(arp_request(kMacA, kIpA, kIpB));
    b[c.at] = c.value;
    const auto v = ArpView::parse(b);
    if (v || v.error() != c.error) fail_msg("%s", c.what);
  }
  assert_error(ArpView::parse(packet_of(arp_request(MacAddress{}, kIpA, kIpB))), Error::kMalformed);
  const Packet good = packet_of(arp_request(kMacA, kIpA, kIpB));
  for (std::size_t n = 0; n < good.size(); ++n)
    assert_error(ArpView::parse(Bytes(good).first(n)), Error::kTruncated);
}

void pad_behind_is_ignored(void**) {
  const Packet b = packet_of(arp_request(kMacA, kIpA, kIpB));
  std::vector<std::uint8_t> padded(b.begin(), b.end());
  padded.resize(46);
  assert_ok(ArpView::parse(padded));
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(bytes_are_where_rfc_826_puts_them),
      cmocka_unit_test(a_reply_answers_its_request),
      cmocka_unit_test(other_shapes_are_refused),
      cmocka_unit_test(pad_behind_is_ignored),
  };
  return cmocka_run_group_tests_name("arp", tests, nullptr, nullptr);
}
