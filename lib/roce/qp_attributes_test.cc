// Draining, changes of attributes, queries, events, completion notification, inline payloads and
// end-to-end credits: what a QP is told, and what it tells.
#include "roce/engine.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;
using Event = verbs::AsyncEvent::Type;

// ---- SQD ----

void sqd_finishes_what_was_begun(void**) {
  Bench b({.window_packets = 2});
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 256 * 4, 1));
  b.post(b.wr(WrOpcode::kSend, 0, 8, 2));
  assert_int_equal(b.skip_sent(), 2);
  assert_ok(b.engine.to_sqd(b.qpn));
  assert_eq(b.state(), verbs::QpState::kSqd);
  assert_true(b.engine.qp_attributes(b.qpn)->draining);
  b.expect_no_event();
  b.post(b.wr(WrOpcode::kSend, 0, 8, 3));  // can be posted; waits
  b.receive(ack(101));
  assert_int_equal(b.skip_sent(), 2);  // the rest of the WRITE
  b.receive(ack(103));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_nothing();
  assert_true(b.expect_event(Event::kSqDrained).qpn == b.qpn);
  assert_false(b.engine.qp_attributes(b.qpn)->draining);
  b.receive(write(b, 500, 0, "peer"));  // the responder goes on
  b.expect_sent(ack(500));
  b.expect_no_event();  // once
  verbs::RtsAttributes rts;
  rts.sq_psn = Psn(7);  // means nothing here
  assert_ok(b.engine.to_rts(b.qpn, rts));
  assert_eq(b.state(), verbs::QpState::kRts);
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 104, .payload = b.text(0, 8)});
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 105, .payload = b.text(0, 8)});
}

void sqd_retransmits_and_can_fail(void**) {
  Bench b({.timeout = 10, .retry_count = 1});
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.skip_sent();
  assert_ok(b.engine.to_sqd(b.qpn));
  b.advance(Duration::ns(4096 << 10));
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 100, .payload = b.text(0, 8)});
  b.advance(Duration::ns(4096 << 10));
  b.expect_completion(1, CompletionStatus::kRetryExceeded);
  assert_eq(b.state(), verbs::QpState::kError);
  b.expect_no_event();
}

void sqd_of_an_idle_queue_is_drained_at_once(void**) {
  Bench b;
  assert_ok(b.engine.to_sqd(b.qpn));
  b.expect_event(Event::kSqDrained);
  assert_error(b.engine.to_sqd(b.qpn), Error::kInvalidState);
  assert_ok(b.engine.to_error(b.qpn));
  assert_ok(b.engine.to_reset(b.qpn));
  assert_error(b.engine.to_sqd(b.qpn), Error::kInvalidState);
  assert_error(b.engine.to_sqd(Qpn(9)), Error::kNotFound);
}

/// Local operations are work requests like others: in SQD they are not begun.
void sqd_holds_local_operations(void**) {
  Bench b;
  assert_ok(b.engine.to_sqd(b.qpn));
  const auto window = b.engine.alloc_window(b.pd).value();
  b.post(b.bind_wr(window, 0, 64, b.engine.fresh_rkey(window.id).value(), Access::kRemoteRead));
  b.expect_nothing();
  b.expect_no_completion();
  assert_ok(b.engine.to_rts(b.qpn, {}));
  b.expect_nothing();
  b.expect_completion(77, CompletionStatus::kSuccess);
}

// ---- modify and query ----

