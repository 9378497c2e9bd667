// UC against a peer that is a script: messages complete when they are sent, nothing is ever answered, a gap
// costs one message and no receive.
#include <string>

#include "roce/test_bench.h"

namespace h4a::roce::test {
namespace {

using verbs::QpState;
using verbs::QpType;

Bench::Options uc() {
  Bench::Options o;
  o.type = QpType::kUc;
  return o;
}

Packet packet(Opcode opcode, std::uint32_t psn, std::string payload) {
  return {.opcode = opcode, .psn = psn, .payload = std::move(payload)};
}
Packet uc_write(const Bench& b, Opcode opcode, std::uint32_t psn, std::size_t offset,
                std::string payload, std::uint32_t length) {
  Packet p = packet(opcode, psn, std::move(payload));
  p.address = b.address(offset);
  p.rkey = b.region.rkey;
  p.length = length;
  return p;
}

const std::string kFull(256, 'a');  // one MTU
const std::string kMore(256, 'b');

void a_send_is_cut_and_completes_at_once(void**) {
  Bench b(uc());
  b.fill(0, pattern(600));
  SendWr w = b.wr(WrOpcode::kSendWithImm, 0, 600);
  w.imm = 0x1234;
  w.solicited = true;
  b.post(w);
  b.expect_sent({.opcode = Opcode::kUcSendFirst,
                 .psn = 100,
                 .payload = pattern(600).substr(0, 256),
                 .ack_req = false});
  b.expect_sent({.opcode = Opcode::kUcSendMiddle,
                 .psn = 101,
                 .payload = pattern(600).substr(256, 256),
                 .ack_req = false});
  b.expect_sent({.opcode = Opcode::kUcSendLastWithImm,
                 .psn = 102,
                 .payload = pattern(600).substr(512),
                 .ack_req = false,
                 .imm = 0x1234});
  b.expect_nothing();
  b.expect_completion(1, CompletionStatus::kSuccess);
  assert_true(b.engine.next_deadline().is_never());
}

void a_write_is_cut_and_completes_at_once(void**) {
  Bench b(uc());
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 300, 5));
  b.post(b.wr(WrOpcode::kRdmaWriteWithImm, 0, 0, 6));
  b.expect_sent({.opcode = Opcode::kUcWriteFirst,
                 .psn = 100,
                 .payload = b.text(0, 256),
                 .address = 0x10000,
                 .rkey = Rkey(0xabc),
                 .length = 300});
  b.expect_sent({.opcode = Opcode::kUcWriteLast, .psn = 101, .payload = b.text(256, 44)});
  b.expect_sent({.opcode = Opcode::kUcWriteOnlyWithImm, .psn = 102, .length = 0, .imm = 0});
  b.expect_completion(5, CompletionStatus::kSuccess);
  b.expect_completion(6, CompletionStatus::kSuccess);
  b.expect_no_completion();
}

void more_than_a_window_is_sent_without_answers(void**) {
  Bench::Options o = uc();
  o.window_packets = 4;
  Bench b(o);
  b.post(b.wr(WrOpcode::kSend, 0, 256 * 100));
  assert_int_equal(b.skip_sent(), 100);
  b.expect_completion(1, CompletionStatus::kSuccess);
}

void rc_alone_has_the_rest(void**) {
  Bench b(uc());
  for (const WrOpcode opcode : {WrOpcode::kRdmaRead, WrOpcode::kSendWithInvalidate}) {
    const SendWr w = b.wr(opcode, 0, 8);
    assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  }
  assert_eq(b.receive(send(500, "rc")), Drop::kBadOpcode);
  assert_eq(b.receive(ack(99)), Drop::kBadOpcode);
}

void messages_arrive_and_nothing_is_answered(void**) {
  Bench b(uc());
  b.post_recv(1000, 600, 1);
  b.post_recv(2000, 600, 2);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 500, kFull)), Drop::kNone);
  Packet last = packet(Opcode::kUcSendLastWithImm, 501, "end");
  last.imm = 7;
  assert_eq(b.receive(last), Drop::kNone);
  const Completion c = b.expect_completion(1, CompletionStatus::kSuccess);
  assert_true(c.has_imm && c.imm == 7 && c.byte_len == 259);
  assert_eq(b.text(1000, 259), kFull + "end");
  assert_eq(b.receive(uc_write(b, Opcode::kUcWriteFirst, 502, 4000, kFull, 260)), Drop::kNone);
  assert_eq(b.receive(packet(Opcode::kUcWriteLast, 503, "tail")), Drop::kNone);
  assert_eq(b.text(4000, 260), kFull + "tail");
  b.expect_no_completion();
  Packet imm = uc_write(b, Opcode::kUcWriteOnlyWithImm, 504, 5000, "x", 1);
  imm.imm = 9;
  assert_eq(b.receive(imm), Drop::kNone);
  assert_eq(b.expect_completion(2, CompletionStatus::kSuccess).opcode,
            verbs::CompletionOpcode::kRecvRdmaWithImm);
  b.expect_nothing();
}

