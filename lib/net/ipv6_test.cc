#include "net/ipv6.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

using Chain = std::vector<std::uint8_t>;

/// A packet whose payload is `chain` behind a first header of kind `first`.
std::vector<std::uint8_t> packet_with(std::uint8_t first, const Chain& chain) {
  Ipv6Fields f;
  f.next_header = static_cast<IpProtocol>(first);
  f.payload_length = static_cast<std::uint16_t>(chain.size());
  std::vector<std::uint8_t> b(Ipv6View::kSize);
  build(b.data(), f);
  b.insert(b.end(), chain.begin(), chain.end());
  return b;
}

Chain operator+(Chain a, const Chain& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// An extension header of 8 · (1 + extra) bytes filled with one PadN, then Pad1s.
Chain padding_header(std::uint8_t next, std::uint8_t extra = 0) {
  Chain h(8 * (1 + std::size_t{extra}), 0);
  h[0] = next;
  h[1] = extra;
  h[2] = 1;  // PadN
  h[3] = 2;
  return h;
}

const Chain kUdpHeader{0x12, 0xb7, 0x12, 0xb7, 0, 8, 0, 0};

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 2000; ++i) {
    std::array<std::uint8_t, 40> noise{};
    random.fill(noise);
    Ipv6Fields f;
    f.traffic_class = noise[32];
    f.flow_label = load_be24(&noise[33]) & 0xf'ffff;
    f.payload_length = static_cast<std::uint16_t>(random.below(1500));
    f.next_header = static_cast<IpProtocol>(noise[36]);
    f.hop_limit = noise[37];
    f.source = IpAddress::load_v6(&noise[0]);
    f.destination = IpAddress::load_v6(&noise[16]);
    std::vector<std::uint8_t> b(Ipv6View::kSize + f.payload_length + random.below(6));
    build(b.data(), f);
    const auto v = Ipv6View::parse(b);
    assert_ok(v);
    assert_eq(v->fields(), f);
    assert_int_equal(v->payload().size(), f.payload_length);
  }
}

void every_truncation_is_refused(void**) {
  const auto b = packet_with(17, kUdpHeader);
  for (std::size_t n = 0; n < b.size(); ++n)
    assert_error(Ipv6View::parse(Bytes(b).first(n)), Error::kTruncated);
  assert_ok(Ipv6View::parse(b));
}

void other_versions_are_refused(void**) {
  auto b = packet_with(17, kUdpHeader);
  for (unsigned version = 0; version < 16; ++version) {
    b[0] = static_cast<std::uint8_t>(version << 4);
    if (version == 6) continue;
    assert_error(Ipv6View::parse(b), Error::kBadVersion);
    assert_error(Ipv6View::parse_quoted(b), Error::kBadVersion);
  }
}

void chains_lead_to_the_transport_header(void**) {
  struct Case {
    const char* what;
    std::uint8_t first;
    Chain chain;
    std::uint8_t protocol;
    std::size_t offset;
    bool fragment;
  };
  const Chain routing{17, 0, 4, 0, 0, 0, 0, 0};
  const Chain fragment{17, 0, 0, 1, 0, 0, 0, 9};
  const Case cases[] = {
      {"1 none", 17, kUdpHeader, 17, 40, false},
      {"2 hop-by-hop", 0, padding_header(17) + kUdpHeader, 17, 48, false},
      {"3 destination options of 24", 60, padding_header(50, 2) + kUdpHeader, 50, 64, false},
      {"4 all three", 0,
       padding_header(43) + (Chain{60} + Chain(routing.begin() + 1, routing.end())) +
           padding_header(58) + kUdpHeader,
       58, 64, false},
      {"5 routing with nothing left", 43, routing + kUdpHeader, 17, 48, false},
      {"6 fragment", 44, fragment + kUdpHeader, 44, 40, true},
      {"7 fragment behind options", 60, padding_header(44) + fragment, 44, 48, true},
      {"8 no next header", 59, {}, 59, 40, false},
      {"9 unknown protocol, nothing there", 253, {}, 253, 40, false},
      {"10 authentication header is not walked", 51, padding_header(17), 51, 40, false},
      {"11 nothing behind the chain", 60, padding_header(17), 17, 48, false},
      {"12 unknown option that may be skipped", 60, {17, 0, 0x1e, 2, 7, 7, 0, 0}, 17, 48, false},
      {"13 as long as allowed", 60, padding_header(17, 23), 17, 40 + 192, false},
  };
  for (const Case& c : cases) {
    const auto b = packet_with(c.first, c.chain);
    const auto t = Ipv6View::parse(b)->transport();
    if (!t) fail_msg("%s: %s", c.what, std::string(to_string(t.error())).c_str());
    if (static_cast<std::uint8_t>(t->protocol) != c.protocol || t->offset != c.offset ||
        t->fragment != c.fragment)
      fail_msg("%s: protocol %u offset %zu", c.what, static_cast<unsigned>(t->protocol), t->offset);
  }
}

