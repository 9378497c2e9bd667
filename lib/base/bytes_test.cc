#include "base/bytes.h"

#include "test/test_support.h"

namespace h4a {
namespace {

constexpr std::uint8_t kBytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};

void loads_state_their_byte_order(void**) {
  assert_int_equal(load_be16(kBytes), 0x0102);
  assert_int_equal(load_be24(kBytes), 0x010203);
  assert_int_equal(load_be32(kBytes), 0x01020304);
  assert_true(load_be64(kBytes) == 0x0102030405060708ULL);
  assert_int_equal(load_le<2>(kBytes), 0x0201);
  assert_true(load_le<8>(kBytes) == 0x0807060504030201ULL);
}

void stores_write_exactly_their_width(void**) {
  std::uint8_t out[8] = {};
  store_be<3>(out + 1, 0xaabbccdd);
  const std::uint8_t be[8] = {0, 0xbb, 0xcc, 0xdd, 0, 0, 0, 0};
  assert_memory_equal(out, be, 8);
  store_le<3>(out + 1, 0xaabbccdd);
  const std::uint8_t le[8] = {0, 0xdd, 0xcc, 0xbb, 0, 0, 0, 0};
  assert_memory_equal(out, le, 8);
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(loads_state_their_byte_order),
      cmocka_unit_test(stores_write_exactly_their_width),
  };
  return cmocka_run_group_tests_name("bytes", tests, nullptr, nullptr);
}
