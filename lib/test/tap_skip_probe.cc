// A test program for the test of tap_skip.cc: one case that skips, one that passes.
#include "test/test_support.h"

static void skips(void**) {
  skip();
}
static void passes(void**) {
  assert_int_equal(1, 1);
}

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(skips), cmocka_unit_test(passes)};
  return cmocka_run_group_tests_name("probe", tests, nullptr, nullptr);
}
