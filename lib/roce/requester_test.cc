// The requester's side: what is sent, and what acknowledgements, NAKs and time-outs do.
#include "roce/requester.h"

#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;

constexpr std::uint8_t kNakSequence = 0x60;

void segments_a_write(void**) {
  const struct {
    std::uint32_t bytes;
    std::vector<Opcode> opcodes;
    std::size_t last_payload;
  } cases[] = {
      {0, {Opcode::kRcWriteOnly}, 0},
      {1, {Opcode::kRcWriteOnly}, 1},
      {2, {Opcode::kRcWriteOnly}, 2},
      {3, {Opcode::kRcWriteOnly}, 3},
      {4, {Opcode::kRcWriteOnly}, 4},
      {1023, {Opcode::kRcWriteOnly}, 1023},
      {1024, {Opcode::kRcWriteOnly}, 1024},
      {1025, {Opcode::kRcWriteFirst, Opcode::kRcWriteLast}, 1},
      {2048, {Opcode::kRcWriteFirst, Opcode::kRcWriteLast}, 1024},
      {2049, {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, Opcode::kRcWriteLast}, 1},
      {3000, {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, Opcode::kRcWriteLast}, 952},
      {8191,
       {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, Opcode::kRcWriteMiddle,
        Opcode::kRcWriteMiddle, Opcode::kRcWriteMiddle, Opcode::kRcWriteMiddle,
        Opcode::kRcWriteMiddle, Opcode::kRcWriteLast},
       1023},
  };
  for (const auto& c : cases) {
    Bench b({.mtu = 1024});
    b.fill(0, pattern(c.bytes));
    b.post(b.wr(WrOpcode::kRdmaWrite, 0, c.bytes));
    std::size_t offset = 0;
    for (std::size_t i = 0; i < c.opcodes.size(); ++i) {
      const bool last = i + 1 == c.opcodes.size();
      const std::size_t n = last ? c.last_payload : 1024;
      Packet want{.opcode = c.opcodes[i],
                  .psn = 100 + static_cast<std::uint32_t>(i),
                  .payload = pattern(c.bytes).substr(offset, n),
                  .ack_req = last};
      if (i == 0) {
        want.address = 0x10000;
        want.rkey = Rkey(0xabc);
        want.length = c.bytes;
      }
      b.expect_sent(want);
      offset += n;
    }
    b.expect_nothing();
    b.expect_no_completion();
    assert_eq(b.receive(ack(99 + static_cast<std::uint32_t>(c.opcodes.size()))), Drop::kNone);
    assert_eq(b.expect_completion(1, CompletionStatus::kSuccess).opcode,
              verbs::CompletionOpcode::kRdmaWrite);
    assert_true(b.engine.next_deadline().is_never());
  }
}

/// Field report B02, as we send it: pad count, and zero bytes behind the payload.
void B02_pads_what_it_sends(void**) {
  for (std::uint32_t tail = 0; tail <= 5; ++tail) {
    Bench b;
    b.fill(0, pattern(256 + tail));
    b.post(b.wr(WrOpcode::kRdmaWrite, 0, 256 + tail, 1));
    b.post(b.wr(WrOpcode::kSend, 0, tail, 2));
    b.collect();
    assert_int_equal(b.sent.size(), tail == 0 ? 2 : 3);
    for (std::size_t i = 1; i < b.sent.size(); ++i) {
      const auto p = net::parse_transport(b.sent[i]).value();
      const std::uint32_t pad = (4 - tail % 4) % 4;
      assert_int_equal(p.bth().pad_count(), pad);
      assert_int_equal(p.payload().size(), tail);
      assert_int_equal(b.sent[i].size() % 4, 0);
      for (std::uint32_t k = 0; k < pad; ++k)
        assert_int_equal(b.sent[i][b.sent[i].size() - 1 - k], 0);
    }
  }
}

void gathers_pieces(void**) {
  Bench b;
  b.fill(0, "abc");
  b.fill(1000, "defgh");
  SendWr w = b.wr(WrOpcode::kSendWithImm, 0, 3);
  w.sge_count = 3;
  w.sges[1] = {0, 0, Lkey(0xdead)};  // empty: its key does not matter
  w.sges[2] = b.sge(1000, 5);
  w.imm = 0x01020304;
  b.post(w);
  b.expect_sent(
      {.opcode = Opcode::kRcSendOnlyWithImm, .psn = 100, .payload = "abcdefgh", .imm = 0x01020304});
}

