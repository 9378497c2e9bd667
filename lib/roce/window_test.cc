// Memory windows as a peer meets them: coverage, retirement, invalidation.
#include "roce/memory_table.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;

void a_window_covers_what_was_written(void**) {
  Bench b;
  Rkey rkey;
  const auto window = b.bound_window(1000, 512, rkey);
  const auto into = [&](std::uint32_t psn, std::size_t offset, std::size_t n) {
    Packet p = write(b, psn, 1000 + offset, std::string(n, 'w'));
    p.rkey = rkey;
    assert_eq(b.receive(p), Drop::kNone);
    return b.engine.window_status(window.id)->contiguous_bytes;
  };
  assert_int_equal(into(500, 0, 100), 100);
  assert_int_equal(into(501, 200, 100), 100);  // a hole
  assert_int_equal(into(502, 50, 100), 150);
  assert_int_equal(into(503, 0, 10), 150);
  b.skip_sent();
  b.post_recv(0, 8, 5);
  b.receive({.opcode = Opcode::kRcSendOnlyWithInvalidate,
             .psn = 504,
             .payload = "done",
             .invalidate = rkey});
  const Completion c = b.expect_completion(5, CompletionStatus::kSuccess);
  assert_true(c.has_invalidate && c.invalidated_rkey == rkey);
  const auto status = b.engine.window_status(window.id).value();
  assert_true(status.state == verbs::WindowStatus::State::kInvalidated && status.by_peer);
  assert_int_equal(status.contiguous_bytes, 150);
  b.skip_sent();
  Packet late = write(b, 505, 1000, "late");
  late.rkey = rkey;
  expect_refused(b, late, 0x62, Drop::kRemoteAccess);
}

void window_bounds_are_not_those_of_its_region(void**) {
  for (const std::size_t offset : {std::size_t{999}, std::size_t{1509}}) {
    Bench b;
    Rkey rkey;
    b.bound_window(1000, 512, rkey);
    Packet p = write(b, 500, offset, "four");
    p.rkey = rkey;
    expect_refused(b, p, 0x62, Drop::kRemoteAccess);
  }
}

/// D4: a retired window takes WRITEs and drops them; a duplicate after invalidation harms nobody.
void retired_in_the_middle_of_a_write(void**) {
  Bench b;
  Rkey rkey;
  const auto window = b.bound_window(0, 600, rkey);
  const std::string data = pattern(600);
  b.receive({.opcode = Opcode::kRcWriteFirst,
             .psn = 500,
             .payload = data.substr(0, 256),
             .address = b.address(0),
             .rkey = rkey,
             .length = 600});
  assert_ok(b.engine.retire_window(window.id));
  assert_eq(
      b.receive({.opcode = Opcode::kRcWriteMiddle, .psn = 501, .payload = data.substr(256, 256)}),
      Drop::kRetired);
  assert_eq(b.receive({.opcode = Opcode::kRcWriteLast, .psn = 502, .payload = data.substr(512)}),
            Drop::kRetired);
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 502, .msn = 1});
  assert_true(b.text(256, 344) == std::string(344, '\0'));
  assert_int_equal(b.engine.window_status(window.id)->contiguous_bytes, 256);
  SendWr w;
  w.wr_id = 3;
  w.opcode = WrOpcode::kLocalInvalidate;
  w.invalidate_rkey = rkey;
  b.post(w);
  b.expect_nothing();
  b.expect_completion(3, CompletionStatus::kSuccess);
  assert_eq(b.receive({.opcode = Opcode::kRcWriteLast, .psn = 502, .payload = data.substr(512)}),
            Drop::kDuplicatePsn);
  b.expect_sent(ack(502));
  assert_eq(b.state(), verbs::QpState::kRts);
}

void invalidated_in_the_middle_of_a_write(void**) {
  Bench b;
  Rkey rkey;
  b.bound_window(0, 600, rkey);
  const std::string data = pattern(600);
  b.receive({.opcode = Opcode::kRcWriteFirst,
             .psn = 500,
             .payload = data.substr(0, 256),
             .address = b.address(0),
             .rkey = rkey,
             .length = 600});
  SendWr w;
  w.opcode = WrOpcode::kLocalInvalidate;
  w.invalidate_rkey = rkey;
  b.post(w);
  b.skip_sent();
  expect_refused(b,
                 {.opcode = Opcode::kRcWriteMiddle, .psn = 501, .payload = data.substr(256, 256)},
                 0x62, Drop::kRemoteAccess);
  assert_true(b.text(256, 256) == std::string(256, '\0'));
}

void invalidate_needs_a_live_window_of_this_qp(void**) {
  Bench foreign;
  foreign.post_recv(0, 64, 1);
  expect_refused(foreign,
                 {.opcode = Opcode::kRcSendOnlyWithInvalidate,
                  .psn = 500,
                  .payload = "x",
                  .invalidate = foreign.region.rkey},
                 0x62, Drop::kRemoteAccess);
  foreign.expect_completion(1, CompletionStatus::kFlushed);
  Bench twice;
  Rkey rkey;
  twice.bound_window(0, 64, rkey);
  twice.post_recv(100, 64, 1);
  twice.post_recv(100, 64, 2);
  twice.receive({.opcode = Opcode::kRcSendOnlyWithInvalidate, .psn = 500, .invalidate = rkey});
  twice.skip_sent();
  expect_refused(twice,
                 {.opcode = Opcode::kRcSendOnlyWithInvalidate, .psn = 501, .invalidate = rkey},
                 0x62, Drop::kRemoteAccess);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_window_covers_what_was_written),
      cmocka_unit_test(window_bounds_are_not_those_of_its_region),
      cmocka_unit_test(retired_in_the_middle_of_a_write),
      cmocka_unit_test(invalidated_in_the_middle_of_a_write),
      cmocka_unit_test(invalidate_needs_a_live_window_of_this_qp),
  };
  return cmocka_run_group_tests_name("window", tests, nullptr, nullptr);
}