void a_gap_costs_one_message_and_no_receive(void**) {
  Bench b(uc());
  b.post_recv(1000, 1000, 1);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 500, kFull)), Drop::kNone);
  // 501 is lost.
  assert_eq(b.receive(packet(Opcode::kUcSendMiddle, 502, kFull)), Drop::kMessageBroken);
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 503, "end")), Drop::kMessageBroken);
  b.expect_no_completion();
  assert_eq(b.receive(packet(Opcode::kUcSendOnly, 504, "next")), Drop::kNone);
  assert_int_equal(b.expect_completion(1, CompletionStatus::kSuccess).byte_len, 4);
  assert_eq(b.text(1000, 4), "next");
  b.expect_nothing();
  assert_eq(b.state(), QpState::kRts);
}

void a_lost_first_loses_the_message(void**) {
  Bench b(uc());
  b.post_recv(1000, 1000, 1);
  assert_eq(b.receive(packet(Opcode::kUcSendMiddle, 501, kFull)), Drop::kMessageBroken);
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 502, "end")), Drop::kMessageBroken);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 503, kMore)), Drop::kNone);
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 504, "z")), Drop::kNone);
  assert_int_equal(b.expect_completion(1, CompletionStatus::kSuccess).byte_len, 257);
}

void a_lost_last_is_made_up_for_by_the_next_first(void**) {
  Bench b(uc());
  b.post_recv(1000, 1000, 1);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 500, kFull)), Drop::kNone);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 502, kMore)), Drop::kNone);
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 503, "!")), Drop::kNone);
  b.expect_completion(1, CompletionStatus::kSuccess);
  assert_eq(b.text(1000, 257), kMore + "!");
}

void the_psn_may_jump_and_wrap(void**) {
  Bench b(uc());
  b.post_recv(1000, 1000, 1);
  b.post_recv(2000, 1000, 2);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 0xffffff, kFull)), Drop::kNone);
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 0, "wrap")), Drop::kNone);
  b.expect_completion(1, CompletionStatus::kSuccess);
  // Behind what was seen: unreliable, so it is a message like any other.
  assert_eq(b.receive(packet(Opcode::kUcSendOnly, 0xfffff0, "old")), Drop::kNone);
  b.expect_completion(2, CompletionStatus::kSuccess);
}

/// What is refused is dropped with the rest of its message, and the next one is fine.
void what_does_not_fit_is_dropped_under_its_name(void**) {
  struct Case {
    int line;
    Packet (*first)(const Bench&);
    Drop drop;
  };
  static constexpr auto kFirst = Opcode::kUcWriteFirst;
  const Case cases[] = {
      {1, [](const Bench&) { return packet(Opcode::kUcSendFirst, 500, std::string(255, 'x')); },
       Drop::kInvalidRequest},  // FIRST is not full
      {2, [](const Bench& b) { return uc_write(b, kFirst, 500, 4000, kFull, 256); },
       Drop::kInvalidRequest},  // more follows than was announced
      {3,
       [](const Bench& b) {
         Packet p = uc_write(b, kFirst, 500, 4000, kFull, 300);
         p.rkey = Rkey(b.region.rkey.value() ^ 1);
         return p;
       },
       Drop::kRemoteAccess},
      {4, [](const Bench& b) { return uc_write(b, kFirst, 500, 65500, kFull, 300); },
       Drop::kRemoteAccess},  // bounds
  };
  for (const Case& c : cases) {
    Bench b(uc());
    b.post_recv(1000, 300, 1);
    const Drop drop = b.receive(c.first(b));
    if (drop != c.drop) fail_msg("case %d: %s", c.line, std::string(to_string(drop)).c_str());
    const bool write = net::info(c.first(b).opcode).operation == net::Operation::kWrite;
    const Opcode last = write ? Opcode::kUcWriteLast : Opcode::kUcSendLast;
    assert_eq(b.receive(packet(last, 501, "end")), Drop::kMessageBroken);
    assert_eq(b.receive(packet(Opcode::kUcSendOnly, 502, "fine")), Drop::kNone);
    b.expect_completion(1, CompletionStatus::kSuccess);
    b.expect_nothing();
    assert_eq(b.state(), QpState::kRts);
  }
}