void one_ack_completes_many(void**) {
  Bench b;
  for (std::uint64_t id = 1; id <= 3; ++id) b.post(b.wr(WrOpcode::kSend, 0, 8, id));
  SendWr quiet = b.wr(WrOpcode::kSend, 0, 8, 4);
  quiet.signaled = false;
  b.post(quiet);
  assert_int_equal(b.skip_sent(), 4);
  b.receive(ack(101));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_completion(2, CompletionStatus::kSuccess);
  b.expect_no_completion();
  b.receive(ack(103));
  b.expect_completion(3, CompletionStatus::kSuccess);
  b.expect_no_completion();
  assert_int_equal(b.engine.qp_status(b.qpn)->send_queue_used, 0);
}

void ghosts_are_ignored(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 8));
  b.skip_sent();
  assert_eq(b.receive(ack(99)), Drop::kUnexpectedAck);   // past
  assert_eq(b.receive(ack(101)), Drop::kUnexpectedAck);  // never sent
  assert_eq(b.receive(ack(100, 0x40)), Drop::kBadSyndrome);
  assert_eq(b.receive(ack(100, 0x80)), Drop::kBadSyndrome);
  assert_eq(b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 100, .payload = "data"}),
            Drop::kUnexpectedAck);
  assert_eq(b.receive({.opcode = Opcode::kRcAtomicAcknowledge, .psn = 100}), Drop::kUnexpectedAck);
  b.expect_nothing();
  b.expect_no_completion();
  assert_eq(b.receive(ack(100)), Drop::kNone);
  assert_eq(b.receive(ack(100)), Drop::kUnexpectedAck);  // duplicate
  b.expect_completion(1, CompletionStatus::kSuccess);
}

void nak_goes_back_once(void**) {
  Bench b;
  for (std::uint64_t id = 1; id <= 3; ++id) b.post(b.wr(WrOpcode::kSend, 0, 8, id));
  b.skip_sent();
  assert_eq(b.receive(ack(101, kNakSequence)), Drop::kNone);
  b.expect_completion(1, CompletionStatus::kSuccess);
  const std::string payload = b.text(0, 8);
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 101, .payload = payload});
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 102, .payload = payload});
  b.receive(ack(101, kNakSequence));  // the same NAK again
  b.expect_nothing();
  b.receive(ack(102));
  b.expect_completion(2, CompletionStatus::kSuccess);
  b.expect_completion(3, CompletionStatus::kSuccess);
  assert_int_equal(b.engine.counters().retransmitted_packets, 2);
}

void time_out_retries_then_gives_up(void**) {
  Bench b({.timeout = 10, .retry_count = 2});
  b.post(b.wr(WrOpcode::kSend, 0, 8, 5));
  b.post(b.wr(WrOpcode::kSend, 0, 8, 6));
  b.post_recv(0, 8, 9);
  b.skip_sent();
  const Duration timeout = Duration::ns(4096 << 10);
  assert_eq(b.engine.next_deadline(), b.now + timeout);
  for (int retry = 0; retry < 2; ++retry) {
    b.advance(timeout - Duration::ns(1));
    b.expect_nothing();
    b.advance(Duration::ns(1));
    assert_int_equal(b.skip_sent(), 2);
  }
  b.advance(timeout);
  b.expect_nothing();
  b.expect_completion(5, CompletionStatus::kRetryExceeded);
  b.expect_completion(6, CompletionStatus::kFlushed);
  b.expect_completion(9, CompletionStatus::kFlushed);
  assert_eq(b.state(), verbs::QpState::kError);
  assert_int_equal(b.engine.counters().timeouts, 3);
  assert_true(b.engine.next_deadline().is_never());
}

void progress_resets_retries(void**) {
  Bench b({.timeout = 10, .retry_count = 1});
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.post(b.wr(WrOpcode::kSend, 0, 8, 2));
  b.skip_sent();
  const Duration timeout = Duration::ns(4096 << 10);
  b.advance(timeout);
  assert_int_equal(b.skip_sent(), 2);
  b.receive(ack(100));
  b.advance(timeout);
  assert_int_equal(b.skip_sent(), 1);
  assert_eq(b.state(), verbs::QpState::kRts);
}

void no_retry_is_spent_without_frames(void**) {
  Bench b({.timeout = 10, .retry_count = 1});
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  b.skip_sent();
  const Duration timeout = Duration::ns(4096 << 10);
  for (int i = 0; i < 5; ++i) b.advance(timeout);  // nothing is transmitted meanwhile
  assert_eq(b.state(), verbs::QpState::kRts);
  assert_int_equal(b.skip_sent(), 1);
}

