#include "base/secret.h"

#include <new>
#include <type_traits>

#include "test/test_support.h"

namespace h4a {
namespace {

static_assert(!std::is_copy_constructible_v<Secret<32>>);
static_assert(!std::is_copy_assignable_v<Secret<32>>);

bool all_zero(const std::uint8_t* p, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    if (p[i] != 0) return false;
  return true;
}

void destruction_wipes_the_bytes(void**) {
  alignas(Secret<32>) std::uint8_t storage[sizeof(Secret<32>)];
  const std::uint8_t key[4] = {1, 2, 3, 4};
  auto* secret = new (storage) Secret<32>(Bytes(key));
  assert_memory_equal(secret->bytes().data(), key, 4);
  secret->~Secret();
  volatile std::uint8_t* seen = storage;  // the object is gone: read its storage, not the object
  std::uint8_t copy[32];
  for (std::size_t i = 0; i < sizeof(copy); ++i) copy[i] = seen[i];
  assert_true(all_zero(copy, sizeof(copy)));
}

void a_move_leaves_nothing_behind(void**) {
  const std::uint8_t key[4] = {1, 2, 3, 4};
  Secret<32> a{Bytes(key)};
  const std::uint8_t* old = a.bytes().data();
  Secret<32> b(std::move(a));
  assert_int_equal(b.size(), 4);
  assert_int_equal(a.size(), 0);
  assert_true(all_zero(old, 4));
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(destruction_wipes_the_bytes),
      cmocka_unit_test(a_move_leaves_nothing_behind),
  };
  return cmocka_run_group_tests_name("secret", tests, nullptr, nullptr);
}
