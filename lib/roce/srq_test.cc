// Shared receive queues: who takes from them, what is told, what is flushed.
#include "roce/responder.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;
using Event = verbs::AsyncEvent::Type;

/// A second QP at the same shared queue; b.qpn names the one that the bench speaks to.
Qpn second_qp(Bench& b) {
  const Qpn first = b.qpn;
  const Qpn second =
      b.engine.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq, .srq = b.srq}).value();
  b.qpn = second;
  b.connect();
  b.qpn = first;
  return second;
}

void messages_take_from_it_as_they_begin(void**) {
  Bench b({.srq_depth = 4});
  const Qpn first = b.qpn;
  const Qpn second = second_qp(b);
  b.post_recv(1000, 600, 1);
  b.post_recv(2000, 600, 2);
  const std::string data = pattern(300);
  b.receive({.opcode = Opcode::kRcSendFirst, .psn = 500, .payload = data.substr(0, 256)});
  b.qpn = second;
  b.receive({.opcode = Opcode::kRcSendFirst, .psn = 500, .payload = data.substr(0, 256)});
  assert_int_equal(b.engine.srq_status(b.srq)->used, 0);
  b.receive({.opcode = Opcode::kRcSendLast, .psn = 501, .payload = data.substr(256)});
  b.expect_completion(2, CompletionStatus::kSuccess);
  b.qpn = first;
  b.receive({.opcode = Opcode::kRcSendLast, .psn = 501, .payload = data.substr(256)});
  b.expect_completion(1, CompletionStatus::kSuccess);
  assert_true(b.text(1000, 300) == data && b.text(2000, 300) == data);
  b.expect_no_completion();
}

void empty_is_receiver_not_ready(void**) {
  Bench b({.min_rnr_timer = 5, .srq_depth = 4});
  assert_eq(b.receive(send(500, "x")), Drop::kReceiverNotReady);
  b.expect_sent(ack(500, 0x25));
  b.post_recv(0, 64, 1);
  b.receive(send(500, "x"));
  b.expect_sent(ack(500));
  b.expect_completion(1, CompletionStatus::kSuccess);
  Packet p = write(b, 501, 100, "data");
  p.opcode = Opcode::kRcWriteOnlyWithImm;
  assert_eq(b.receive(p), Drop::kReceiverNotReady);
  b.expect_sent(ack(501, 0x25));
  b.post_recv(0, 0, 2);
  b.receive(p);
  assert_int_equal(b.expect_completion(2, CompletionStatus::kSuccess).byte_len, 4);
}

void the_limit_is_told_once(void**) {
  Bench b({.srq_depth = 8});
  for (std::uint64_t id = 0; id < 4; ++id) b.post_recv(0, 64, id);
  assert_ok(b.engine.modify_srq(b.srq, 3));
  b.expect_no_event();
  b.receive(send(500, ""));
  b.expect_no_event();  // three are left, which is not fewer than three
  b.receive(send(501, ""));
  const auto e = b.expect_event(Event::kSrqLimitReached);
  assert_true(e.srq == b.srq);
  assert_int_equal(b.engine.srq_status(b.srq)->limit, 0);
  b.receive(send(502, ""));
  b.expect_no_event();
  assert_ok(b.engine.modify_srq(b.srq, 2));  // one is left: at once
  b.expect_event(Event::kSrqLimitReached);
  assert_error(b.engine.modify_srq(b.srq, 9), Error::kInvalidArgument);
}

/// The rest of the queue is the others': a QP that dies flushes what its message holds, no more.
void a_qp_that_dies_flushes_what_it_holds(void**) {
  Bench b({.srq_depth = 4});
  const Qpn first = b.qpn;
  const Qpn second = second_qp(b);
  b.post_recv(1000, 600, 1);
  b.post_recv(2000, 600, 2);
  b.receive({.opcode = Opcode::kRcSendFirst, .psn = 500, .payload = pattern(256)});
  assert_ok(b.engine.to_error(b.qpn));
  b.expect_completion(1, CompletionStatus::kFlushed);
  b.expect_no_completion();
  const auto e = b.expect_event(Event::kLastWqeReached);
  assert_true(e.qpn == first && e.srq == b.srq);
  b.expect_no_event();
  b.qpn = second;
  b.receive(send(500, "other"));
  b.expect_completion(2, CompletionStatus::kSuccess);
  assert_string_equal(b.text(2000, 5).c_str(), "other");
}

