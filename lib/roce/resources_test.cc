// READs as the responder answers them: once, again, and no more than it said.
#include "roce/resources.h"

#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;

void answers_a_read(void**) {
  Bench b;
  b.fill(100, pattern(600));
  b.receive(read(b, 500, 100, 600));
  b.receive(write(b, 503, 5000, "next"));
  b.expect_sent({.opcode = Opcode::kRcReadResponseFirst,
                 .psn = 500,
                 .payload = pattern(600).substr(0, 256),
                 .syndrome = 0x1f,
                 .msn = 1});
  b.expect_sent({.opcode = Opcode::kRcReadResponseMiddle,
                 .psn = 501,
                 .payload = pattern(600).substr(256, 256)});
  b.expect_sent({.opcode = Opcode::kRcReadResponseLast,
                 .psn = 502,
                 .payload = pattern(600).substr(512),
                 .msn = 1});
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 503, .msn = 2});
  b.expect_nothing();
}

void answers_a_read_again_from_any_point(void**) {
  Bench b;
  b.fill(100, pattern(600));
  b.receive(read(b, 500, 100, 600));
  assert_int_equal(b.skip_sent(), 3);
  assert_eq(b.receive(read(b, 501, 100 + 256, 344)), Drop::kDuplicatePsn);
  b.expect_sent({.opcode = Opcode::kRcReadResponseFirst,
                 .psn = 501,
                 .payload = pattern(600).substr(256, 256)});
  b.expect_sent(
      {.opcode = Opcode::kRcReadResponseLast, .psn = 502, .payload = pattern(600).substr(512)});
  b.receive(read(b, 502, 100 + 512, 88));
  b.expect_sent(
      {.opcode = Opcode::kRcReadResponseOnly, .psn = 502, .payload = pattern(600).substr(512)});
  // Another range at a PSN that was that READ's, and a PSN that never was a READ.
  b.receive(read(b, 501, 0, 344));
  b.receive(read(b, 499, 100, 8));
  b.expect_nothing();
  assert_eq(b.state(), verbs::QpState::kRts);
}

/// Field report B15.
void B15_too_many_reads(void**) {
  Bench b({.max_dest_rd_atomic = 2});
  b.receive(read(b, 500, 0, 4));
  b.receive(read(b, 501, 0, 4));
  assert_eq(b.receive(read(b, 502, 0, 4)), Drop::kInvalidRequest);
  b.expect_sent({.opcode = Opcode::kRcReadResponseOnly, .psn = 500, .payload = b.text(0, 4)});
  b.expect_sent({.opcode = Opcode::kRcReadResponseOnly, .psn = 501, .payload = b.text(0, 4)});
  b.expect_sent(ack(502, 0x61));
  assert_eq(b.state(), verbs::QpState::kError);
  Bench none({.max_dest_rd_atomic = 0});
  expect_refused(none, read(none, 500, 0, 4), 0x61, Drop::kInvalidRequest);
}

void answered_reads_make_room(void**) {
  Bench b({.max_dest_rd_atomic = 2});
  for (std::uint32_t i = 0; i < 40; ++i) {
    assert_eq(b.receive(read(b, 500 + i, 0, 4)), Drop::kNone);
    assert_int_equal(b.skip_sent(), 1);
  }
}

/// The window of a READ dies while it is answered; and when it was answered already.
void a_read_whose_window_dies(void**) {
  for (const bool answered : {false, true}) {
    Bench b;
    Rkey rkey;
    b.bound_window(0, 600, rkey);
    Packet p = read(b, 500, 0, 600);
    p.rkey = rkey;
    assert_eq(b.receive(p), Drop::kNone);
    packet::Frame* out[3];
    const std::size_t n = answered ? 3 : 1;
    assert_int_equal(b.engine.transmit(b.pool, std::span(out).first(n), b.now), n);
    b.pool.release(std::span(out).first(n));
    SendWr w;
    w.opcode = WrOpcode::kLocalInvalidate;
    w.invalidate_rkey = rkey;
    w.signaled = false;
    b.post(w);
    b.collect();
    if (answered) {
      b.receive(p);  // a late duplicate is no reason to die
      b.expect_nothing();
      assert_eq(b.state(), verbs::QpState::kRts);
    } else {
      b.expect_sent(ack(501, 0x62));
      b.expect_nothing();
      assert_eq(b.state(), verbs::QpState::kError);
    }
  }
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(answers_a_read),
      cmocka_unit_test(answers_a_read_again_from_any_point),
      cmocka_unit_test(B15_too_many_reads),
      cmocka_unit_test(answered_reads_make_room),
      cmocka_unit_test(a_read_whose_window_dies),
  };
  return cmocka_run_group_tests_name("resources", tests, nullptr, nullptr);
}