void B11_rnr_waits_as_the_table_says(void**) {
  const struct {
    std::uint8_t code;
    std::int64_t us;
  } cases[] = {{0, 655360}, {1, 10}, {12, 640}, {31, 491520}};
  for (const auto& c : cases) {
    Bench b;
    b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
    b.post(b.wr(WrOpcode::kSend, 0, 8, 2));
    b.skip_sent();
    b.receive(ack(101, static_cast<std::uint8_t>(0x20 | c.code)));
    b.expect_completion(1, CompletionStatus::kSuccess);
    b.receive(ack(101, static_cast<std::uint8_t>(0x20 | c.code)));  // twice is once
    b.expect_nothing();
    b.advance(Duration::us(c.us) - Duration::ns(1));
    b.expect_nothing();
    b.advance(Duration::ns(1));
    b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 101, .payload = b.text(0, 8)});
    assert_int_equal(b.engine.counters().timeouts, 0);
  }
}

void rnr_retries_are_counted_and_seven_is_for_ever(void**) {
  for (const std::uint8_t retries : std::initializer_list<std::uint8_t>{0, 2, 7}) {
    Bench b({.rnr_retry = retries});
    b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
    int naks = 0;
    for (; naks < 20 && b.skip_sent() == 1; ++naks) {
      b.receive(ack(100, 0x21));
      b.advance(Duration::us(10));
    }
    assert_int_equal(naks, retries == 7 ? 20 : retries + 1);
    if (retries < 7) b.expect_completion(1, CompletionStatus::kRnrRetryExceeded);
  }
}

void fatal_naks(void**) {
  const struct {
    std::uint8_t syndrome;
    CompletionStatus status;
  } cases[] = {
      {0x61, CompletionStatus::kRemoteInvalidRequest}, {0x62, CompletionStatus::kRemoteAccess},
      {0x63, CompletionStatus::kRemoteOperation},      {0x64, CompletionStatus::kBadResponse},
      {0x7f, CompletionStatus::kBadResponse},
  };
  for (const auto& c : cases) {
    Bench b;
    for (std::uint64_t id = 1; id <= 3; ++id) b.post(b.wr(WrOpcode::kSend, 0, 8, id));
    b.skip_sent();
    b.receive(ack(101, c.syndrome));
    b.expect_completion(1, CompletionStatus::kSuccess);
    b.expect_completion(2, c.status);
    b.expect_completion(3, CompletionStatus::kFlushed);
    assert_eq(b.state(), verbs::QpState::kError);
    b.expect_nothing();
  }
}

/// Field report B07: eight packets across the wrap, a WRITE and a READ among them, one lost each
/// way.
void B07_psn_wraps(void**) {
  Bench b({.sq_psn = 0xfffffe});
  b.fill(0, pattern(600));
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 600, 2));    // ffffff..000001
  b.post(b.wr(WrOpcode::kRdmaRead, 2000, 600, 3));  // 000002..000004
  b.post(b.wr(WrOpcode::kSend, 0, 4, 4));           // 000005
  assert_int_equal(b.skip_sent(), 6);
  b.receive(ack(0xffffff, kNakSequence));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_sent(
      {.opcode = Opcode::kRcWriteFirst, .psn = 0xffffff, .payload = pattern(600).substr(0, 256)});
  assert_int_equal(b.skip_sent(), 4);
  b.receive(ack(0x000001));
  b.expect_completion(2, CompletionStatus::kSuccess);
  const std::string data = pattern(600, 9);
  b.receive({.opcode = Opcode::kRcReadResponseFirst, .psn = 2, .payload = data.substr(0, 256)});
  // 000003 is lost
  b.receive({.opcode = Opcode::kRcReadResponseLast, .psn = 4, .payload = data.substr(512)});
  b.expect_sent(
      {.opcode = Opcode::kRcReadRequest, .psn = 3, .address = 0x10000 + 256, .length = 344});
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 5, .payload = b.text(0, 4)});
  b.receive({.opcode = Opcode::kRcReadResponseFirst, .psn = 3, .payload = data.substr(256, 256)});
  b.receive({.opcode = Opcode::kRcReadResponseLast, .psn = 4, .payload = data.substr(512)});
  assert_int_equal(b.expect_completion(3, CompletionStatus::kSuccess).byte_len, 600);
  assert_string_equal(b.text(2000, 600).c_str(), data.c_str());
  b.receive(ack(5));
  b.expect_completion(4, CompletionStatus::kSuccess);
}

