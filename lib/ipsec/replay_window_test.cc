#include "ipsec/replay_window.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace h4a::ipsec {
namespace {

constexpr auto kNew = ReplayVerdict::kNew;
constexpr auto kDuplicate = ReplayVerdict::kDuplicate;
constexpr auto kTooOld = ReplayVerdict::kTooOld;

struct Step {
  std::uint64_t sequence;
  ReplayVerdict verdict;
};

struct Case {
  const char* id;
  std::uint32_t window;
  std::vector<Step> steps;
};

// Numbered list; ids as in the published set, verdicts from an independent set-based reference.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"1 basic-dup", 64, {{1, kNew}, {2, kNew}, {2, kDuplicate}, {1, kDuplicate}, {3, kNew}}},
      {"2 left-edge-in", 64, {{64, kNew}, {1, kNew}, {1, kDuplicate}}},
      {"3 jump-exact-window",
       64,
       {{1, kNew}, {65, kNew}, {1, kTooOld}, {2, kNew}, {65, kDuplicate}}},
      {"4 big-jump",
       64,
       {{1, kNew},
        {2, kNew},
        {100000, kNew},
        {99937, kNew},
        {99936, kTooOld},
        {100000, kDuplicate}}},
      {"5 window-32", 32, {{32, kNew}, {1, kNew}, {33, kNew}, {1, kTooOld}, {2, kNew}}},
      {"6 near-wrap-no-esn",
       64,
       {{4294967294, kNew}, {4294967295, kNew}, {4294967295, kDuplicate}, {4294967293, kNew}}},
      {"7 reorder-burst",
       128,
       {{5, kNew}, {3, kNew}, {4, kNew}, {1, kNew}, {2, kNew}, {3, kDuplicate}, {6, kNew}}},
      {"8 window-128 counts packets, not bytes or words",
       128,
       {{128, kNew}, {1, kNew}, {129, kNew}, {1, kTooOld}, {2, kNew}, {2, kDuplicate}}},
      {"9 a jump over the whole ring forgets what lay in it",
       64,
       {{10, kNew}, {10 + 64 * 4, kNew}, {10 + 64 * 4 - 63, kNew}, {10 + 64 * 4 - 64, kTooOld}}},
      {"10 largest number",
       64,
       {{UINT64_MAX, kNew}, {UINT64_MAX, kDuplicate}, {UINT64_MAX - 63, kNew}}},
  };
  return list;
}

void verdicts_are_those_of_the_list(void**) {
  for (const Case& c : cases()) {
    ReplayWindow window(c.window);
    for (const Step& s : c.steps) {
      if (window.check(s.sequence) != s.verdict) fail_msg("%s: check differs", c.id);
      if (window.commit(s.sequence) != s.verdict) fail_msg("%s: commit differs", c.id);
    }
  }
}

void a_check_changes_nothing(void**) {
  ReplayWindow window(64);
  assert_eq(window.commit(1), kNew);
  assert_eq(window.check(1'000'000), kNew);
  assert_int_equal(window.top(), 1);
  assert_eq(window.check(2), kNew);
  assert_eq(window.check(2), kNew);
}

/// The slow model: a set of all numbers ever committed.
class Model {
 public:
  explicit Model(std::uint32_t size) : size_(size) {}
  ReplayVerdict commit(std::uint64_t s) {
    if (s <= top_ && top_ - s >= size_) return kTooOld;
    if (!seen_.insert(s).second) return kDuplicate;
    top_ = std::max(top_, s);
    return kNew;
  }

 private:
  std::uint32_t size_;
  std::uint64_t top_ = 0;
  std::set<std::uint64_t> seen_;
};

/// Small steps, steps about the window's size, and rare far jumps, forward and backward.
std::uint64_t next_number(Random& random, std::uint64_t top, std::uint32_t size) {
  const std::uint64_t reach = random.below(100) < 90 ? 40 : 3 * std::uint64_t{size};
  if (random.below(2000) == 0) return top + random.below(1U << 24);
  const std::uint64_t back = random.below(reach);
  return random.below(2) == 0 || back >= top ? top + 1 + random.below(reach) : top - back;
}

