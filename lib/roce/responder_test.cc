// The responder's side: what requests do, and what is sent back.
#include "roce/responder.h"

#include <sys/mman.h>

#include "roce/core.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;

// ---- SEND ----

/// Field report B02: the pad is neither delivered nor counted.
void B02_delivers_sends_of_any_tail(void**) {
  Bench b;
  for (std::uint32_t n = 0; n <= 5; ++n) {
    b.post_recv(1000, 64, n);
    assert_eq(b.receive(send(500 + n, std::string(n, 'x'))), Drop::kNone);
    b.expect_sent(
        {.opcode = Opcode::kRcAcknowledge, .psn = 500 + n, .syndrome = 0x1f, .msn = n + 1});
    const Completion c = b.expect_completion(n, CompletionStatus::kSuccess);
    assert_int_equal(c.byte_len, n);
    assert_true(!c.has_imm && !c.has_invalidate);
    assert_string_equal(b.text(1000, 6).c_str(), std::string(n, 'x').c_str());
  }
}

void scatters_a_long_send(void**) {
  Bench b;
  verbs::RecvWr w;
  w.wr_id = 4;
  w.sge_count = 3;
  w.sges[0] = b.sge(0, 100);
  w.sges[1] = b.sge(1000, 300);
  w.sges[2] = b.sge(2000, 200);
  assert_ok(b.engine.post_recv(b.qpn, {&w, 1}));
  const std::string data = pattern(556);
  b.receive({.opcode = Opcode::kRcSendFirst,
             .psn = 500,
             .payload = data.substr(0, 256),
             .ack_req = false});
  b.receive({.opcode = Opcode::kRcSendMiddle,
             .psn = 501,
             .payload = data.substr(256, 256),
             .ack_req = false});
  b.expect_nothing();
  b.receive(
      {.opcode = Opcode::kRcSendLastWithImm, .psn = 502, .payload = data.substr(512), .imm = 7});
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 502, .msn = 1});
  const Completion c = b.expect_completion(4, CompletionStatus::kSuccess);
  assert_true(c.has_imm && c.imm == 7 && c.byte_len == 556);
  assert_true(b.text(0, 100) + b.text(1000, 300) + b.text(2000, 156) == data);
  assert_true(b.text(2156, 44) == std::string(44, '\0'));
}

/// Field report B11: the RNR NAK says the timer's code; zero is a code like others.
void B11_not_ready(void**) {
  for (const std::uint8_t code : std::initializer_list<std::uint8_t>{0, 1, 12, 31}) {
    Bench b({.min_rnr_timer = code});
    assert_eq(b.receive(send(500, "early")), Drop::kReceiverNotReady);
    assert_eq(b.receive(send(501, "after")), Drop::kOutOfSequence);  // no NAK of its own
    b.expect_sent(ack(500, static_cast<std::uint8_t>(0x20 | code)));
    b.expect_nothing();
    b.post_recv(0, 64, 1);
    b.receive(send(500, "early"));
    b.expect_sent(ack(500));
    b.expect_completion(1, CompletionStatus::kSuccess);
    assert_int_equal(b.engine.counters().rnr_naks_sent, 1);
  }
}

void a_ready_receiver_takes_its_rnr_nak_back(void**) {
  Bench b;
  b.receive(send(500, "x"));
  b.post_recv(0, 64, 1);
  b.receive(send(500, "x"));
  b.expect_sent(ack(500));
  b.expect_nothing();
}

void a_send_too_long_for_its_receive(void**) {
  Bench b;
  b.post_recv(0, 4, 1);
  b.post_recv(8, 64, 2);
  assert_eq(b.receive(send(500, "12345")), Drop::kInvalidRequest);
  b.expect_sent(ack(500, 0x61));
  b.expect_completion(1, CompletionStatus::kLocalLength);
  b.expect_completion(2, CompletionStatus::kFlushed);
  assert_true(b.text(0, 5) == std::string(5, '\0'));
}

