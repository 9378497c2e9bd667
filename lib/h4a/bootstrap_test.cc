#include "h4a/bootstrap.h"

#include <algorithm>
#include <bootstrap_generated.h>
#include <functional>

#include "test/test_support.h"

namespace h4a::bootstrap {
namespace {

Terms terms() {
  Terms t;
  for (std::size_t i = 0; i < t.public_key.size(); ++i)
    t.public_key[i] = static_cast<std::uint8_t>(i * 7);
  t.nonce = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  t.candidates = {{IpAddress::v4(10, 99, 0, 1), 0}, {*IpAddress::parse("fd77::1"), 4500}};
  t.icrc_address = IpAddress::v4(10, 99, 0, 1);
  t.spi = Spi(0xdeadbeef);
  t.qpn = Qpn(0x123456);
  t.psn = Psn(0xfffffe);
  t.path_mtu = 4096;
  t.receive_depth = 64;
  t.receive_bytes = 16384;
  t.read_depth = 16;
  t.features = kFeatureBitmapAck | kFeatureSelfDescribingWrites;
  t.lifetime_s = 3600;
  return t;
}

Offer offer() {
  return {terms(), {EspSuite::kAesGcm256, EspSuite::kAesGcm128}};
}
Answer answer() {
  return {terms(), EspSuite::kAesGcm128, {"files.example", "[fd77::1]:8443"}};
}

void assert_terms(const Terms& got, const Terms& want) {
  assert_int_equal(got.version, want.version);
  assert_eq(got.public_key, want.public_key);
  assert_eq(got.nonce, want.nonce);
  assert_eq(got.candidates, want.candidates);
  assert_eq(got.icrc_address, want.icrc_address);
  assert_eq(got.spi, want.spi);
  assert_eq(got.qpn, want.qpn);
  assert_eq(got.psn, want.psn);
  assert_int_equal(got.path_mtu, want.path_mtu);
  assert_int_equal(got.receive_depth, want.receive_depth);
  assert_int_equal(got.receive_bytes, want.receive_bytes);
  assert_int_equal(got.read_depth, want.read_depth);
  assert_eq(got.features, want.features);
  assert_int_equal(got.lifetime_s, want.lifetime_s);
}

void an_offer_comes_back_as_it_was(void**) {
  const auto decoded = decode_offer(encode_offer(offer()));
  assert_ok(decoded);
  assert_terms(decoded->terms, terms());
  assert_eq(decoded->suites, offer().suites);
}

void an_answer_comes_back_as_it_was(void**) {
  const auto decoded = decode_answer(encode_answer(answer()));
  assert_ok(decoded);
  assert_terms(decoded->terms, terms());
  assert_eq(decoded->suite, EspSuite::kAesGcm128);
  assert_eq(decoded->authorities, answer().authorities);
}

void any_alignment_will_do(void**) {
  const auto body = encode_offer(offer());
  std::vector<std::uint8_t> shifted(body.size() + 8);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::copy(body.begin(), body.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
    assert_ok(decode_offer(Bytes(shifted).subspan(shift, body.size())));
  }
}

void one_kind_is_not_the_other(void**) {
  assert_error(decode_answer(encode_offer(offer())), Error::kMalformed);
  assert_error(decode_offer(encode_answer(answer())), Error::kMalformed);
}

void every_cut_is_refused(void**) {
  const auto body = encode_offer(offer());
  for (std::size_t n = 0; n < body.size(); ++n) {
    const auto cut = decode_offer(Bytes(body).first(n));
    if (cut) fail_msg("accepted the first %zu bytes of %zu", n, body.size());
  }
  assert_error(decode_offer({}), Error::kTruncated);
}

void no_flipped_bit_gives_values_out_of_range(void**) {
  const auto body = encode_answer(answer());
  for (std::size_t bit = 0; bit < body.size() * 8; ++bit) {
    auto damaged = body;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    const auto decoded = decode_answer(damaged);
    if (!decoded) continue;
    assert_true(decoded->terms.spi.value() >= 256);
    assert_true(decoded->terms.receive_depth - 1 < kReceiveDepthMax);
    assert_in_range(decoded->terms.receive_bytes, kReceiveBytesMin, kReceiveBytesMax);
    for (const auto& name : decoded->authorities) assert_true(is_authority(name));
  }
}

void a_giant_is_refused_unread(void**) {
  auto body = encode_offer(offer());
  body.resize(kMessageMaxBytes);
  assert_ok(
      decode_offer(body));  // octets behind the FlatBuffer are in the transcript, and harmless
  body.resize(kMessageMaxBytes + 1);
  assert_error(decode_offer(body), Error::kMalformed);
}

/// Each row makes one field meaningless.
void meaningless_fields_are_refused(void**) {
  const std::function<void(Terms&)> changes[] = {
      [](Terms& t) { t.candidates.clear(); },
      [](Terms& t) { t.candidates[1].address = *IpAddress::parse("ff02::1"); },
      [](Terms& t) { t.candidates[0].address = IpAddress::v4(0, 0, 0, 0); },
      [](Terms& t) { t.candidates[0].address = IpAddress::v4(255, 255, 255, 255); },
      [](Terms& t) { t.icrc_address = IpAddress::v4(224, 0, 0, 1); },
      [](Terms& t) { t.icrc_address = IpAddress{}; },
      [](Terms& t) { t.spi = Spi(255); },
      [](Terms& t) { t.qpn = Qpn(1); },
      [](Terms& t) { t.qpn = Qpn(0xff'ffff); },
      [](Terms& t) { t.qpn = Qpn(0x100'0002); },
      [](Terms& t) { t.path_mtu = 1500; },
      [](Terms& t) { t.path_mtu = 0; },
      [](Terms& t) { t.receive_depth = 0; },
      [](Terms& t) { t.receive_bytes = kReceiveBytesMin - 1; },
      [](Terms& t) { t.lifetime_s = 0; },
  };
  for (const auto& change : changes) {
    Offer o = offer();
    change(o.terms);
    const auto decoded = decode_offer(encode_offer(o));
    if (decoded) fail_msg("row %td was accepted", &change - changes);
    assert_eq(decoded.error(), Error::kMalformed);
  }
}

void another_version_is_named_as_such(void**) {
  Offer o = offer();
  o.terms.version = kVersion + 1;
  assert_error(decode_offer(encode_offer(o)), Error::kBadVersion);
}

void proposals_are_clamped(void**) {
  Offer o = offer();
  o.terms.receive_depth = 0xffff'ffff;
  o.terms.receive_bytes = 0xffff'ffff;
  o.terms.read_depth = 255;
  o.terms.lifetime_s = 0xffff'ffff;
  o.terms.candidates.assign(500, {IpAddress::v4(10, 0, 0, 1), 0});
  o.suites.assign(100, EspSuite::kAesGcm128);
  const auto decoded = decode_offer(encode_offer(o));
  assert_ok(decoded);
  assert_int_equal(decoded->terms.receive_depth, kReceiveDepthMax);
  assert_int_equal(decoded->terms.receive_bytes, kReceiveBytesMax);
  assert_int_equal(decoded->terms.read_depth, kReadDepthMax);
  assert_int_equal(decoded->terms.lifetime_s, kLifetimeMax_s);
  assert_int_equal(decoded->terms.candidates.size(), kCandidatesMax);
  assert_int_equal(decoded->suites.size(), kSuitesMax);
}

void unknown_suites_are_skipped(void**) {
  Offer o = offer();
  o.suites = {static_cast<EspSuite>(77), EspSuite::kAesGcm128};
  const auto decoded = decode_offer(encode_offer(o));
  assert_ok(decoded);
  assert_eq(decoded->suites, std::vector<EspSuite>{EspSuite::kAesGcm128});
  o.suites = {static_cast<EspSuite>(77)};
  assert_error(decode_offer(encode_offer(o)), Error::kUnsupported);
  o.suites = {};
  assert_error(decode_offer(encode_offer(o)), Error::kUnsupported);
  Answer a = answer();
  a.suite = static_cast<EspSuite>(0);
  assert_error(decode_answer(encode_answer(a)), Error::kUnsupported);
}

void an_answer_names_sound_authorities(void**) {
  Answer a = answer();
  a.authorities = {};
  assert_error(decode_answer(encode_answer(a)), Error::kMalformed);
  a.authorities = {"good.example", "bad example"};
  assert_error(decode_answer(encode_answer(a)), Error::kMalformed);
  a.authorities.assign(kAuthoritiesMax + 5, "a.example");
  const auto decoded = decode_answer(encode_answer(a));
  assert_ok(decoded);
  assert_int_equal(decoded->authorities.size(), kAuthoritiesMax);
}

/// Fields that are required but absent do not reach a dereference.
void missing_tables_are_refused(void**) {
  flatbuffers::FlatBufferBuilder b;
  const auto start = b.StartTable();
  b.Finish(flatbuffers::Offset<fb::Offer>(b.EndTable(start)), fb::OfferIdentifier());
  assert_error(decode_offer({b.GetBufferPointer(), b.GetSize()}), Error::kMalformed);
}

void authorities(void**) {
  const std::string_view good[] = {
      "a",         "files.example", "Files.Example:443", "10.0.0.1:65535",
      "[fd77::1]", "[::1]:8443",    "my_host-1.local"};
  const std::string_view bad[] = {"",
                                  ":443",
                                  "a:",
                                  "a:0",
                                  "a:65536",
                                  "a:123456",
                                  "a b",
                                  "u@a",
                                  "a/b",
                                  "[::1",
                                  "[10.0.0.1]",
                                  "[::1]x",
                                  "[::g]",
                                  "a:44x",
                                  "é.example",
                                  "a\r\nb",
                                  std::string_view("a\0b", 3)};
  for (const auto t : good)
    if (!is_authority(t)) fail_msg("refused %.*s", static_cast<int>(t.size()), t.data());
  for (const auto t : bad)
    if (is_authority(t)) fail_msg("accepted %.*s", static_cast<int>(t.size()), t.data());
  assert_true(is_authority(std::string(kAuthorityMaxBytes, 'a')));
  assert_false(is_authority(std::string(kAuthorityMaxBytes + 1, 'a')));
}

}  // namespace
}  // namespace h4a::bootstrap

int main() {
  using namespace h4a::bootstrap;
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_offer_comes_back_as_it_was),
      cmocka_unit_test(an_answer_comes_back_as_it_was),
      cmocka_unit_test(any_alignment_will_do),
      cmocka_unit_test(one_kind_is_not_the_other),
      cmocka_unit_test(every_cut_is_refused),
      cmocka_unit_test(no_flipped_bit_gives_values_out_of_range),
      cmocka_unit_test(a_giant_is_refused_unread),
      cmocka_unit_test(meaningless_fields_are_refused),
      cmocka_unit_test(another_version_is_named_as_such),
      cmocka_unit_test(proposals_are_clamped),
      cmocka_unit_test(unknown_suites_are_skipped),
      cmocka_unit_test(an_answer_names_sound_authorities),
      cmocka_unit_test(missing_tables_are_refused),
      cmocka_unit_test(authorities),
  };
  return cmocka_run_group_tests_name("bootstrap", tests, nullptr, nullptr);
}
