#include "net/icmpv6.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "net/ipv6.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

using Message = std::vector<std::uint8_t>;

const IpAddress kA = *IpAddress::parse("fd77::1");
const IpAddress kB = *IpAddress::parse("fd77::2");

Message random_message(Random& random, std::size_t size, const Icmpv6Fields& f) {
  Message m(size);
  random.fill(m);
  build(m, f, kA, kB);
  return m;
}

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 1000; ++i) {
    const Icmpv6Fields f{static_cast<Icmpv6Type>(random.below(256)),
                         static_cast<std::uint8_t>(random.u32()), random.u32()};
    const Message m = random_message(random, 8 + random.below(200), f);
    const auto v = Icmpv6View::parse(m);
    assert_ok(v);
    assert_eq(v->fields(), f);
    assert_true(v->checksum_ok(kA, kB));
    assert_false(v->checksum_ok(kA, *IpAddress::parse("fd77::3")));
    assert_int_equal(v->is_error(), static_cast<unsigned>(f.type) < 128);
  }
}

void every_truncation_is_refused(void**) {
  const std::array<std::uint8_t, 8> m{};
  for (std::size_t n = 0; n < 8; ++n)
    assert_error(Icmpv6View::parse(Bytes(m).first(n)), Error::kTruncated);
}

void a_flipped_bit_fails_the_checksum(void**) {
  SeededRandom random(2);
  for (int i = 0; i < 500; ++i) {
    Message m = random_message(random, 8 + random.below(60), {});
    m[random.below(m.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
    assert_false(Icmpv6View::parse(m)->checksum_ok(kA, kB));
  }
}

void an_echo_reply_goes_back_with_a_right_checksum(void**) {
  SeededRandom random(3);
  for (int i = 0; i < 1000; ++i) {
    const Message request =
        random_message(random, 8 + random.below(100), {Icmpv6Type::kEchoRequest, 0, random.u32()});
    Message reply = request;
    make_echo_reply_v6(reply);
    const auto v = Icmpv6View::parse(reply);
    assert_eq(v->type(), Icmpv6Type::kEchoReply);
    assert_true(v->checksum_ok(kB, kA));
    assert_true(std::equal(request.begin() + 4, request.end(), reply.begin() + 4));
  }
}

void packet_too_big_names_mtu_and_packet(void**) {
  Message packet(9000, 0x5a);
  Ipv6Fields ip;
  ip.payload_length = 8960;
  ip.source = kB;
  ip.destination = kA;
  build(packet.data(), ip);
  Message out(2000);
  out.resize(build_error(out, {Icmpv6Type::kPacketTooBig, 0, 1400}, packet, kA, kB));
  assert_int_equal(out.size(), kIcmpv6ErrorSizeMax);
  const auto v = Icmpv6View::parse(out);
  assert_true(v->checksum_ok(kA, kB));
  assert_true(v->is_error());
  assert_int_equal(v->mtu(), 1400);
  const auto quoted = Ipv6View::parse_quoted(v->quoted());
  assert_ok(quoted);
  assert_eq(quoted->destination(), kA);
  assert_int_equal(quoted->payload().size(), kIcmpv6ErrorSizeMax - 8 - 40);
}

void an_error_quotes_what_fits(void**) {
  const Message packet(50, 1);
  Message out(100);
  assert_int_equal(build_error(out, {Icmpv6Type::kUnreachable, 4, 0}, packet, kA, kB), 58);
  out.resize(8);
  assert_int_equal(build_error(out, {Icmpv6Type::kUnreachable, 4, 0}, packet, kA, kB), 8);
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(a_flipped_bit_fails_the_checksum),
      cmocka_unit_test(an_echo_reply_goes_back_with_a_right_checksum),
      cmocka_unit_test(packet_too_big_names_mtu_and_packet),
      cmocka_unit_test(an_error_quotes_what_fits),
  };
  return cmocka_run_group_tests_name("icmpv6", tests, nullptr, nullptr);
}