void attributes_change_where_the_state_lets_them(void**) {
  Bench b;
  auto& e = b.engine;
  verbs::QpUpdate running;
  running.access = Access::kRemoteRead;
  running.min_rnr_timer = 3;
  assert_ok(e.modify_qp(b.qpn, running));
  assert_eq(b.receive(send(500, "x")), Drop::kReceiverNotReady);
  b.expect_sent(ack(500, 0x23));
  verbs::QpUpdate drained;
  drained.timeout = 9;
  drained.retry_count = 1;
  drained.rnr_retry = 2;
  drained.max_rd_atomic = 1;
  drained.max_dest_rd_atomic = 1;
  drained.pkey = 0x8001;
  assert_error(e.modify_qp(b.qpn, drained), Error::kInvalidState);
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.skip_sent();
  assert_ok(e.to_sqd(b.qpn));
  assert_error(e.modify_qp(b.qpn, drained), Error::kInvalidState);  // not drained
  b.receive(ack(100));
  assert_ok(e.modify_qp(b.qpn, drained));
  const auto a = e.qp_attributes(b.qpn).value();
  assert_true(a.init.access == Access::kRemoteRead && a.init.pkey == 0x8001);
  assert_true(a.rtr.min_rnr_timer == 3 && a.rtr.max_dest_rd_atomic == 1);
  assert_true(a.rts.timeout == 9 && a.rts.retry_count == 1 && a.rts.rnr_retry == 2);
  assert_true(a.rts.max_rd_atomic == 1 && a.rts.sq_psn == Psn(101));
  assert_true(a.rtr.rq_psn == Psn(500) && a.rtr.path_mtu == 256 && a.rtr.remote_qpn == kPeerQpn);
  assert_true(a.options.max_send_wr == 64 && a.state == verbs::QpState::kSqd);
  for (const verbs::QpUpdate& bad :
       {verbs::QpUpdate{.min_rnr_timer = 32}, verbs::QpUpdate{.timeout = 32},
        verbs::QpUpdate{.retry_count = 8}, verbs::QpUpdate{.max_dest_rd_atomic = 17},
        verbs::QpUpdate{.pkey = 0x8000}})
    assert_error(e.modify_qp(b.qpn, bad), Error::kInvalidArgument);
  assert_ok(e.to_error(b.qpn));
  assert_error(e.modify_qp(b.qpn, running), Error::kInvalidState);
  assert_error(e.qp_attributes(Qpn(9)), Error::kNotFound);
}

/// Fewer resources than answers that are kept: the oldest go.
void resources_can_shrink(void**) {
  Bench b;
  for (std::uint32_t i = 0; i < 5; ++i) b.receive(fetch_add(b, 500 + i, 64, 1));
  b.skip_sent();
  assert_ok(b.engine.to_sqd(b.qpn));
  verbs::QpUpdate u;
  u.max_dest_rd_atomic = 2;
  assert_ok(b.engine.modify_qp(b.qpn, u));
  b.receive(fetch_add(b, 505, 64, 1));
  b.skip_sent();
  b.receive(fetch_add(b, 503, 64, 1));
  b.expect_nothing();
  b.receive(fetch_add(b, 504, 64, 1));
  b.expect_sent(atomic_ack(504, 4));
}

void limits_are_told(void**) {
  Bench b;
  const auto l = b.engine.limits();
  assert_true(l.qp_max == 4 && l.sge_max == kSgeMax && l.rd_atomic_max == 16);
  assert_true(l.queue_depth_max == 65536 && l.inline_max == verbs::kInlineMax);
}

// ---- events ----

void the_first_packet_in_rtr_is_told(void**) {
  Bench b;
  b.receive(write(b, 500, 0, "data"));
  b.expect_no_event();  // in RTS the application knows
  assert_ok(b.engine.to_reset(b.qpn));
  assert_ok(b.engine.to_init(b.qpn, {.access = kAllRights}));
  verbs::RtrAttributes rtr;
  rtr.remote_address = kPeer;
  rtr.rq_psn = Psn(500);
  rtr.path_mtu = 256;
  assert_ok(b.engine.to_rtr(b.qpn, rtr, PathId(9)));
  Packet foreign = write(b, 500, 0, "data");
  foreign.source = IpAddress::v4(10, 0, 0, 66);
  b.receive(foreign);
  b.expect_no_event();
  b.receive(write(b, 500, 0, "data"));
  assert_true(b.expect_event(Event::kCommEstablished).qpn == b.qpn);
  b.receive(write(b, 501, 0, "data"));
  b.expect_no_event();
}

// ---- completion notification ----