void window_limits_what_is_in_flight(void**) {
  Bench b({.window_packets = 8});
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 256 * 20, 1));
  std::size_t asked = 0;
  b.collect();
  assert_int_equal(b.sent.size(), 8);
  for (const auto& p : b.sent) asked += net::parse_transport(p)->bth().ack_req() ? 1U : 0U;
  assert_int_equal(asked, 4);  // every second, the eighth among them
  b.sent.clear();
  assert_false(b.engine.has_work());
  b.receive(ack(103));
  assert_true(b.engine.has_work());
  assert_int_equal(b.skip_sent(), 4);
}

void B15_read_limit_and_fence(void**) {
  Bench b({.max_rd_atomic = 2});
  for (std::uint64_t id = 1; id <= 3; ++id) b.post(b.wr(WrOpcode::kRdmaRead, 0, 4, id));
  assert_int_equal(b.skip_sent(), 2);  // B15: the third is held
  b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 100, .payload = "aaaa"});
  b.expect_sent({.opcode = Opcode::kRcReadRequest, .psn = 102});
  SendWr fenced = b.wr(WrOpcode::kSend, 0, 4, 4);
  fenced.fence = true;
  b.post(fenced);
  b.expect_nothing();
  b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 101, .payload = "bbbb"});
  b.expect_nothing();
  b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 102, .payload = "cccc"});
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 103, .payload = "cccc"});
}

/// An ACK behind a READ does not acknowledge it: it says that the response was lost.
void ack_past_a_read_is_an_implied_nak(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.post(b.wr(WrOpcode::kRdmaRead, 8, 4, 2));
  b.post(b.wr(WrOpcode::kSend, 0, 4, 3));
  b.skip_sent();
  b.receive(ack(102));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_no_completion();
  b.expect_sent({.opcode = Opcode::kRcReadRequest, .psn = 101, .length = 4});
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 102, .payload = b.text(0, 4)});
  b.receive(ack(102));
  b.expect_nothing();  // once
  b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 101, .payload = "data"});
  b.expect_completion(2, CompletionStatus::kSuccess);
  b.receive(ack(102));
  b.expect_completion(3, CompletionStatus::kSuccess);
  assert_string_equal(b.text(8, 4).c_str(), "data");
}

/// A fatal NAK is of its own work request, behind the READ in front of it: that one is asked for again and,
/// since a responder in ERROR is silent, ends with what is true of it. Work requests complete in order, and
/// those behind the first that failed are flushed (IBA vol. 1 §9.7.5.1.2, §10.3.1).
void a_fatal_nak_waits_for_the_read_before_it(void**) {
  for (const bool answered : {true, false}) {
    Bench b({.timeout = 10, .retry_count = 1});
    b.post(b.wr(WrOpcode::kRdmaRead, 8, 4, 1));
    b.post(b.wr(WrOpcode::kRdmaWrite, 0, 4, 2));
    b.skip_sent();
    b.receive(ack(101, 0x62));
    b.expect_no_completion();
    b.expect_sent({.opcode = Opcode::kRcReadRequest, .psn = 100, .length = 4});
    b.skip_sent();
    if (answered) {  // its response and the NAK had changed places
      b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 100, .payload = "data"});
      b.receive(ack(101, 0x62));
      b.expect_completion(1, CompletionStatus::kSuccess);
      b.expect_completion(2, CompletionStatus::kRemoteAccess);
    } else {
      b.advance(Duration::ns(4096 << 10));
      b.expect_completion(1, CompletionStatus::kRetryExceeded);
      b.expect_completion(2, CompletionStatus::kFlushed);
    }
  }
}

void wrong_read_responses_fail_the_read(void**) {
  const Packet cases[] = {
      {.opcode = Opcode::kRcReadResponseOnly, .psn = 100, .payload = pattern(256)},  // not the end
      {.opcode = Opcode::kRcReadResponseFirst, .psn = 100, .payload = pattern(255)},
      {.opcode = Opcode::kRcReadResponseFirst, .psn = 100, .payload = pattern(260)},
      {.opcode = Opcode::kRcReadResponseLast, .psn = 100, .payload = pattern(44)},
  };
  for (const Packet& p : cases) {
    Bench b;
    b.post(b.wr(WrOpcode::kRdmaRead, 1000, 300, 1));
    b.skip_sent();
    b.receive(p);
    b.expect_completion(1, CompletionStatus::kBadResponse);
    assert_eq(b.state(), verbs::QpState::kError);
    assert_true(b.text(1000, 300) == std::string(300, '\0'));
  }
}

