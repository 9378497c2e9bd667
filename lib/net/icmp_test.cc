#include "net/icmp.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "net/ipv4.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

using Message = std::vector<std::uint8_t>;

Message random_message(Random& random, std::size_t size, const IcmpFields& f) {
  Message m(size);
  random.fill(m);
  build(m, f);
  return m;
}

void parse_undoes_build(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 1000; ++i) {
    const IcmpFields f{
        static_cast<IcmpType>(random.below(256)), static_cast<std::uint8_t>(random.u32()),
        static_cast<std::uint16_t>(random.u32()), static_cast<std::uint16_t>(random.u32())};
    const Message m = random_message(random, 8 + random.below(200), f);
    const auto v = IcmpView::parse(m);
    assert_ok(v);
    assert_eq(v->fields(), f);
    assert_true(v->checksum_ok());
    assert_int_equal(v->rest().size(), m.size() - 8);
  }
}

void every_truncation_is_refused(void**) {
  const std::array<std::uint8_t, 8> m{};
  for (std::size_t n = 0; n < 8; ++n)
    assert_error(IcmpView::parse(Bytes(m).first(n)), Error::kTruncated);
}

void a_flipped_bit_fails_the_checksum(void**) {
  SeededRandom random(2);
  for (int i = 0; i < 500; ++i) {
    Message m = random_message(random, 8 + random.below(60), {});
    m[random.below(m.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
    assert_false(IcmpView::parse(m)->checksum_ok());
  }
}

void an_echo_reply_keeps_all_but_the_type(void**) {
  SeededRandom random(3);
  for (int i = 0; i < 1000; ++i) {
    const IcmpFields f{IcmpType::kEchoRequest, 0, static_cast<std::uint16_t>(random.u32()),
                       static_cast<std::uint16_t>(random.u32())};
    const Message request = random_message(random, 8 + random.below(100), f);
    Message reply = request;
    make_echo_reply(reply);
    const auto v = IcmpView::parse(reply);
    assert_eq(v->type(), IcmpType::kEchoReply);
    assert_int_equal(v->identifier(), f.word0);
    assert_int_equal(v->sequence(), f.word1);
    assert_true(v->checksum_ok());
    assert_true(std::equal(request.begin() + 4, request.end(), reply.begin() + 4));
  }
}

void a_reply_of_zeros_has_a_checksum_of_ones(void**) {
  Message m(64);
  build(m, {IcmpType::kEchoRequest, 0, 0, 0});
  make_echo_reply(m);
  assert_int_equal(IcmpView::parse(m)->checksum(), 0xffff);
  assert_true(IcmpView::parse(m)->checksum_ok());
}

void fragmentation_needed_names_mtu_and_packet(void**) {
  Message packet(1500, 0x5a);
  Ipv4Fields ip;
  ip.total_length = 1500;
  ip.source = IpAddress::v4(10, 0, 0, 1);
  ip.destination = IpAddress::v4(10, 0, 0, 2);
  build(packet.data(), ip);
  Message out(2000);
  const IcmpFields f{IcmpType::kUnreachable, kIcmpFragmentationNeeded, 0, 1400};
  out.resize(build_error(out, f, packet));
  assert_int_equal(out.size(), kIcmpErrorSizeMax);
  const auto v = IcmpView::parse(out);
  assert_true(v->checksum_ok());
  assert_true(v->is_fragmentation_needed());
  assert_int_equal(v->next_hop_mtu(), 1400);
  const auto quoted = Ipv4View::parse_quoted(v->quoted());
  assert_ok(quoted);
  assert_eq(quoted->destination(), ip.destination);
  assert_int_equal(quoted->total_length(), 1500);
  assert_int_equal(quoted->payload().size(), kIcmpErrorSizeMax - 8 - 20);
}

void an_error_quotes_what_fits(void**) {
  const Message packet(28, 1);
  Message out(100);
  assert_int_equal(build_error(out, {IcmpType::kUnreachable, kIcmpPortUnreachable, 0, 0}, packet),
                   36);
  out.resize(20);
  assert_int_equal(build_error(out, {}, packet), 20);
  out.resize(8);
  assert_int_equal(build_error(out, {}, packet), 8);
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(parse_undoes_build),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(a_flipped_bit_fails_the_checksum),
      cmocka_unit_test(an_echo_reply_keeps_all_but_the_type),
      cmocka_unit_test(a_reply_of_zeros_has_a_checksum_of_ones),
      cmocka_unit_test(fragmentation_needed_names_mtu_and_packet),
      cmocka_unit_test(an_error_quotes_what_fits),
  };
  return cmocka_run_group_tests_name("icmp", tests, nullptr, nullptr);
}