std::size_t notified(Bench& b) {
  verbs::CqId ids[4];
  const std::size_t n = b.engine.poll_cq_events(ids);
  for (std::size_t i = 0; i < n; ++i) assert_true(ids[i] == b.cq);
  return n;
}

void an_armed_queue_tells_once(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.post(b.wr(WrOpcode::kSend, 0, 4, 2));
  b.skip_sent();
  b.receive(ack(100));
  assert_int_equal(notified(b), 0);  // not armed
  assert_ok(b.engine.req_notify_cq(b.cq, false));
  assert_int_equal(notified(b), 0);  // what is there does not count
  b.receive(ack(101));
  assert_int_equal(notified(b), 1);
  assert_int_equal(notified(b), 0);
  b.post(b.wr(WrOpcode::kSend, 0, 4, 3));
  b.skip_sent();
  b.receive(ack(102));
  assert_int_equal(notified(b), 0);
  assert_error(b.engine.req_notify_cq(verbs::CqId(77), false), Error::kNotFound);
}

void solicited_only_waits_for_solicited_or_errors(void**) {
  Bench b;
  for (std::uint64_t id = 1; id <= 4; ++id) b.post_recv(0, 64, id);
  assert_ok(b.engine.req_notify_cq(b.cq, true));
  b.receive(send(500, "plain"));
  assert_int_equal(notified(b), 0);
  Packet p = send(501, "urgent");
  p.solicited = true;
  b.receive(p);
  assert_int_equal(notified(b), 1);
  b.expect_completion(1, CompletionStatus::kSuccess);
  assert_true(b.expect_completion(2, CompletionStatus::kSuccess).solicited);
  assert_ok(b.engine.req_notify_cq(b.cq, false));
  assert_ok(b.engine.req_notify_cq(b.cq, true));  // stays armed for all
  b.receive(send(502, "plain"));
  assert_int_equal(notified(b), 1);
  assert_ok(b.engine.req_notify_cq(b.cq, true));
  assert_ok(b.engine.to_error(b.qpn));  // flushed: an error
  assert_int_equal(notified(b), 1);
}

void the_solicited_bit_is_sent_with_the_last_packet(void**) {
  Bench b;
  SendWr w = b.wr(WrOpcode::kSend, 0, 300, 1);
  w.solicited = true;
  b.post(w);
  b.expect_sent(
      {.opcode = Opcode::kRcSendFirst, .psn = 100, .payload = b.text(0, 256), .solicited = false});
  b.expect_sent(
      {.opcode = Opcode::kRcSendLast, .psn = 101, .payload = b.text(256, 44), .solicited = true});
}

void a_notified_queue_can_be_destroyed(void**) {
  Bench b;
  const auto cq = b.engine.create_cq(4).value();
  const Qpn qpn = b.engine.create_qp({.pd = b.pd, .send_cq = cq, .recv_cq = cq}).value();
  assert_ok(b.engine.req_notify_cq(cq, false));
  assert_ok(b.engine.to_init(qpn, {}));
  const verbs::RecvWr w;
  assert_ok(b.engine.post_recv(qpn, {&w, 1}));
  assert_ok(b.engine.to_error(qpn));
  assert_ok(b.engine.destroy_qp(qpn));
  assert_ok(b.engine.destroy_cq(cq));
  assert_int_equal(notified(b), 0);
}

// ---- inline ----

void an_inlined_payload_is_copied_when_it_is_posted(void**) {
  Bench b({.timeout = 10, .max_inline = 64});
  std::string text = "inlined payload";
  SendWr w = b.wr(WrOpcode::kRdmaWrite, 0, 0, 1);
  w.inlined = true;
  w.sge_count = 2;
  w.sges[0] = {reinterpret_cast<std::uint64_t>(text.data()), 7, Lkey(0)};  // no region at all
  w.sges[1] = {reinterpret_cast<std::uint64_t>(text.data()) + 7, 8, Lkey(0)};
  b.post(w);
  const std::string want = text;
  text.assign(text.size(), 'X');
  b.expect_sent({.opcode = Opcode::kRcWriteOnly, .psn = 100, .payload = want, .length = 15});
  b.advance(Duration::ns(4096 << 10));  // and again from the copy
  b.expect_sent({.opcode = Opcode::kRcWriteOnly, .psn = 100, .payload = want});
}

