#include "base/timer_heap.h"

#include <array>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a {
namespace {

Instant at(std::int64_t ns) {
  return Instant::from_ns(ns);
}

void fires_earliest_first(void**) {
  TimerHeap heap(3);
  TimerNode a;
  TimerNode b;
  TimerNode c;
  assert_true(heap.next().is_never());
  heap.arm(a, at(30));
  heap.arm(b, at(10));
  heap.arm(c, at(20));
  assert_eq(heap.next(), at(10));
  assert_null(heap.pop_due(at(9)));
  assert_ptr_equal(heap.pop_due(at(40)), &b);
  assert_ptr_equal(heap.pop_due(at(40)), &c);
  assert_ptr_equal(heap.pop_due(at(40)), &a);
  assert_null(heap.pop_due(at(40)));
}

void moving_later_and_disarming_are_exact(void**) {
  TimerHeap heap(2);
  TimerNode a;
  TimerNode b;
  heap.arm(a, at(10));
  heap.arm(b, at(15));
  heap.arm(a, at(20));
  assert_eq(heap.next(), at(15));
  heap.disarm(b);
  assert_true(b.deadline().is_never());
  assert_eq(heap.next(), at(20));
  heap.arm(a, at(5));
  assert_eq(heap.next(), at(5));
  heap.remove(a);
  assert_true(heap.next().is_never());
}

/// Against a plain array of deadlines.
void agrees_with_a_slow_model(void**) {
  SeededRandom random(7);
  std::array<TimerNode, 40> nodes;
  TimerHeap heap(nodes.size());
  for (int step = 0; step < 5000; ++step) {
    TimerNode& node = nodes[random.below(nodes.size())];
    switch (random.below(4)) {
      case 0:
        heap.disarm(node);
        break;
      case 1:
        heap.remove(node);
        break;
      default:
        heap.arm(node, at(static_cast<std::int64_t>(random.below(1000))));
        break;
    }
    Instant least = Instant::never();
    for (const TimerNode& n : nodes) least = std::min(least, n.deadline());
    assert_eq(heap.next(), least);
    if (step % 50 == 0 && !least.is_never()) {
      const TimerNode* due = heap.pop_due(least);
      assert_non_null(due);
      assert_true(due->deadline().is_never());
    }
  }
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(fires_earliest_first),
      cmocka_unit_test(moving_later_and_disarming_are_exact),
      cmocka_unit_test(agrees_with_a_slow_model),
  };
  return cmocka_run_group_tests_name("timer_heap", tests, nullptr, nullptr);
}