/// A SEND ends at 2^31 bytes (IBA vol. 1 §9.4.1), however much room its receive request has: else its
/// length would wrap after 2^32. What came before is set, not sent: it would take a million packets.
void a_send_longer_than_a_message(void**) {
  constexpr std::size_t kRoom = 2 * kMessageMaxBytes;
  void* const room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(room != MAP_FAILED);
  const struct {
    std::uint64_t before;
    std::size_t bytes;
    CompletionStatus status;
  } cases[] = {{kMessageMaxBytes - 256, 256, CompletionStatus::kSuccess},
               {kMessageMaxBytes - 256, 255, CompletionStatus::kSuccess},
               {kMessageMaxBytes, 1, CompletionStatus::kLocalLength},
               {0xffff'ff00, 256, CompletionStatus::kLocalLength}};
  for (const auto& c : cases) {
    SeededRandom random(1);
    Core core({}, random);
    const verbs::PdId pd = core.memory.alloc_pd().value();
    const auto region =
        core.memory.register_memory(pd, room, kRoom, Access::kLocalWrite, kClear).value();
    Cq cq(8);
    Qp qp({.pd = pd, .send_cq = {}, .recv_cq = {}}, cq, cq, nullptr);
    qp.state = verbs::QpState::kRts;
    qp.mtu = 256;
    qp.responder.message = InboundMessage::kSend;
    qp.responder.received = static_cast<std::uint32_t>(c.before);
    verbs::RecvWr wr;
    wr.sge_count = 2;
    wr.sges[0] = {reinterpret_cast<std::uint64_t>(room), 0xffff'ffff, region.lkey};
    wr.sges[1] = {reinterpret_cast<std::uint64_t>(room), 0xffff'ffff, region.lkey};
    qp.responder.queue.push(wr);
    const auto bytes = to_bytes({.opcode = Opcode::kRcSendLast, .payload = pattern(c.bytes)}, {});
    packet::HeapFramePool pool(1);
    packet::Frame* const frame = pool.allocate_one();
    responder::receive(core, qp, net::parse_transport(bytes).value(), *frame);
    pool.release_one(frame);
    verbs::Completion done;
    assert_int_equal(cq.ring.pop({&done, 1}), 1);
    assert_int_equal(done.status, c.status);
    if (c.status == CompletionStatus::kSuccess)
      assert_int_equal(done.byte_len, c.before + c.bytes);
    else
      assert_int_equal(qp.responder.nak_syndrome, net::Aeth::kNakInvalidRequest);
  }
  ::munmap(room, kRoom);
}

void a_receive_that_is_not_ours_to_write(void**) {
  Bench b;
  verbs::RecvWr w;
  w.wr_id = 3;
  w.sge_count = 1;
  w.sges[0] = {b.address(0), 64, Lkey(b.region.lkey.value() ^ 1)};
  assert_ok(b.engine.post_recv(b.qpn, {&w, 1}));
  assert_eq(b.receive(send(500, "data")), Drop::kRemoteOperational);
  b.expect_sent(ack(500, 0x63));
  b.expect_completion(3, CompletionStatus::kLocalProtection);
}

// ---- WRITE ----

void writes_land_and_need_no_receive(void**) {
  Bench b;
  b.receive(write(b, 500, 100, "hello"));
  assert_string_equal(b.text(100, 5).c_str(), "hello");
  const std::string data = pattern(600);
  Packet first{.opcode = Opcode::kRcWriteFirst,
               .psn = 501,
               .payload = data.substr(0, 256),
               .address = b.address(1000),
               .rkey = b.region.rkey,
               .length = 600};
  b.receive(first);
  b.receive({.opcode = Opcode::kRcWriteMiddle, .psn = 502, .payload = data.substr(256, 256)});
  b.receive({.opcode = Opcode::kRcWriteLast, .psn = 503, .payload = data.substr(512)});
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 503, .msn = 2});  // one for all
  b.expect_nothing();
  b.expect_no_completion();
  assert_true(b.text(1000, 600) == data);
}

void write_with_immediate_takes_a_receive(void**) {
  Bench b;
  Packet p = write(b, 500, 100, "data");
  p.opcode = Opcode::kRcWriteOnlyWithImm;
  p.imm = 0xfeedbeef;
  assert_eq(b.receive(p), Drop::kReceiverNotReady);
  b.expect_sent(ack(500, 0x2c));
  assert_true(b.text(100, 4) == std::string(4, '\0'));
  b.post_recv(0, 0, 8);
  assert_eq(b.receive(p), Drop::kNone);
  const Completion c = b.expect_completion(8, CompletionStatus::kSuccess);
  assert_true(c.opcode == verbs::CompletionOpcode::kRecvRdmaWithImm && c.imm == 0xfeedbeef);
  assert_int_equal(c.byte_len, 4);
}

/// Field report B05: no length, no key check, one PSN.
void B05_zero_length_needs_no_key(void**) {
  Bench b;
  Packet w = write(b, 500, 0, "");
  w.rkey = Rkey(0);
  w.address = 0;
  assert_eq(b.receive(w), Drop::kNone);
  b.expect_sent(ack(500));
  w.psn = 501;
  w.rkey = Rkey(0xbadbad);
  w.address = ~std::uint64_t{0};
  assert_eq(b.receive(w), Drop::kNone);
  b.expect_sent(ack(501));
  Packet r = read(b, 502, 0, 0);
  r.rkey = Rkey(0xbadbad);
  assert_eq(b.receive(r), Drop::kNone);
  b.expect_sent({.opcode = Opcode::kRcReadResponseOnly, .psn = 502, .syndrome = 0x1f, .msn = 3});
  b.post_recv(0, 0, 1);
  b.receive(send(503, ""));
  b.expect_sent(ack(503));
}

void keys_that_do_not_fit(void**) {
  struct Case {
    const char* what;
    void (*change)(Bench&, Packet&);
  };
  const Case cases[] = {
      {"unknown key", [](Bench& b, Packet& p) { p.rkey = Rkey(b.region.rkey.value() ^ 1); }},
      {"local key", [](Bench& b, Packet& p) { p.rkey = Rkey(b.region.lkey.value()); }},
      {"key zero", [](Bench&, Packet& p) { p.rkey = Rkey(0); }},
      {"one before", [](Bench& b, Packet& p) { p.address = b.address(0) - 1; }},
      {"one behind", [](Bench& b, Packet& p) { p.address = b.address(b.memory.size() - 3); }},
      {"at the end", [](Bench& b, Packet& p) { p.address = b.address(b.memory.size()); }},
      {"wraps", [](Bench&, Packet& p) { p.address = ~std::uint64_t{0} - 1; }},
      {"address zero", [](Bench&, Packet& p) { p.address = 0; }},
      {"no write right",
       [](Bench& b, Packet& p) {
         const auto r = b.engine.register_memory(b.pd, b.memory.data(), 64,
                                                 Access::kLocalWrite | Access::kRemoteRead, kClear);
         p.rkey = r->rkey;
       }},
      {"other protection domain",
       [](Bench& b, Packet& p) {
         const auto pd = b.engine.alloc_pd().value();
         p.rkey = b.engine.register_memory(pd, b.memory.data(), 64, kAllRights, kClear)->rkey;
       }},
      {"other association",
       [](Bench& b, Packet& p) {
         p.rkey = b.engine.register_memory(b.pd, b.memory.data(), 64, kAllRights, AssociationId(3))
                      ->rkey;
       }},
      {"deregistered",
       [](Bench& b, Packet& p) {
         const auto r = b.engine.register_memory(b.pd, b.memory.data(), 64, kAllRights, kClear);
         p.rkey = r->rkey;
         assert_ok(b.engine.deregister_memory(r->id));
       }},
      {"only reserved",
       [](Bench& b, Packet& p) {
         p.rkey = b.engine.fresh_rkey(b.engine.alloc_window(b.pd)->id).value();
       }},
  };
  for (const Case& c : cases) {
    Bench b;
    Packet p = write(b, 500, 0, "evil");
    c.change(b, p);
    print_message("# %s\n", c.what);
    expect_refused(b, p, 0x62, Drop::kRemoteAccess);
    assert_true(b.text(0, 4) == std::string(4, '\0'));
  }
}

void what_the_qp_does_not_honour(void**) {
  Bench w({.access = Access::kRemoteRead});
  expect_refused(w, write(w, 500, 0, "data"), 0x61, Drop::kInvalidRequest);
  Bench r({.access = Access::kRemoteWrite});
  expect_refused(r, read(r, 500, 0, 8), 0x61, Drop::kInvalidRequest);
  Bench a({.access = Access::kRemoteWrite | Access::kRemoteRead});
  expect_refused(a, fetch_add(a, 500, 0, 1), 0x61, Drop::kInvalidRequest);
}

void wrong_lengths_and_orders(void**) {
  const std::string full = pattern(256);
  struct Case {
    std::vector<Packet> before;
    Packet bad;
  };
  const auto w = [](Opcode o, std::uint32_t psn, std::string payload, std::uint32_t length) {
    return Packet{.opcode = o, .psn = psn, .payload = std::move(payload), .length = length};
  };
  const Case cases[] = {
      {{}, w(Opcode::kRcWriteFirst, 500, pattern(255), 600)},
      {{}, w(Opcode::kRcWriteFirst, 500, pattern(260), 600)},
      {{}, w(Opcode::kRcWriteFirst, 500, full, 256)},  // would be ONLY
      {{}, w(Opcode::kRcWriteOnly, 500, pattern(8), 9)},
      {{}, w(Opcode::kRcWriteOnly, 500, pattern(257), 257)},
      {{}, w(Opcode::kRcWriteOnly, 500, pattern(8), 0x8000'0001)},
      {{}, w(Opcode::kRcReadRequest, 500, "", 0x8000'0001)},
      {{w(Opcode::kRcWriteFirst, 500, full, 600)}, w(Opcode::kRcWriteLast, 501, pattern(343), 0)},
      {{w(Opcode::kRcWriteFirst, 500, full, 600)}, w(Opcode::kRcWriteLast, 501, "", 0)},
      {{w(Opcode::kRcWriteFirst, 500, full, 512)}, w(Opcode::kRcWriteMiddle, 501, full, 0)},
      {{w(Opcode::kRcWriteFirst, 500, full, 600)}, w(Opcode::kRcWriteFirst, 501, full, 600)},
      {{w(Opcode::kRcWriteFirst, 500, full, 600)}, w(Opcode::kRcSendMiddle, 501, full, 0)},
      {{w(Opcode::kRcWriteFirst, 500, full, 600)}, w(Opcode::kRcSendOnly, 501, full, 0)},
      {{w(Opcode::kRcWriteFirst, 500, full, 600)}, w(Opcode::kRcReadRequest, 501, "", 8)},
      {{}, w(Opcode::kRcWriteMiddle, 500, full, 0)},
      {{}, w(Opcode::kRcWriteLast, 500, full, 0)},
      {{}, w(Opcode::kRcSendLast, 500, full, 0)},
      {{w(Opcode::kRcSendFirst, 500, full, 0)}, w(Opcode::kRcSendFirst, 501, full, 0)},
      {{w(Opcode::kRcSendFirst, 500, full, 0)}, w(Opcode::kRcWriteLast, 501, full, 0)},
      {{}, w(Opcode::kRcSendFirst, 500, pattern(100), 0)},
  };
  int n = 0;
  for (const Case& c : cases) {
    print_message("# case %d\n", n++);
    Bench b;
    b.post_recv(2000, 4096);
    const auto aimed = [&](Packet p) {
      p.address = b.address(0);
      p.rkey = b.region.rkey;
      return p;
    };
    for (const Packet& p : c.before) assert_eq(b.receive(aimed(p)), Drop::kNone);
    b.skip_sent();
    expect_refused(b, aimed(c.bad), 0x61, Drop::kInvalidRequest);
  }
}

// ---- PSN ----

/// Field report B09: not executed, no receive taken, acknowledged with the newest PSN.
void B09_duplicates_are_acknowledged_again(void**) {
  Bench b;
  b.post_recv(1000, 64, 1);
  b.receive(write(b, 500, 0, "peer"));
  b.receive(send(501, "once"));
  b.expect_sent(ack(501));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.fill(0, "mine");
  b.fill(1000, "mine");
  b.post_recv(1000, 64, 2);
  assert_eq(b.receive(write(b, 500, 0, "peer")), Drop::kDuplicatePsn);
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 501, .syndrome = 0x1f, .msn = 2});
  Packet quiet = send(501, "once");
  quiet.ack_req = false;
  assert_eq(b.receive(quiet), Drop::kDuplicatePsn);
  b.expect_sent(ack(501));
  b.expect_no_completion();
  assert_string_equal(b.text(0, 4).c_str(), "mine");
  assert_string_equal(b.text(1000, 4).c_str(), "mine");
}

/// Field report B14, the burst in one turn and packet by packet.
void B14_one_nak_for_a_gap(void**) {
  for (const bool one_turn : {true, false}) {
    Bench b;
    std::vector<std::vector<std::uint8_t>> all;
    for (const std::uint32_t psn : {500U, 502U, 503U, 501U, 502U, 503U}) {
      b.receive(write(b, psn, psn, "data"));
      if (!one_turn) b.collect();
    }
    b.collect();
    std::size_t naks = 0;
    for (const auto& bytes : b.sent) {
      const auto p = net::parse_transport(bytes).value();
      if (p.aeth().kind() != net::AckKind::kNakSequence) continue;
      ++naks;
      assert_int_equal(p.bth().psn().value(), 501);
      assert_int_equal(p.aeth().msn.value(), 1);
    }
    assert_int_equal(naks, 1);
    const auto last = net::parse_transport(b.sent.back()).value();
    assert_eq(last.aeth().kind(), net::AckKind::kAck);
    assert_int_equal(last.bth().psn().value(), 503);
    assert_int_equal(last.aeth().msn.value(), 4);
  }
}

void a_second_gap_is_reported_too(void**) {
  Bench b;
  b.receive(write(b, 501, 0, "data"));
  b.expect_sent(ack(500, 0x60));
  b.receive(write(b, 500, 0, "data"));
  b.expect_sent(ack(500));
  b.receive(write(b, 502, 0, "data"));
  b.expect_sent(ack(501, 0x60));
}

void B07_psn_windows(void**) {
  const struct {
    std::uint32_t expected;
    std::uint32_t psn;
    Drop drop;
  } cases[] = {
      {0, 0xffffff, Drop::kDuplicatePsn},  {0xffffff, 0, Drop::kOutOfSequence},
      {0, 0x7fffff, Drop::kOutOfSequence}, {0, 0x800000, Drop::kDuplicatePsn},
      {0, 0x800001, Drop::kDuplicatePsn},  {0x123456, 0x123456, Drop::kNone},
      {0xfffffb, 5, Drop::kOutOfSequence}, {5, 0xfffffb, Drop::kDuplicatePsn},
  };
  for (const auto& c : cases) {
    Bench b({.rq_psn = c.expected});
    assert_eq(b.receive(write(b, c.psn, 0, "data")), c.drop);
  }
}

/// The responder's side of B07: a WRITE of several packets, a READ and an atomic across the wrap, with
/// one packet lost and sent again.
void B07_responder_across_the_wrap(void**) {
  Bench b({.rq_psn = 0xfffffd});
  const std::string data = pattern(600);
  b.post_recv(4000, 64, 1);
  b.receive(send(0xfffffd, "head"));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.receive({.opcode = Opcode::kRcWriteFirst,
             .psn = 0xfffffe,
             .payload = data.substr(0, 256),
             .address = b.address(1000),
             .rkey = b.region.rkey,
             .length = 600});
  b.skip_sent();
  // ffffff is lost.
  assert_eq(b.receive({.opcode = Opcode::kRcWriteLast, .psn = 0, .payload = data.substr(512)}),
            Drop::kOutOfSequence);
  b.expect_sent(ack(0xffffff, 0x60));
  b.receive({.opcode = Opcode::kRcWriteMiddle, .psn = 0xffffff, .payload = data.substr(256, 256)});
  b.receive({.opcode = Opcode::kRcWriteLast, .psn = 0, .payload = data.substr(512)});
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 0, .msn = 2});
  assert_true(b.text(1000, 600) == data);
  b.receive(read(b, 1, 1000, 600));  // 1..3
  b.receive(fetch_add(b, 4, 64, 1));
  assert_int_equal(b.skip_sent(), 4);
  assert_eq(b.receive(read(b, 2, 1000 + 256, 344)), Drop::kDuplicatePsn);
  b.expect_sent(
      {.opcode = Opcode::kRcReadResponseFirst, .psn = 2, .payload = data.substr(256, 256)});
  assert_int_equal(b.skip_sent(), 1);
  assert_eq(b.receive({.opcode = Opcode::kRcWriteMiddle, .psn = 0xffffff, .payload = data}),
            Drop::kDuplicatePsn);
  b.expect_sent({.opcode = Opcode::kRcAcknowledge, .psn = 4, .msn = 4});
  assert_true(b.number(64) == 1);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(B02_delivers_sends_of_any_tail),
      cmocka_unit_test(scatters_a_long_send),
      cmocka_unit_test(B11_not_ready),
      cmocka_unit_test(a_ready_receiver_takes_its_rnr_nak_back),
      cmocka_unit_test(a_send_too_long_for_its_receive),
      cmocka_unit_test(a_send_longer_than_a_message),
      cmocka_unit_test(a_receive_that_is_not_ours_to_write),
      cmocka_unit_test(writes_land_and_need_no_receive),
      cmocka_unit_test(write_with_immediate_takes_a_receive),
      cmocka_unit_test(B05_zero_length_needs_no_key),
      cmocka_unit_test(keys_that_do_not_fit),
      cmocka_unit_test(what_the_qp_does_not_honour),
      cmocka_unit_test(wrong_lengths_and_orders),
      cmocka_unit_test(B09_duplicates_are_acknowledged_again),
      cmocka_unit_test(B14_one_nak_for_a_gap),
      cmocka_unit_test(a_second_gap_is_reported_too),
      cmocka_unit_test(B07_psn_windows),
      cmocka_unit_test(B07_responder_across_the_wrap),
  };
  return cmocka_run_group_tests_name("responder", tests, nullptr, nullptr);
}