void inlined_places_are_not_shared(void**) {
  Bench b({.mtu = 256, .max_inline = 1000});
  std::vector<std::string> texts;
  for (std::uint32_t round = 0; round < 3; ++round) {  // round the ring
    texts.clear();
    for (std::uint32_t i = 0; i < 64; ++i) {
      texts.push_back(pattern(300, round * 64 + i));
      SendWr w = b.wr(WrOpcode::kSend, 0, 0, i);
      w.inlined = true;
      w.sges[0] = {reinterpret_cast<std::uint64_t>(texts.back().data()), 300, Lkey(0)};
      b.post(w);
    }
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t psn = 100 + round * 128 + 2 * i;
      b.expect_sent(
          {.opcode = Opcode::kRcSendFirst, .psn = psn, .payload = texts[i].substr(0, 256)});
      b.expect_sent(
          {.opcode = Opcode::kRcSendLast, .psn = psn + 1, .payload = texts[i].substr(256)});
      b.receive(ack(psn + 1));
    }
  }
}

void what_cannot_be_inlined(void**) {
  Bench b({.max_inline = 16});
  SendWr w = b.wr(WrOpcode::kSend, 0, 17, 1);
  w.inlined = true;
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  w = b.wr(WrOpcode::kRdmaRead, 0, 8, 1);
  w.inlined = true;
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  w = b.wr(WrOpcode::kFetchAdd, 0, 8, 1);
  w.inlined = true;
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  assert_error(
      b.engine.create_qp(
          {.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq, .max_inline = verbs::kInlineMax + 1}),
      Error::kInvalidArgument);
  w = b.wr(WrOpcode::kSend, 0, 0, 1);
  w.inlined = true;
  w.sge_count = 0;
  b.post(w);
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 100});
}

// ---- end-to-end credits ----

void acks_tell_how_many_receives_are_posted(void**) {
  Bench b({.end_to_end_credits = true});
  const struct {
    std::uint32_t posted;
    std::uint8_t code;
  } cases[] = {{0, 0}, {1, 1}, {4, 4}, {5, 4}, {6, 5}, {12, 7}, {13, 7}, {24, 9}, {33, 10}};
  std::uint32_t posted = 0;
  std::uint32_t psn = 500;
  for (const auto& c : cases) {
    for (; posted < c.posted; ++posted) b.post_recv(0, 64, 1);
    b.skip_sent();
    b.receive(write(b, psn, 100, "data"));
    b.expect_sent(ack(psn++, c.code));
  }
  Bench quiet;
  quiet.post_recv(0, 64, 1);
  quiet.receive(write(quiet, 500, 100, "data"));
  quiet.expect_sent(ack(500, 0x1f));
}

/// The receive of a message in progress still counts: its message is not in the MSN yet.
void a_message_in_progress_keeps_its_credit(void**) {
  Bench b({.end_to_end_credits = true});
  b.post_recv(0, 600, 1);
  b.receive({.opcode = Opcode::kRcSendFirst, .psn = 500, .payload = pattern(256)});
  Packet want = ack(500, 1);
  want.msn = 0;
  b.expect_sent(want);
  b.receive({.opcode = Opcode::kRcSendLast, .psn = 501, .payload = "x"});
  want = ack(501, 0);
  want.msn = 1;
  b.expect_sent(want);
  b.post_recv(0, 600, 2);  // the peer was told of none: it hears of this one unasked
  want = ack(501, 1);
  want.msn = 1;
  b.expect_sent(want);
  b.post_recv(0, 600, 3);
  b.expect_nothing();
}

Packet credit_ack(std::uint32_t psn, std::uint32_t msn, std::uint8_t code) {
  Packet p = ack(psn, code);
  p.msn = msn;
  return p;
}