void a_message_too_long_takes_its_receive_along(void**) {
  Bench b({.srq_depth = 4});
  b.post_recv(0, 4, 1);
  b.post_recv(0, 4, 2);
  assert_eq(b.receive(send(500, "12345")), Drop::kInvalidRequest);
  b.expect_sent(ack(500, 0x61));
  b.expect_completion(1, CompletionStatus::kLocalLength);
  b.expect_no_completion();
  b.expect_event(Event::kQpFatal);
  b.expect_event(Event::kLastWqeReached);
  assert_int_equal(b.engine.srq_status(b.srq)->used, 1);
}

void reset_forgets_what_is_held(void**) {
  Bench b({.srq_depth = 4});
  b.post_recv(0, 600, 1);
  b.receive({.opcode = Opcode::kRcSendFirst, .psn = 500, .payload = pattern(256)});
  assert_ok(b.engine.to_reset(b.qpn));
  b.expect_no_completion();
  b.connect();
  b.skip_sent();
  b.post_recv(0, 600, 2);
  b.receive(send(500, "new"));
  b.expect_completion(2, CompletionStatus::kSuccess);
  b.expect_no_event();
}

/// Its receives name regions of its own protection domain, not of the QP's.
void memory_is_that_of_the_shared_queues_domain(void**) {
  Bench b;
  const auto pd = b.engine.alloc_pd().value();
  std::vector<std::uint8_t> other(64);
  const auto region =
      b.engine.register_memory(pd, other.data(), other.size(), Access::kLocalWrite, kClear).value();
  const auto srq = b.engine.create_srq({.pd = pd, .max_wr = 4}).value();
  b.qpn = b.engine.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq, .srq = srq}).value();
  b.connect();
  verbs::RecvWr w;
  w.wr_id = 3;
  w.sge_count = 1;
  w.sges[0] = {reinterpret_cast<std::uint64_t>(other.data()), 64, region.lkey};
  assert_ok(b.engine.post_srq_recv(srq, {&w, 1}));
  b.receive(send(500, "data"));
  b.expect_completion(3, CompletionStatus::kSuccess);
  assert_true(std::string(other.begin(), other.begin() + 4) == "data");
  w.sges[0] = b.sge(0, 64);  // the QP's domain: not the queue's
  assert_ok(b.engine.post_srq_recv(srq, {&w, 1}));
  b.skip_sent();
  assert_eq(b.receive(send(501, "data")), Drop::kRemoteOperational);
  b.expect_completion(3, CompletionStatus::kLocalProtection);
}

void calls_are_checked(void**) {
  Bench b({.srq_depth = 2});
  auto& e = b.engine;
  assert_error(e.create_srq({.pd = b.pd, .max_wr = 0}), Error::kInvalidArgument);
  assert_error(e.create_srq({.pd = b.pd, .max_wr = 65537}), Error::kInvalidArgument);
  assert_error(e.create_srq({.pd = b.pd, .max_wr = 4, .limit = 5}), Error::kInvalidArgument);
  assert_error(e.create_srq({.pd = verbs::PdId(), .max_wr = 4}), Error::kNotFound);
  verbs::RecvWr w;
  const verbs::RecvWr many[3];
  assert_error(e.post_recv(b.qpn, {&w, 1}), Error::kInvalidArgument);
  assert_error(e.post_srq_recv(b.srq, many), Error::kFull);
  assert_error(e.post_srq_recv(verbs::SrqId(9), {&w, 1}), Error::kNotFound);
  w.sge_count = kSgeMax + 1;
  assert_error(e.post_srq_recv(b.srq, {&w, 1}), Error::kInvalidArgument);
  assert_error(e.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq, .srq = verbs::SrqId(9)}),
               Error::kNotFound);
  assert_error(e.destroy_srq(b.srq), Error::kBusy);
  assert_ok(e.destroy_qp(b.qpn));
  assert_ok(e.destroy_srq(b.srq));
  assert_error(e.destroy_srq(b.srq), Error::kNotFound);
  assert_error(e.modify_srq(b.srq, 0), Error::kNotFound);
  assert_error(e.srq_status(b.srq), Error::kNotFound);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(messages_take_from_it_as_they_begin),
      cmocka_unit_test(empty_is_receiver_not_ready),
      cmocka_unit_test(the_limit_is_told_once),
      cmocka_unit_test(a_qp_that_dies_flushes_what_it_holds),
      cmocka_unit_test(a_message_too_long_takes_its_receive_along),
      cmocka_unit_test(reset_forgets_what_is_held),
      cmocka_unit_test(memory_is_that_of_the_shared_queues_domain),
      cmocka_unit_test(calls_are_checked),
  };
  return cmocka_run_group_tests_name("srq", tests, nullptr, nullptr);
}
