#include "net/ipv4.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

/// The header in RFC 1071's spirit, known from many text books: checksum b861.
constexpr std::array<std::uint8_t, 20> kKnown{0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40,
                                              0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
                                              0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};

std::vector<std::uint8_t> packet_of(const Ipv4Fields& f) {
  std::vector<std::uint8_t> b(std::max<std::size_t>(f.total_length, header_size(f)));
  build(b.data(), f);
  return b;
}

void build_makes_the_known_header(void**) {
  Ipv4Fields f;
  f.total_length = 115;
  f.source = IpAddress::v4(192, 168, 0, 1);
  f.destination = IpAddress::v4(192, 168, 0, 199);
  std::array<std::uint8_t, 20> b{};
  build(b.data(), f);
  assert_eq(b, kKnown);
}

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 2000; ++i) {
    std::array<std::uint8_t, 48> noise{};
    random.fill(noise);
    Ipv4Fields f;
    f.options = Bytes(noise).first(4 * random.below(11));
    f.tos = noise[40];
    f.total_length = static_cast<std::uint16_t>(header_size(f) + random.below(1400));
    f.identification = load_be16(&noise[41]);
    f.dont_fragment = random.below(2) != 0;
    f.more_fragments = random.below(2) != 0;
    f.fragment_offset_bytes = static_cast<std::uint16_t>(random.below(8192) * 8);
    f.ttl = noise[43];
    f.protocol = static_cast<IpProtocol>(noise[44]);
    f.source = IpAddress::load_v4(&noise[0]);
    f.destination = IpAddress::load_v4(&noise[4]);
    auto b = packet_of(f);
    b.insert(b.end(), random.below(7), 0xee);  // link pad
    const auto v = Ipv4View::parse(b);
    assert_ok(v);
    assert_true(v->fields() == f);
    assert_true(v->checksum_ok());
    assert_int_equal(v->packet().size(), f.total_length);
    assert_int_equal(v->payload().size(), f.total_length - header_size(f));
    assert_int_equal(v->is_fragment(), f.more_fragments || f.fragment_offset_bytes != 0);
  }
}

void lengths_that_lie_are_refused(void**) {
  struct Case {
    std::uint8_t version_ihl;
    std::uint16_t total_length;
    std::size_t bytes;
    Error error;
  };
  const Case cases[] = {
      {0x45, 20, 19, Error::kTruncated},  // 1: header cut
      {0x45, 21, 20, Error::kTruncated},  // 2: total length beyond the frame
      {0x45, 0xffff, 60, Error::kTruncated},
      {0x45, 19, 60, Error::kMalformed},  // 4: total length below the header
      {0x45, 0, 60, Error::kMalformed},
      {0x44, 40, 60, Error::kMalformed},  // 6: IHL below 5
      {0x40, 40, 60, Error::kMalformed},
      {0x4f, 60, 59, Error::kTruncated},   // 8: options cut
      {0x4f, 59, 60, Error::kMalformed},   // 9: total length within the options
      {0x65, 40, 60, Error::kBadVersion},  // 10
      {0x05, 40, 60, Error::kBadVersion},
  };
  for (const Case& c : cases) {
    std::vector<std::uint8_t> b(60);
    b[0] = c.version_ihl;
    store_be<2>(&b[2], c.total_length);
    assert_error(Ipv4View::parse(Bytes(b).first(c.bytes)), c.error);
  }
  assert_error(Ipv4View::parse({}), Error::kTruncated);
}

void any_flipped_header_bit_fails_the_checksum(void**) {
  for (std::size_t bit = 8 * 4; bit < 160; ++bit) {
    std::vector<std::uint8_t> b(115);
    std::copy(kKnown.begin(), kKnown.end(), b.begin());
    b[bit / 8] ^= static_cast<std::uint8_t>(0x80U >> bit % 8);
    const auto v = Ipv4View::parse(b);
    assert_ok(v);
    assert_false(v->checksum_ok());
  }
}

void quoted_packets_may_be_cut_behind_the_header(void**) {
  const auto v = Ipv4View::parse_quoted(kKnown);
  assert_ok(v);
  assert_int_equal(v->total_length(), 115);
  assert_int_equal(v->payload().size(), 0);
  assert_error(Ipv4View::parse_quoted(Bytes(kKnown).first(19)), Error::kTruncated);
  std::vector<std::uint8_t> longer(kKnown.begin(), kKnown.end());
  longer.resize(200);
  assert_int_equal(Ipv4View::parse_quoted(longer)->packet().size(), 115);
}

void a_rewritten_header_is_as_if_built_new(void**) {
  SeededRandom random(2);
  for (int i = 0; i < 2000; ++i) {
    Ipv4Fields f;
    f.identification = static_cast<std::uint16_t>(random.u32());
    f.total_length = static_cast<std::uint16_t>(20 + random.below(9000));
    f.ttl = static_cast<std::uint8_t>(random.u32());
    std::array<std::uint8_t, 20> changed{};
    build(changed.data(), f);
    f.total_length = static_cast<std::uint16_t>(20 + random.below(9000));
    f.protocol = static_cast<IpProtocol>(random.below(256));
    rewrite_ipv4(changed.data(), f.total_length, f.protocol);
    std::array<std::uint8_t, 20> fresh{};
    build(fresh.data(), f);
    assert_eq(changed, fresh);
  }
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(build_makes_the_known_header),
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(lengths_that_lie_are_refused),
      cmocka_unit_test(any_flipped_header_bit_fails_the_checksum),
      cmocka_unit_test(quoted_packets_may_be_cut_behind_the_header),
      cmocka_unit_test(a_rewritten_header_is_as_if_built_new),
  };
  return cmocka_run_group_tests_name("ipv4", tests, nullptr, nullptr);
}