void a_requester_without_credit_asks_with_one_packet(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.skip_sent();
  b.receive(credit_ack(100, 1, 1));  // one more
  b.post(b.wr(WrOpcode::kSend, 0, 8, 2));
  b.post(b.wr(WrOpcode::kSend, 0, 600, 3));
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 8, 4));
  assert_int_equal(b.skip_sent(), 1);  // the second only
  b.receive(credit_ack(101, 2, 0));
  b.expect_sent(
      {.opcode = Opcode::kRcSendFirst, .psn = 102, .payload = b.text(0, 256), .ack_req = true});
  b.expect_nothing();  // neither its rest nor what follows
  b.receive(credit_ack(101, 2, 0));
  b.expect_nothing();
  b.receive(credit_ack(101, 2, 1));  // unasked: a receive was posted
  assert_int_equal(b.skip_sent(), 3);
  b.receive(credit_ack(105, 4, 0));
  for (const std::uint64_t id : {1U, 2U, 3U, 4U})
    b.expect_completion(id, CompletionStatus::kSuccess);
}

void what_takes_no_receive_needs_no_credit(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.skip_sent();
  b.receive(credit_ack(100, 1, 0));
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 600, 2));
  b.post(b.wr(WrOpcode::kRdmaRead, 0, 8, 3));
  assert_int_equal(b.skip_sent(), 4);
  b.receive({.opcode = Opcode::kRcReadResponseOnly,
             .psn = 104,
             .payload = "12345678",
             .syndrome = 0x1f});  // the peer stopped counting
  b.post(b.wr(WrOpcode::kSend, 0, 8, 4));
  b.post(b.wr(WrOpcode::kSend, 0, 8, 5));
  assert_int_equal(b.skip_sent(), 2);
}

/// The asking packet was taken by a peer whose count leaves out the message in progress.
void an_accepted_first_packet_is_credit_enough(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.skip_sent();
  b.receive(credit_ack(100, 1, 0));
  b.post(b.wr(WrOpcode::kSend, 0, 600, 2));
  assert_int_equal(b.skip_sent(), 1);
  b.receive(credit_ack(101, 1, 0));
  assert_int_equal(b.skip_sent(), 2);
}

void the_asking_packet_may_be_refused(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.skip_sent();
  b.receive(credit_ack(100, 1, 0));
  b.post(b.wr(WrOpcode::kSend, 0, 600, 2));
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(b.skip_sent(), 1);
    b.receive(ack(101, 0x21));
    b.expect_nothing();
    b.advance(Duration::us(10));
  }
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(sqd_finishes_what_was_begun),
      cmocka_unit_test(sqd_retransmits_and_can_fail),
      cmocka_unit_test(sqd_of_an_idle_queue_is_drained_at_once),
      cmocka_unit_test(sqd_holds_local_operations),
      cmocka_unit_test(attributes_change_where_the_state_lets_them),
      cmocka_unit_test(resources_can_shrink),
      cmocka_unit_test(limits_are_told),
      cmocka_unit_test(the_first_packet_in_rtr_is_told),
      cmocka_unit_test(an_armed_queue_tells_once),
      cmocka_unit_test(solicited_only_waits_for_solicited_or_errors),
      cmocka_unit_test(the_solicited_bit_is_sent_with_the_last_packet),
      cmocka_unit_test(a_notified_queue_can_be_destroyed),
      cmocka_unit_test(an_inlined_payload_is_copied_when_it_is_posted),
      cmocka_unit_test(inlined_places_are_not_shared),
      cmocka_unit_test(what_cannot_be_inlined),
      cmocka_unit_test(acks_tell_how_many_receives_are_posted),
      cmocka_unit_test(a_message_in_progress_keeps_its_credit),
      cmocka_unit_test(a_requester_without_credit_asks_with_one_packet),
      cmocka_unit_test(what_takes_no_receive_needs_no_credit),
      cmocka_unit_test(an_accepted_first_packet_is_credit_enough),
      cmocka_unit_test(the_asking_packet_may_be_refused),
  };
  return cmocka_run_group_tests_name("qp_attributes", tests, nullptr, nullptr);
}