void any_order_agrees_with_the_slow_model(void**) {
  for (const std::uint32_t size : {32U, 33U, 63U, 64U, 65U, 127U, 128U, 1000U, 16384U}) {
    SeededRandom random(size);
    ReplayWindow window(size);
    Model model(size);
    for (int i = 0; i < 20000; ++i) {
      const std::uint64_t s = next_number(random, window.top(), size);
      const ReplayVerdict checked = window.check(s);
      const ReplayVerdict expected = model.commit(s);
      if (checked != expected || window.commit(s) != expected)
        fail_msg("window %u, step %d, number %llu", size, i, static_cast<unsigned long long>(s));
    }
  }
}

void the_largest_window_holds_its_size(void**) {
  ReplayWindow window(ReplayWindow::kSizeMax);
  const std::uint64_t top = 5'000'000;
  assert_eq(window.commit(top), kNew);
  assert_eq(window.commit(top - (ReplayWindow::kSizeMax - 1)), kNew);
  assert_eq(window.commit(top - ReplayWindow::kSizeMax), kTooOld);
  assert_eq(window.commit(top - (ReplayWindow::kSizeMax - 1)), kDuplicate);
}

struct EsnCase {
  const char* id;
  std::uint64_t top;
  std::uint32_t low;
  std::uint32_t high;
};

// RFC 4303 appendix A2.1, window 64. 8 to 11: the ends of the 64-bit space.
constexpr std::array<EsnCase, 11> kEsnCases{{
    {"1 esn-caseA-newer", 0x0000000100000100, 0x00000101, 1},
    {"2 esn-caseA-left-edge", 0x0000000100000100, 0x000000c1, 1},
    {"3 esn-caseB-window-spans", 0x0000000100000010, 0xfffffff0, 0},
    {"4 esn-caseB-just-left-of-edge", 0x0000000100000010, 0xffffffd0, 1},
    {"5 esn-wrap-forward", 0x00000000ffffffff, 0x00000000, 1},
    {"6 esn-top-63", 0x000000010000003f, 0x00000000, 1},
    {"7 esn-fresh-sa", 0x0000000000000000, 0x00000001, 0},
    {"8 nothing precedes the first subspace", 0x0000000000000005, 0xfffffff0, 0},
    {"9 left of the window means the next subspace", 0x0000000100000100, 0x000000c0, 2},
    {"10 case B, left edge itself", 0x0000000100000010, 0xffffffd1, 0},
    {"11 nothing follows the last subspace", 0xffffffffffffffff, 0x00000000, 0xffffffff},
}};

void the_high_half_is_inferred_as_appendix_a2_says(void**) {
  for (const EsnCase& c : kEsnCases) {
    const std::uint64_t expected = std::uint64_t{c.high} << 32 | c.low;
    if (infer_sequence(c.top, 64, c.low) != expected) fail_msg("%s", c.id);
  }
}

/// Every number within half the 32-bit space ahead, or within the window, is found again from its
/// low half.
void inference_finds_every_number_near_the_window(void**) {
  SeededRandom random(7);
  for (const std::uint32_t window : {32U, 64U, 16384U, ReplayWindow::kSizeMax}) {
    for (int i = 0; i < 20000; ++i) {
      const std::uint64_t base = (std::uint64_t{1} + random.below(3)) << 32;
      const std::uint64_t top = base + random.below(2 * window) - window;
      const std::uint64_t ahead = top + random.below(1U << 30);
      const std::uint64_t behind = top - random.below(window);
      assert_eq(infer_sequence(top, window, static_cast<std::uint32_t>(ahead)), ahead);
      assert_eq(infer_sequence(top, window, static_cast<std::uint32_t>(behind)), behind);
    }
  }
}

}  // namespace
}  // namespace h4a::ipsec

int main() {
  using namespace h4a::ipsec;
  const CMUnitTest tests[] = {
      cmocka_unit_test(verdicts_are_those_of_the_list),
      cmocka_unit_test(a_check_changes_nothing),
      cmocka_unit_test(any_order_agrees_with_the_slow_model),
      cmocka_unit_test(the_largest_window_holds_its_size),
      cmocka_unit_test(the_high_half_is_inferred_as_appendix_a2_says),
      cmocka_unit_test(inference_finds_every_number_near_the_window),
  };
  return cmocka_run_group_tests_name("replay_window", tests, nullptr, nullptr);
}
