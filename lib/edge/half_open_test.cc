#include "edge/half_open.h"

#include "test/test_support.h"

namespace h4a::edge {
namespace {

Instant at(std::int64_t ms) {
  return Instant::from_ns(ms * 1'000'000);
}
const IpAddress kA = IpAddress::v4(192, 0, 2, 1);
const IpAddress kB = IpAddress::v4(192, 0, 2, 2);

void one_source_is_limited_and_others_are_not(void**) {
  HalfOpenLimiter limiter({.per_source = 2, .total = 10, .expiry = Duration::s(5)});
  assert_true(limiter.admit(kA, {}, at(0)) != nullptr);
  assert_true(limiter.admit(kA, {}, at(1)) != nullptr);
  assert_false(limiter.admit(kA, {}, at(2)) != nullptr);
  assert_true(limiter.admit(kB, {}, at(2)) != nullptr);
}

void each_expires_on_its_own(void**) {
  HalfOpenLimiter limiter({.per_source = 2, .total = 10, .expiry = Duration::s(5)});
  assert_true(limiter.admit(kA, {}, at(0)) != nullptr);
  assert_true(limiter.admit(kA, {}, at(3000)) != nullptr);
  assert_false(limiter.admit(kA, {}, at(4999)) != nullptr);
  assert_true(limiter.admit(kA, {}, at(5000)) != nullptr);
  assert_false(limiter.admit(kA, {}, at(7999)) != nullptr);
  assert_true(limiter.admit(kA, {}, at(8000)) != nullptr);
  assert_int_equal(limiter.size(), 2);
}

void all_sources_together_are_limited(void**) {
  HalfOpenLimiter limiter({.per_source = 2, .total = 100, .expiry = Duration::s(5)});
  for (std::uint8_t i = 0; i < 100; ++i)
    assert_true(limiter.admit(IpAddress::v4(10, 0, 1, i), {}, at(0)) != nullptr);
  assert_false(limiter.admit(kA, {}, at(1)) != nullptr);
  assert_true(limiter.admit(kA, {}, at(5000)) != nullptr);
  assert_int_equal(limiter.size(), 1);
}

// Twenty fetches one after the other are nothing to refuse.
void who_is_confirmed_leaves_room(void**) {
  HalfOpenLimiter limiter({.per_source = 2, .total = 2, .expiry = Duration::s(5)});
  for (int i = 0; i < 20; ++i) {
    const auto place = limiter.admit(kA, {}, at(i));
    assert_true(place != nullptr);
    place->leave();
  }
  const auto second = limiter.admit(kA, {}, at(30));
  assert_true(limiter.admit(kA, {}, at(31)) != nullptr);
  assert_false(limiter.admit(kA, {}, at(32)) != nullptr);
  second->leave();  // out of order
  assert_true(limiter.admit(kA, {}, at(33)) != nullptr);
  assert_int_equal(limiter.size(), 2);
}

/// Whoever shows the same credentials from many addresses is one client; others are not in the way.
void one_identity_is_limited_wherever_it_comes_from(void**) {
  HalfOpenLimiter limiter(
      {.per_source = 100, .per_identity = 3, .total = 1000, .expiry = Duration::s(5)});
  const std::string one = identity_key({}, "Bearer one", {});
  const std::string two = identity_key({}, "Bearer two", {});
  for (std::uint8_t i = 0; i < 3; ++i)
    assert_true(limiter.admit(IpAddress::v4(10, 0, 1, i), one, at(0)) != nullptr);
  assert_false(limiter.admit(IpAddress::v4(10, 0, 1, 9), one, at(1)) != nullptr);
  const auto place = limiter.admit(IpAddress::v4(10, 0, 1, 9), two, at(1));
  assert_true(place != nullptr);
  for (int i = 0; i < 50; ++i) assert_true(limiter.admit(kA, {}, at(1)) != nullptr);
  assert_true(limiter.admit(kB, two, at(2)) != nullptr);
  assert_true(limiter.admit(kB, two, at(2)) != nullptr);
  assert_false(limiter.admit(kB, two, at(2)) != nullptr);
  place->leave();
  assert_true(limiter.admit(kB, two, at(3)) != nullptr);
  assert_true(limiter.admit(kB, one, at(5000)) != nullptr);
}

/// Made-up credentials do not get around the limit of the source.
void many_identities_of_one_source_are_one_source(void**) {
  HalfOpenLimiter limiter({.per_source = 4, .per_identity = 100, .total = 1000});
  std::size_t admitted = 0;
  for (int i = 0; i < 20; ++i)
    admitted += limiter.admit(kA, identity_key({}, {}, "id=" + std::to_string(i)), at(0)) ? 1U : 0U;
  assert_int_equal(admitted, 4);
}

void identities(void**) {
  assert_true(identity_key({}, {}, {}).empty());
  assert_true(identity_key("CN=a", {}, {}) == identity_key("CN=a", "Bearer x", "c=1"));
  assert_true(identity_key("CN=a", {}, {}) != identity_key({}, "CN=a", {}));
  assert_true(identity_key({}, "x", {}) != identity_key({}, {}, "x"));
  assert_true(identity_key({}, "secret", {}).find("secret") == std::string::npos);
}

void a_v6_prefix_is_one_source(void**) {
  HalfOpenLimiter limiter({.per_source = 1, .total = 10, .expiry = Duration::s(5)});
  assert_true(limiter.admit(*IpAddress::parse("2001:db8::1"), {}, at(0)) != nullptr);
  assert_false(limiter.admit(*IpAddress::parse("2001:db8::ffff:2"), {}, at(0)) != nullptr);
  assert_true(limiter.admit(*IpAddress::parse("2001:db8:0:1::1"), {}, at(0)) != nullptr);
  assert_eq(source_key(kA), kA);
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {
      cmocka_unit_test(one_source_is_limited_and_others_are_not),
      cmocka_unit_test(each_expires_on_its_own),
      cmocka_unit_test(all_sources_together_are_limited),
      cmocka_unit_test(who_is_confirmed_leaves_room),
      cmocka_unit_test(one_identity_is_limited_wherever_it_comes_from),
      cmocka_unit_test(many_identities_of_one_source_are_one_source),
      cmocka_unit_test(identities),
      cmocka_unit_test(a_v6_prefix_is_one_source),
  };
  return cmocka_run_group_tests_name("half_open", tests, nullptr, nullptr);
}
