#include "stack/neighbours.h"

#include "test/test_support.h"

namespace h4a::stack {
namespace {

const IpAddress kPeer = IpAddress::v4(10, 0, 0, 2);
const MacAddress kMac({2, 0, 0, 0, 0, 2});
constexpr Instant kStart = Instant::from_ns(1'000'000'000);

Instant after(Duration d) {
  return kStart + d;
}

std::size_t asked(Neighbours& n, Instant now) {
  IpAddress out[8];
  return n.due_solicitations(out, now);
}

void an_unknown_address_is_asked_for_and_learned(void**) {
  Neighbours n(4);
  Neighbours::Index i = 0;
  assert_true(n.acquire(kPeer, i));
  assert_true(n.next_deadline().is_never());
  assert_null(n.resolve(i, kStart));
  assert_true(n.next_deadline() == kStart);
  assert_int_equal(asked(n, kStart), 1);
  assert_int_equal(asked(n, kStart), 0);
  n.learn(kPeer, kMac, after(Duration::ms(1)), false);
  const MacAddress* mac = n.resolve(i, after(Duration::ms(2)));
  assert_non_null(mac);
  assert_true(*mac == kMac);
  assert_true(n.next_deadline().is_never());
}

void frames_wait_in_order_and_leave_once(void**) {
  Neighbours n(4);
  packet::HeapFramePool pool(Neighbours::kPendingMax + 1, 512);
  Neighbours::Index i = 0;
  assert_true(n.acquire(kPeer, i));
  assert_null(n.resolve(i, kStart));
  packet::Frame* first = pool.allocate_one();
  assert_true(n.hold(i, first));
  for (std::size_t k = 1; k < Neighbours::kPendingMax; ++k)
    assert_true(n.hold(i, pool.allocate_one()));
  packet::Frame* extra = pool.allocate_one();
  assert_false(n.hold(i, extra));  // full: it stays ours
  packet::Frame* out[Neighbours::kPendingMax];
  MacAddress macs[Neighbours::kPendingMax];
  assert_int_equal(n.take_ready(out, macs), 0);
  n.learn(kPeer, kMac, kStart, false);
  assert_int_equal(n.take_ready(out, macs), Neighbours::kPendingMax);
  assert_ptr_equal(out[0], first);
  assert_true(macs[0] == kMac);
  assert_int_equal(n.take_ready(out, macs), 0);
}

void silence_ends_in_failure_and_a_later_try(void**) {
  Neighbours n(4);
  packet::HeapFramePool pool(2, 512);
  Neighbours::Index i = 0;
  assert_true(n.acquire(kPeer, i));
  assert_null(n.resolve(i, kStart));
  assert_true(n.hold(i, pool.allocate_one()));
  Instant now = kStart;
  for (unsigned k = 0; k < Neighbours::kTriesMax; ++k) {
    assert_int_equal(asked(n, now), 1);
    assert_int_equal(asked(n, now), 0);
    now = now + Neighbours::kFirstRetransmit * (1 << k);
  }
  assert_int_equal(asked(n, now), 0);
  assert_true(n.unreachable(i));
  packet::Frame* out[2];
  assert_int_equal(n.take_expired(out), 1);
  assert_false(n.hold(i, out[0]));
  assert_null(n.resolve(i, now));  // too early for another try
  now = now + Neighbours::kFailedFor;
  assert_null(n.resolve(i, now));
  assert_int_equal(asked(n, now), 1);
}

void an_old_address_is_used_on_while_asking(void**) {
  Neighbours n(4);
  Neighbours::Index i = 0;
  assert_true(n.acquire(kPeer, i));
  n.learn(kPeer, kMac, kStart, false);
  const Instant old = after(Neighbours::kLifetime);
  assert_non_null(n.resolve(i, old));
  assert_int_equal(asked(n, old), 1);
}

void strangers_never_evict_what_is_used(void**) {
  Neighbours n(2);
  Neighbours::Index i = 0;
  assert_true(n.acquire(kPeer, i));
  n.learn(kPeer, kMac, kStart, false);
  for (std::uint8_t k = 0; k < 200; ++k) n.learn(IpAddress::v4(10, 0, 1, k), kMac, kStart, true);
  assert_int_equal(n.size(), 2);
  assert_non_null(n.resolve(i, kStart));
  n.learn(IpAddress::v4(10, 0, 2, 1), kMac, kStart, false);  // unasked: not remembered
  Neighbours::Index j = 0;
  assert_true(n.acquire(IpAddress::v4(10, 0, 2, 1), j));
  assert_null(n.resolve(j, kStart));
  Neighbours::Index k = 0;
  assert_false(n.acquire(IpAddress::v4(10, 0, 2, 2), k));  // both in use
}

// Without users and with nothing waiting, an entry that still asks may go; who takes its place asks anew.
void an_asking_entry_can_be_replaced(void**) {
  Neighbours n(1);
  Neighbours::Index i = 0, j = 0;
  assert_true(n.acquire(kPeer, i));
  assert_null(n.resolve(i, kStart));
  n.release(i);
  const IpAddress other = IpAddress::v4(10, 0, 0, 3);
  assert_true(n.acquire(other, j));
  assert_int_equal(asked(n, kStart), 0);
  assert_true(n.next_deadline().is_never());
  for (int round = 0; round < 3; ++round) {
    assert_null(n.resolve(j, kStart));
    IpAddress out[2];
    assert_int_equal(n.due_solicitations(out, kStart), round == 0 ? 1 : 0);
    if (round == 0) assert_true(out[0] == other);
  }
}

}  // namespace
}  // namespace h4a::stack

int main() {
  using namespace h4a::stack;
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_unknown_address_is_asked_for_and_learned),
      cmocka_unit_test(frames_wait_in_order_and_leave_once),
      cmocka_unit_test(silence_ends_in_failure_and_a_later_try),
      cmocka_unit_test(an_old_address_is_used_on_while_asking),
      cmocka_unit_test(strangers_never_evict_what_is_used),
      cmocka_unit_test(an_asking_entry_can_be_replaced),
  };
  return cmocka_run_group_tests_name("neighbours", tests, nullptr, nullptr);
}
