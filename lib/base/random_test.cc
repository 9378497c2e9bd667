#include "base/random.h"

#include <set>

#include "test/test_support.h"

namespace h4a {
namespace {

void a_seed_repeats(void**) {
  SeededRandom a(7), b(7), c(8);
  for (int i = 0; i < 100; ++i) assert_true(a.u64() == b.u64());
  assert_true(a.u64() != c.u64());
}

void below_stays_below_and_reaches_all(void**) {
  SeededRandom r(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t v = r.below(10);
    assert_true(v < 10);
    seen.insert(v);
  }
  assert_int_equal(seen.size(), 10);
  assert_int_equal(r.below(1), 0);
}

void the_system_source_does_not_repeat(void**) {
  SystemRandom r;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(r.u64());
  assert_int_equal(seen.size(), 1000);
  std::uint8_t large[1024] = {};
  r.fill(large);
  std::size_t zeros = 0;
  for (const std::uint8_t b : large) zeros += b == 0;
  assert_true(zeros < 64);
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_seed_repeats),
      cmocka_unit_test(below_stays_below_and_reaches_all),
      cmocka_unit_test(the_system_source_does_not_repeat),
  };
  return cmocka_run_group_tests_name("random", tests, nullptr, nullptr);
}