void bad_chains_are_refused(void**) {
  struct Case {
    const char* what;
    std::uint8_t first;
    Chain chain;
    Error error;
  };
  Chain nine;
  for (int i = 0; i < 8; ++i) nine = nine + padding_header(60);
  nine = nine + padding_header(17);
  const Case cases[] = {
      {"1 promised, not there", 60, {}, Error::kTruncated},
      {"2 seven bytes", 60, Chain(7, 0), Error::kTruncated},
      {"3 longer than the packet", 60, {17, 1, 1, 4, 0, 0, 0, 0}, Error::kTruncated},
      {"4 hop-by-hop second", 60, padding_header(0) + padding_header(17), Error::kMalformed},
      {"5 segments left", 43, {17, 0, 4, 1, 0, 0, 0, 0}, Error::kMalformed},
      {"6 option beyond its header", 60, {17, 0, 1, 5, 0, 0, 0, 0}, Error::kMalformed},
      {"7 option without a length", 60, {17, 0, 1, 3, 0, 0, 0, 1}, Error::kMalformed},
      {"8 unknown option, action 01", 60, {17, 0, 0x5e, 4, 0, 0, 0, 0}, Error::kMalformed},
      {"9 unknown option, action 10", 0, {17, 0, 0x9e, 4, 0, 0, 0, 0}, Error::kMalformed},
      {"10 jumbo payload option", 0, {17, 0, 0xc2, 4, 0, 1, 0, 0}, Error::kMalformed},
      {"11 nine headers", 60, nine, Error::kUnsupported},
      {"12 200 bytes of headers", 60, padding_header(17, 24), Error::kUnsupported},
      {"13 256 headers' worth", 60, {17, 255, 0, 0, 0, 0, 0, 0}, Error::kUnsupported},
  };
  for (const Case& c : cases) {
    const auto b = packet_with(c.first, c.chain);
    const auto t = Ipv6View::parse(b)->transport();
    if (t) fail_msg("%s: accepted", c.what);
    if (t.error() != c.error) fail_msg("%s: %s", c.what, std::string(to_string(t.error())).c_str());
  }
}

void quoted_packets_may_be_cut_behind_the_header(void**) {
  const auto b = packet_with(17, kUdpHeader + Chain(100, 1));
  const auto v = Ipv6View::parse_quoted(Bytes(b).first(48));
  assert_ok(v);
  assert_int_equal(v->payload().size(), 8);
  assert_int_equal(v->payload_length(), 108);
  assert_error(Ipv6View::parse_quoted(Bytes(b).first(39)), Error::kTruncated);
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(other_versions_are_refused),
      cmocka_unit_test(chains_lead_to_the_transport_header),
      cmocka_unit_test(bad_chains_are_refused),
      cmocka_unit_test(quoted_packets_may_be_cut_behind_the_header),
  };
  return cmocka_run_group_tests_name("ipv6", tests, nullptr, nullptr);
}