void B05_zero_length_read(void**) {
  Bench b;
  SendWr w = b.wr(WrOpcode::kRdmaRead, 0, 0, 1);
  w.sge_count = 0;
  b.post(w);
  b.expect_sent({.opcode = Opcode::kRcReadRequest, .psn = 100, .length = 0});
  b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 100});
  assert_int_equal(b.expect_completion(1, CompletionStatus::kSuccess).byte_len, 0);
}

void local_protection(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 8, 1));
  SendWr bad = b.wr(WrOpcode::kSend, b.memory.size() - 4, 8, 2);  // past the region's end
  b.post(bad);
  b.post(b.wr(WrOpcode::kSend, 0, 8, 3));
  assert_int_equal(b.skip_sent(), 1);
  b.expect_no_completion();  // in order: the first is not acknowledged yet
  b.receive(ack(100));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_completion(2, CompletionStatus::kLocalProtection);
  b.expect_completion(3, CompletionStatus::kFlushed);
}

void retransmission_checks_the_region_again(void**) {
  Bench b({.timeout = 10});
  std::vector<std::uint8_t> other(64);
  const auto region =
      b.engine.register_memory(b.pd, other.data(), other.size(), Access::kNone, kClear).value();
  SendWr w = b.wr(WrOpcode::kSend, 0, 8, 1);
  w.sges[0] = {reinterpret_cast<std::uint64_t>(other.data()), 8, region.lkey};
  b.post(w);
  assert_int_equal(b.skip_sent(), 1);
  assert_ok(b.engine.deregister_memory(region.id));
  b.advance(Duration::ns(4096 << 10));
  b.expect_nothing();
  b.expect_completion(1, CompletionStatus::kLocalProtection);
}

void post_checks(void**) {
  Bench b;
  SendWr w = b.wr(WrOpcode::kSend, 0, 8);
  w.sge_count = kSgeMax + 1;
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  w = b.wr(WrOpcode::kSend, 0, 0x8000'0001);
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  const std::vector<SendWr> many(65, b.wr(WrOpcode::kSend, 0, 8));
  assert_error(b.engine.post_send(b.qpn, many), Error::kFull);
  assert_error(b.engine.post_send(Qpn(3), many), Error::kNotFound);
  b.expect_nothing();
  assert_ok(b.engine.to_error(b.qpn));
  w = b.wr(WrOpcode::kSend, 0, 8, 8);
  b.post(w);
  b.expect_completion(8, CompletionStatus::kFlushed);
  assert_ok(b.engine.to_reset(b.qpn));
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidState);
}

void a_full_completion_queue_fails_the_qp(void**) {
  Bench b({.cq_depth = 1});
  for (std::uint64_t id = 1; id <= 3; ++id) b.post(b.wr(WrOpcode::kSend, 0, 8, id));
  b.skip_sent();
  b.receive(ack(102));
  b.expect_completion(1, CompletionStatus::kSuccess);
  assert_eq(b.state(), verbs::QpState::kError);
  verbs::AsyncEvent event;
  assert_int_equal(b.engine.poll_events({&event, 1}), 1);
  assert_true(event.type == verbs::AsyncEvent::Type::kCqOverrun && event.cq == b.cq);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(segments_a_write),
      cmocka_unit_test(B02_pads_what_it_sends),
      cmocka_unit_test(gathers_pieces),
      cmocka_unit_test(one_ack_completes_many),
      cmocka_unit_test(ghosts_are_ignored),
      cmocka_unit_test(nak_goes_back_once),
      cmocka_unit_test(time_out_retries_then_gives_up),
      cmocka_unit_test(progress_resets_retries),
      cmocka_unit_test(no_retry_is_spent_without_frames),
      cmocka_unit_test(B11_rnr_waits_as_the_table_says),
      cmocka_unit_test(rnr_retries_are_counted_and_seven_is_for_ever),
      cmocka_unit_test(fatal_naks),
      cmocka_unit_test(B07_psn_wraps),
      cmocka_unit_test(window_limits_what_is_in_flight),
      cmocka_unit_test(B15_read_limit_and_fence),
      cmocka_unit_test(ack_past_a_read_is_an_implied_nak),
      cmocka_unit_test(a_fatal_nak_waits_for_the_read_before_it),
      cmocka_unit_test(wrong_read_responses_fail_the_read),
      cmocka_unit_test(B05_zero_length_read),
      cmocka_unit_test(local_protection),
      cmocka_unit_test(retransmission_checks_the_region_again),
      cmocka_unit_test(post_checks),
      cmocka_unit_test(a_full_completion_queue_fails_the_qp),
  };
  return cmocka_run_group_tests_name("requester", tests, nullptr, nullptr);
}
