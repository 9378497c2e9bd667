// Serial arithmetic at 0, 1, half range and wrap (field report: plain compares fail at the wrap).
#include "base/serial.h"

#include "test/test_support.h"

namespace h4a {
namespace {

struct Row {
  std::uint32_t a, b;
  std::int32_t distance;
};

constexpr Row kRows[] = {
    {0x000000, 0xffffff, 1},        {0xffffff, 0x000000, -1},       {0x000005, 0xfffffb, 10},
    {0x7fffff, 0x000000, 8388607},  {0x800000, 0x000000, -8388608}, {0x800001, 0x000000, -8388607},
    {0x000000, 0x800000, -8388608}, {0x123456, 0x123456, 0},
};

void distance_is_signed_and_wraps(void**) {
  for (const Row& r : kRows) assert_int_equal(Psn(r.a).since(Psn(r.b)), r.distance);
}

void addition_wraps_at_24_bits(void**) {
  assert_int_equal((Psn(0xffffff) + 1).value(), 0);
  assert_int_equal((Psn(0) - 1).value(), 0xffffff);
  Psn p(0xfffffe);
  assert_int_equal((++p).value(), 0xffffff);
  assert_int_equal((++p).value(), 0);
  assert_int_equal(Psn(0x1234567).value(), 0x234567);
}

void since_inverts_addition(void**) {
  for (std::uint32_t start : {0U, 1U, 0x7fffffU, 0x800000U, 0xffffffU})
    for (std::uint32_t n : {0U, 1U, 255U, 0x7fffffU})
      assert_int_equal((Psn(start) + n).since(Psn(start)), n);
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(distance_is_signed_and_wraps),
      cmocka_unit_test(addition_wraps_at_24_bits),
      cmocka_unit_test(since_inverts_addition),
  };
  return cmocka_run_group_tests_name("serial", tests, nullptr, nullptr);
}