void without_a_receive_the_message_is_dropped(void**) {
  Bench b(uc());
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 500, kFull)), Drop::kNoReceive);
  b.post_recv(1000, 300, 1);  // too late for this one
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 501, "end")), Drop::kMessageBroken);
  assert_eq(b.receive(packet(Opcode::kUcSendOnly, 502, std::string(301 - 256, 'x'))), Drop::kNone);
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.post_recv(1000, 300, 2);
  assert_eq(b.receive(packet(Opcode::kUcSendFirst, 503, kFull)), Drop::kNone);
  assert_eq(b.receive(packet(Opcode::kUcSendLast, 504, std::string(45, 'x'))),
            Drop::kReceiveTooShort);
  b.expect_no_completion();
  assert_eq(b.receive(packet(Opcode::kUcSendOnly, 505, "fits")), Drop::kNone);
  b.expect_completion(2, CompletionStatus::kSuccess);
}

void rights_of_the_qp_hold(void**) {
  Bench::Options o = uc();
  o.access = Access::kNone;
  Bench b(o);
  assert_eq(b.receive(uc_write(b, Opcode::kUcWriteOnly, 500, 4000, "x", 1)), Drop::kInvalidRequest);
  assert_int_equal(b.text(4000, 1)[0], 0);
  assert_eq(b.state(), QpState::kRts);
}

void only_its_peer_is_heard(void**) {
  Bench b(uc());
  b.post_recv(1000, 300, 1);
  Packet p = packet(Opcode::kUcSendOnly, 500, "x");
  p.source = IpAddress::v4(10, 0, 0, 3);
  assert_eq(b.receive(p), Drop::kWrongPeer);
  p = packet(Opcode::kUcSendOnly, 500, "x");
  p.association = AssociationId(4);
  assert_eq(b.receive(p), Drop::kWrongAssociation);
  Bench::Options o = uc();
  o.association = AssociationId(4);
  Bench guarded(o);
  guarded.post_recv(1000, 300, 1);
  assert_eq(guarded.receive(packet(Opcode::kUcSendOnly, 500, "x")), Drop::kNeedsEsp);
  assert_eq(guarded.receive(p), Drop::kNone);
}

void a_receive_that_cannot_be_written_ends_the_qp_silently(void**) {
  Bench b(uc());
  verbs::RecvWr w;
  w.wr_id = 3;
  w.sge_count = 1;
  w.sges[0] = {b.address(0), 100, Lkey(b.region.lkey.value() ^ 1)};
  assert_ok(b.engine.post_recv(b.qpn, {&w, 1}));
  assert_eq(b.receive(packet(Opcode::kUcSendOnly, 500, "x")), Drop::kRemoteOperational);
  b.expect_completion(3, CompletionStatus::kLocalProtection);
  b.expect_nothing();
  assert_eq(b.state(), QpState::kError);
}

void a_failed_send_stops_the_send_queue_alone(void**) {
  Bench b(uc());
  b.post_recv(1000, 300, 9);
  SendWr bad = b.wr(WrOpcode::kSend, 0, 600, 1);
  bad.sges[0].lkey = Lkey(b.region.lkey.value() ^ 1);
  b.post(bad);
  b.post(b.wr(WrOpcode::kSend, 0, 8, 2));
  b.expect_nothing();
  b.expect_completion(1, CompletionStatus::kLocalProtection);
  b.expect_completion(2, CompletionStatus::kFlushed);
  assert_eq(b.state(), QpState::kSqe);
  assert_eq(b.receive(packet(Opcode::kUcSendOnly, 500, "x")), Drop::kNone);
  b.expect_completion(9, CompletionStatus::kSuccess);
  assert_ok(b.engine.to_rts(b.qpn, {}));
  b.post(b.wr(WrOpcode::kSend, 0, 8, 3));
  b.expect_sent({.opcode = Opcode::kUcSendOnly, .psn = 100, .payload = b.text(0, 8)});
  b.expect_completion(3, CompletionStatus::kSuccess);
}

}  // namespace
}  // namespace h4a::roce::test

int main() {
  using namespace h4a::roce::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_send_is_cut_and_completes_at_once),
      cmocka_unit_test(a_write_is_cut_and_completes_at_once),
      cmocka_unit_test(more_than_a_window_is_sent_without_answers),
      cmocka_unit_test(rc_alone_has_the_rest),
      cmocka_unit_test(messages_arrive_and_nothing_is_answered),
      cmocka_unit_test(a_gap_costs_one_message_and_no_receive),
      cmocka_unit_test(a_lost_first_loses_the_message),
      cmocka_unit_test(a_lost_last_is_made_up_for_by_the_next_first),
      cmocka_unit_test(the_psn_may_jump_and_wrap),
      cmocka_unit_test(what_does_not_fit_is_dropped_under_its_name),
      cmocka_unit_test(without_a_receive_the_message_is_dropped),
      cmocka_unit_test(rights_of_the_qp_hold),
      cmocka_unit_test(only_its_peer_is_heard),
      cmocka_unit_test(a_receive_that_cannot_be_written_ends_the_qp_silently),
      cmocka_unit_test(a_failed_send_stops_the_send_queue_alone),
  };
  return cmocka_run_group_tests_name("roce_uc", tests, nullptr, nullptr);
}
