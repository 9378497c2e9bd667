// Published vectors (RFC 7748, RFC 5869), and our own schedule against values that an independent
// program computed (Python's hashlib and hmac, X25519 written from RFC 7748 §5's pseudocode).
#include "h4a/key_schedule.h"

#include <string_view>
#include <vector>

#include "test/test_support.h"

namespace h4a::bootstrap {
namespace {

std::vector<std::uint8_t> hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(digit(text[i]) * 16 + digit(text[i + 1])));
  return out;
}

PublicKey public_key(std::string_view text) {
  PublicKey k{};
  const auto bytes = hex(text);
  std::copy(bytes.begin(), bytes.end(), k.begin());
  return k;
}

PrivateKey private_key(std::string_view text) {
  return PrivateKey(hex(text));
}

Bytes ascii(std::string_view s) {
  return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

void assert_bytes(Bytes got, std::string_view want_hex) {
  const auto want = hex(want_hex);
  assert_int_equal(got.size(), want.size());
  assert_memory_equal(got.data(), want.data(), want.size());
}

std::vector<std::uint8_t> counting(std::uint8_t first, std::size_t n) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<std::uint8_t>(first + i));
  return out;
}

void x25519_multiplies_as_rfc_7748_5_2(void**) {
  const auto out =
      x25519(private_key("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
             public_key("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"));
  assert_ok(out);
  assert_bytes(out->bytes(), "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
}

void both_sides_share_as_rfc_7748_6_1(void**) {
  const auto alice =
      private_key("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const auto bob = private_key("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  const auto alice_public = public_key_of(alice);
  const auto bob_public = public_key_of(bob);
  assert_ok(alice_public);
  assert_ok(bob_public);
  assert_bytes(*alice_public, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  assert_bytes(*bob_public, "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  for (const auto& shared : {x25519(alice, *bob_public), x25519(bob, *alice_public)}) {
    assert_ok(shared);
    assert_bytes(shared->bytes(),
                 "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  }
}

// Points of low order, for which the result is zero whatever the private key (RFC 7748 §6.1).
void a_low_order_point_aborts(void**) {
  const std::string_view points[] = {
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000000",
      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
      "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  };
  const PrivateKey own(counting(1, 32));
  for (const auto point : points)
    assert_error(x25519(own, public_key(point)), Error::kAuthentication);
}

void a_private_key_has_32_bytes(void**) {
  assert_error(public_key_of(PrivateKey(counting(0, 31))), Error::kInvalidArgument);
  assert_error(x25519(PrivateKey{}, PublicKey{}), Error::kInvalidArgument);
}

void key_pairs_come_from_the_random_source(void**) {
  SeededRandom a(7);
  SeededRandom b(7);
  SeededRandom c(8);
  const auto first = make_key_pair(a);
  const auto same = make_key_pair(b);
  const auto other = make_key_pair(c);
  assert_ok(first);
  assert_ok(same);
  assert_ok(other);
  assert_eq(first->public_key, same->public_key);
  assert_false(first->public_key == other->public_key);
}

struct HkdfCase {
  std::vector<std::uint8_t> ikm, salt, info;
  std::string_view prk, okm;
};

void hkdf_as_rfc_5869_appendix_a(void**) {
  const HkdfCase cases[] = {
      {std::vector<std::uint8_t>(22, 0x0b), counting(0, 13), counting(0xf0, 10),
       "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
      {counting(0, 80), counting(0x60, 80), counting(0xb0, 80),
       "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
       "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e"
       "590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
      {std::vector<std::uint8_t>(22, 0x0b),
       {},
       {},
       "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
  };
  for (const auto& c : cases) {
    const auto prk = hkdf_extract(c.salt, c.ikm);
    assert_ok(prk);
    assert_bytes(prk->bytes(), c.prk);
    std::vector<std::uint8_t> okm(c.okm.size() / 2);
    assert_ok(hkdf_expand(prk->bytes(), c.info, okm));
    assert_bytes(okm, c.okm);
  }
}

void hkdf_expand_states_its_limits(void**) {
  std::vector<std::uint8_t> out(255 * 32 + 1);
  const auto prk = counting(0, 32);
  assert_error(hkdf_expand(prk, {}, {}), Error::kInvalidArgument);
  assert_error(hkdf_expand(prk, {}, out), Error::kInvalidArgument);
  assert_error(hkdf_expand(prk, counting(0, 129), MutableBytes(out).first(32)),
               Error::kInvalidArgument);
  assert_ok(hkdf_expand(prk, counting(0, 128), MutableBytes(out).first(255 * 32)));
}

void the_transcript_frames_its_parts(void**) {
  assert_bytes(transcript_hash(ascii("an offer"), ascii("and its answer")),
               "17675b640158eded595275adcedba21d54404cd2d27d6f561e9a8fa6d7265059");
  assert_false(transcript_hash(ascii("ab"), ascii("c")) ==
               transcript_hash(ascii("a"), ascii("bc")));
  assert_false(transcript_hash(ascii("ab"), {}) == transcript_hash({}, ascii("ab")));
}

/// The PRK of the vector: private keys 01..20 and 65..84 (hexadecimal), the transcript above.
PseudoRandomKey vector_prk() {
  const PrivateKey client(counting(1, 32));
  const PrivateKey server(counting(101, 32));
  const auto shared = x25519(client, *public_key_of(server));
  assert_bytes(shared->bytes(), "c9ea6a3f79a000b60b076d4afc990b272f3f0b5aaa3f0b8713c209273e363863");
  auto prk =
      hkdf_extract(transcript_hash(ascii("an offer"), ascii("and its answer")), shared->bytes());
  assert_bytes(prk->bytes(), "f4ba8ff04f19275e1e703a4b04be512c095e4073cf573aeb4e60d971e8508919");
  return std::move(*prk);
}

struct EspCase {
  Direction direction;
  EspSuite suite;
  std::uint32_t spi;
  std::uint32_t epoch;
  std::string_view key;
};

void esp_keys_as_computed_elsewhere(void**) {
  constexpr auto kUp = Direction::kClientToServer;
  constexpr auto kDown = Direction::kServerToClient;
  constexpr auto k128 = EspSuite::kAesGcm128;
  constexpr auto k256 = EspSuite::kAesGcm256;
  const EspCase cases[] = {
      {kUp, k128, 0x11223344, 0, "078711ec1f5a3462b48317060f0f6d86c8901424"},
      {kDown, k128, 0x11223344, 0, "c7f349c6213267a2015c21af19f8d365f86774b2"},
      {kUp, k256, 0x11223344, 0,
       "4e7d6013c14852496bfdd0580bf0f9a11cc0750465519d3d98ebffa2bb7aa75f0738b81c"},
      {kUp, k256, 0x11223345, 0,
       "e35afdfb3f788eb4ef6d01a043b1300a8ed280ec62d48c11aab106a5c1af174a189cb320"},
      {kUp, k256, 0x11223344, 1,
       "c148a7f829d1620ca85fe2f07ccc0a8e793d62c7f2322aa2707fcce1dc7019b265622eb6"},
  };
  const auto prk = vector_prk();
  for (const auto& c : cases) {
    const auto key = derive_esp_key(prk, c.direction, c.suite, Spi(c.spi), c.epoch);
    assert_ok(key);
    assert_bytes(key->bytes(), c.key);
  }
}

void an_unknown_suite_has_no_key(void**) {
  assert_error(
      derive_esp_key(vector_prk(), Direction::kClientToServer, static_cast<EspSuite>(9), Spi(256)),
      Error::kUnsupported);
}

}  // namespace
}  // namespace h4a::bootstrap

int main() {
  using namespace h4a::bootstrap;
  const CMUnitTest tests[] = {
      cmocka_unit_test(x25519_multiplies_as_rfc_7748_5_2),
      cmocka_unit_test(both_sides_share_as_rfc_7748_6_1),
      cmocka_unit_test(a_low_order_point_aborts),
      cmocka_unit_test(a_private_key_has_32_bytes),
      cmocka_unit_test(key_pairs_come_from_the_random_source),
      cmocka_unit_test(hkdf_as_rfc_5869_appendix_a),
      cmocka_unit_test(hkdf_expand_states_its_limits),
      cmocka_unit_test(the_transcript_frames_its_parts),
      cmocka_unit_test(esp_keys_as_computed_elsewhere),
      cmocka_unit_test(an_unknown_suite_has_no_key),
  };
  return cmocka_run_group_tests_name("key_schedule", tests, nullptr, nullptr);
}
