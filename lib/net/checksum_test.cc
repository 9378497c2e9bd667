#include "net/checksum.h"

#include <array>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

/// The definition, word by word, with no cleverness.
std::uint16_t slow_checksum(const std::vector<std::uint8_t>& b) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < b.size(); i += 2) {
    const std::uint32_t low = i + 1 < b.size() ? b[i + 1] : 0;
    sum += std::uint32_t{b[i]} << 8 | low;
    if (sum > 0xffff) sum = (sum & 0xffff) + 1;
  }
  return static_cast<std::uint16_t>(~sum);
}

std::vector<std::uint8_t> random_bytes(Random& random, std::size_t n) {
  std::vector<std::uint8_t> b(n);
  random.fill(b);
  return b;
}

void the_example_of_rfc_1071_sums_to_ddf2(void**) {
  const std::array<std::uint8_t, 8> b{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  assert_int_equal(Checksum().add(b).value(), 0xffff & ~0xddf2);
}

void agrees_with_the_slow_model(void**) {
  SeededRandom random(1);
  for (int i = 0; i < 4000; ++i) {
    const auto b = random_bytes(random, random.below(300));
    assert_int_equal(Checksum().add(b).value(), slow_checksum(b));
  }
}

void all_ones_and_all_zeros_of_any_length(void**) {
  for (std::size_t n = 0; n < 70; ++n) {
    assert_int_equal(Checksum().add(std::vector<std::uint8_t>(n, 0)).value(), 0xffff);
    const std::vector<std::uint8_t> ones(n, 0xff);
    assert_int_equal(Checksum().add(ones).value(), slow_checksum(ones));
  }
  const std::vector<std::uint8_t> jumbo(65535, 0xff);
  assert_int_equal(Checksum().add(jumbo).value(), slow_checksum(jumbo));
}

void parts_add_up(void**) {
  SeededRandom random(2);
  for (int i = 0; i < 1000; ++i) {
    const auto b = random_bytes(random, 2 + random.below(200));
    const std::size_t cut = random.below(b.size()) & ~std::size_t{1};
    const Bytes all(b);
    assert_int_equal(Checksum().add(all.first(cut)).add(all.subspan(cut)).value(),
                     slow_checksum(b));
  }
}

void a_stored_checksum_verifies_and_a_flipped_bit_does_not(void**) {
  SeededRandom random(3);
  for (int i = 0; i < 1000; ++i) {
    auto b = random_bytes(random, 2 * (1 + random.below(40)));
    store_be<2>(b.data(), 0);
    store_be<2>(b.data(), Checksum().add(b).value());
    assert_true(Checksum().add(b).ok());
    b[random.below(b.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
    assert_false(Checksum().add(b).ok());
  }
}

void an_update_equals_a_new_sum(void**) {
  SeededRandom random(4);
  for (int i = 0; i < 4000; ++i) {
    auto b = random_bytes(random, 20);
    b[0] = 0x45;  // as in a header: not all zero
    store_be<2>(b.data() + 10, 0);
    const std::uint16_t before = Checksum().add(b).value();
    const std::uint16_t old_word = load_be16(b.data() + 2);
    const std::uint16_t new_word = static_cast<std::uint16_t>(random.u32());
    store_be<2>(b.data() + 2, new_word);
    assert_int_equal(update_checksum(before, old_word, new_word), Checksum().add(b).value());
  }
}

void the_update_example_of_rfc_1624(void**) {
  // §4: equation 2 of RFC 1141 gives ffff here, which is wrong.
  assert_int_equal(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
}

void pseudo_headers_are_their_bytes(void**) {
  SeededRandom random(5);
  for (int i = 0; i < 500; ++i) {
    const auto b = random_bytes(random, 32);
    const auto length = static_cast<std::uint16_t>(random.u32());
    std::vector<std::uint8_t> v4(b.begin(), b.begin() + 8);
    v4.insert(v4.end(),
              {0, 17, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)});
    assert_int_equal(Checksum()
                         .add_pseudo_header(IpAddress::load_v4(b.data()),
                                            IpAddress::load_v4(b.data() + 4), 17, length)
                         .value(),
                     slow_checksum(v4));
    std::vector<std::uint8_t> v6(b.begin(), b.end());
    v6.insert(v6.end(), {0, 0, static_cast<std::uint8_t>(length >> 8),
                         static_cast<std::uint8_t>(length), 0, 0, 0, 58});
    assert_int_equal(Checksum()
                         .add_pseudo_header(IpAddress::load_v6(b.data()),
                                            IpAddress::load_v6(b.data() + 16), 58, length)
                         .value(),
                     slow_checksum(v6));
  }
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_example_of_rfc_1071_sums_to_ddf2),
      cmocka_unit_test(agrees_with_the_slow_model),
      cmocka_unit_test(all_ones_and_all_zeros_of_any_length),
      cmocka_unit_test(parts_add_up),
      cmocka_unit_test(a_stored_checksum_verifies_and_a_flipped_bit_does_not),
      cmocka_unit_test(an_update_equals_a_new_sum),
      cmocka_unit_test(the_update_example_of_rfc_1624),
      cmocka_unit_test(pseudo_headers_are_their_bytes),
  };
  return cmocka_run_group_tests_name("checksum", tests, nullptr, nullptr);
}
