// Compare-and-swap and fetch-and-add, as the responder executes them and as the requester asks.
// Spec: IBA vol. 1 §9.4.5.
#include <atomic>
#include <thread>

#include "roce/resources.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;
using verbs::CompletionOpcode;

constexpr std::size_t kWord = 64;  // where the number lies

// ---- responder ----

void executes_and_answers_what_it_found(void**) {
  Bench b;
  b.set_number(kWord, 41);
  assert_eq(b.receive(fetch_add(b, 500, kWord, 1)), Drop::kNone);
  Packet answer = atomic_ack(500, 41);
  answer.msn = 1;
  b.expect_sent(answer);
  assert_true(b.number(kWord) == 42);
  b.receive(compare_swap(b, 501, kWord, 42, 0x0102030405060708));
  b.expect_sent(atomic_ack(501, 42));
  assert_true(b.number(kWord) == 0x0102030405060708);
  b.receive(compare_swap(b, 502, kWord, 42, 9));  // it is not 42 any more
  b.expect_sent(atomic_ack(502, 0x0102030405060708));
  assert_true(b.number(kWord) == 0x0102030405060708);
  b.set_number(kWord, ~std::uint64_t{0});
  b.receive(fetch_add(b, 503, kWord, 3));  // modulo 2^64
  answer = atomic_ack(503, ~std::uint64_t{0});
  answer.msn = 4;
  b.expect_sent(answer);
  assert_true(b.number(kWord) == 2);
  b.expect_nothing();
  b.expect_no_completion();  // the responder's application is not told
}

void what_is_refused(void**) {
  struct Case {
    const char* what;
    std::uint8_t syndrome;
    void (*change)(Bench&, Packet&);
  };
  const Case cases[] = {
      {"not aligned to 8", 0x61, [](Bench& b, Packet& p) { p.address = b.address(kWord + 4); }},
      {"not aligned at all", 0x61, [](Bench& b, Packet& p) { p.address = b.address(kWord + 1); }},
      {"unknown key", 0x62, [](Bench& b, Packet& p) { p.rkey = Rkey(b.region.rkey.value() ^ 1); }},
      {"key zero", 0x62, [](Bench&, Packet& p) { p.rkey = Rkey(0); }},
      {"local key", 0x62, [](Bench& b, Packet& p) { p.rkey = Rkey(b.region.lkey.value()); }},
      {"behind the end", 0x62, [](Bench& b, Packet& p) { p.address = b.address(b.memory.size()); }},
      {"before the start", 0x62, [](Bench& b, Packet& p) { p.address = b.address(0) - 8; }},
      {"wraps", 0x62, [](Bench&, Packet& p) { p.address = ~std::uint64_t{7}; }},
      {"address zero", 0x62, [](Bench&, Packet& p) { p.address = 0; }},
      {"a region that may only be read and written", 0x62,
       [](Bench& b, Packet& p) {
         p.rkey = b.engine
                      .register_memory(
                          b.pd, b.memory.data(), 4096,
                          Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead, kClear)
                      ->rkey;
       }},
      {"half of it outside", 0x62,
       [](Bench& b, Packet& p) {
         p.rkey =
             b.engine.register_memory(b.pd, b.memory.data(), kWord + 4, kAllRights, kClear)->rkey;
       }},
      {"a window without the right", 0x62,
       [](Bench& b, Packet& p) {
         Rkey rkey;
         b.bound_window(0, 4096, rkey);
         p.rkey = rkey;
       }},
      {"a retired window", 0x62,
       [](Bench& b, Packet& p) {
         Rkey rkey;
         const auto w = b.bound_window(0, 4096, rkey, Access::kRemoteAtomic);
         assert_ok(b.engine.retire_window(w.id));
         p.rkey = rkey;
       }},
  };
  for (const Case& c : cases) {
    for (const bool swap : {false, true}) {
      print_message("# %s\n", c.what);
      Bench b;
      b.set_number(kWord, 7);
      Packet p = swap ? compare_swap(b, 500, kWord, 7, 8) : fetch_add(b, 500, kWord, 1);
      c.change(b, p);
      expect_refused(b, p, c.syndrome,
                     c.syndrome == 0x61 ? Drop::kInvalidRequest : Drop::kRemoteAccess);
      assert_true(b.number(kWord) == 7);
    }
  }
}

void a_window_with_the_right_and_the_last_word_of_a_region(void**) {
  Bench b;
  Rkey rkey;
  b.bound_window(kWord, 8, rkey, Access::kRemoteAtomic);
  Packet p = fetch_add(b, 500, kWord, 5);
  p.rkey = rkey;
  assert_eq(b.receive(p), Drop::kNone);
  assert_eq(b.receive(fetch_add(b, 501, b.memory.size() - 8, 5)), Drop::kNone);
  assert_true(b.number(kWord) == 5 && b.number(b.memory.size() - 8) == 5);
}

void not_in_the_middle_of_a_message_and_no_payload(void**) {
  Bench b;
  b.post_recv(2000, 4096);
  b.receive({.opcode = Opcode::kRcSendFirst, .psn = 500, .payload = pattern(256)});
  b.skip_sent();
  expect_refused(b, fetch_add(b, 501, kWord, 1), 0x61, Drop::kInvalidRequest);
  Bench c;
  auto bytes = to_bytes(fetch_add(c, 500, kWord, 1), c.qpn);
  bytes.resize(bytes.size() + 4);
  assert_eq(c.receive_bytes(bytes), Drop::kBadExtendedHeader);
  bytes.resize(bytes.size() - 8);
  assert_eq(c.receive_bytes(bytes), Drop::kBadExtendedHeader);
  assert_true(c.number(kWord) == 0);
}

/// Field report B09, for atomics: never executed twice, the stored answer is sent again.
void B09_duplicates_are_answered_from_what_was_stored(void**) {
  Bench b;
  b.set_number(kWord, 41);
  b.receive(fetch_add(b, 500, kWord, 1));
  b.receive(compare_swap(b, 501, kWord, 42, 100));
  b.receive(send(502, ""));  // not ready
  assert_int_equal(b.skip_sent(), 3);
  b.set_number(kWord, 7777);  // the application's own
  assert_eq(b.receive(fetch_add(b, 500, kWord, 1)), Drop::kDuplicatePsn);
  b.expect_sent(atomic_ack(500, 41));
  assert_eq(b.receive(compare_swap(b, 501, kWord, 42, 100)), Drop::kDuplicatePsn);
  b.expect_sent(atomic_ack(501, 42));
  assert_true(b.number(kWord) == 7777);
  // Another address or key at that PSN, a READ there, and a PSN that never was an atomic.
  b.receive(fetch_add(b, 500, kWord + 8, 1));
  Packet other = fetch_add(b, 500, kWord, 1);
  other.rkey = Rkey(other.rkey->value() ^ 1);
  b.receive(other);
  b.receive(read(b, 500, kWord, 8));
  b.receive(fetch_add(b, 499, kWord, 1));
  b.expect_nothing();
  assert_true(b.number(kWord) == 7777);
  assert_eq(b.state(), verbs::QpState::kRts);
}

/// Also when its region is gone: the answer is no access to it.
void a_duplicate_after_the_key_died(void**) {
  Bench b;
  Rkey rkey;
  b.bound_window(0, 4096, rkey, Access::kRemoteAtomic);
  b.set_number(kWord, 3);
  Packet p = fetch_add(b, 500, kWord, 1);
  p.rkey = rkey;
  b.receive(p);
  SendWr w;
  w.opcode = WrOpcode::kLocalInvalidate;
  w.invalidate_rkey = rkey;
  w.signaled = false;
  b.post(w);
  assert_int_equal(b.skip_sent(), 1);
  b.receive(p);
  b.expect_sent(atomic_ack(500, 3));
}

/// Field report B15, READs and atomics counted together.
void B15_resources_are_shared_with_reads(void**) {
  Bench b({.max_dest_rd_atomic = 2});
  b.receive(read(b, 500, kWord, 4));
  b.receive(fetch_add(b, 501, kWord, 1));
  assert_eq(b.receive(fetch_add(b, 502, kWord, 1)), Drop::kInvalidRequest);
  b.expect_sent({.opcode = Opcode::kRcReadResponseOnly, .psn = 500, .payload = b.text(kWord, 4)});
  b.expect_sent(atomic_ack(501, 0));
  b.expect_sent(ack(502, 0x61));
  assert_true(b.number(kWord) == 1);
  Bench none({.max_dest_rd_atomic = 0});
  expect_refused(none, fetch_add(none, 500, kWord, 1), 0x61, Drop::kInvalidRequest);
}

/// Only the newest max_dest_rd_atomic can be asked for again: older ones the requester has.
void old_answers_make_room(void**) {
  Bench b({.max_dest_rd_atomic = 2});
  for (std::uint32_t i = 0; i < 40; ++i) {
    assert_eq(b.receive(fetch_add(b, 500 + i, kWord, 1)), Drop::kNone);
    b.expect_sent(atomic_ack(500 + i, i));
  }
  b.receive(fetch_add(b, 537, kWord, 1));
  b.expect_nothing();
  b.receive(fetch_add(b, 538, kWord, 1));
  b.expect_sent(atomic_ack(538, 38));
  assert_true(b.number(kWord) == 40);
}

/// The CPU's own atomics and those of the wire do not lose one another's.
void atomic_towards_the_cpu(void**) {
  Bench b;
  auto* word = reinterpret_cast<std::uint64_t*>(b.memory.data() + kWord);
  std::atomic<bool> stop{false};
  std::uint64_t own = 0;
  std::thread application([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      std::atomic_ref<std::uint64_t>(*word).fetch_add(1);
      ++own;
    }
  });
  for (std::uint32_t i = 0; i < 3000; ++i) {
    b.receive(fetch_add(b, 500 + i, kWord, 1));
    b.skip_sent();
  }
  stop = true;
  application.join();
  assert_true(b.number(kWord) == own + 3000);
}

// ---- requester ----

SendWr atomic_wr(Bench& b, WrOpcode opcode, std::uint64_t id = 1) {
  SendWr w = b.wr(opcode, 128, 8, id);
  w.remote_address = 0x10008;
  w.compare_add = 0x1111;
  w.swap = 0x2222;
  return w;
}

void asks_and_completes_with_what_was_found(void**) {
  Bench b;
  b.post(atomic_wr(b, WrOpcode::kCompareSwap, 1));
  b.post(atomic_wr(b, WrOpcode::kFetchAdd, 2));
  b.expect_sent({.opcode = Opcode::kRcCompareSwap,
                 .psn = 100,
                 .ack_req = true,
                 .address = 0x10008,
                 .rkey = Rkey(0xabc),
                 .swap_or_add = 0x2222,
                 .compare = 0x1111});
  b.expect_sent({.opcode = Opcode::kRcFetchAdd,
                 .psn = 101,
                 .address = 0x10008,
                 .rkey = Rkey(0xabc),
                 .swap_or_add = 0x1111,
                 .compare = 0});
  assert_eq(b.receive(atomic_ack(100, 0x0102030405060708)), Drop::kNone);
  Completion c = b.expect_completion(1, CompletionStatus::kSuccess);
  assert_true(c.opcode == CompletionOpcode::kCompareSwap && c.byte_len == 8);
  assert_true(b.number(128) == 0x0102030405060708);
  b.receive(atomic_ack(101, 5));
  c = b.expect_completion(2, CompletionStatus::kSuccess);
  assert_true(c.opcode == CompletionOpcode::kFetchAdd && b.number(128) == 5);
  assert_eq(b.receive(atomic_ack(101, 6)), Drop::kUnexpectedAck);  // a duplicate
  assert_true(b.number(128) == 5);
  assert_true(b.engine.next_deadline().is_never());
}

void the_answer_may_be_scattered(void**) {
  Bench b;
  SendWr w = atomic_wr(b, WrOpcode::kFetchAdd);
  w.sge_count = 2;
  w.sges[0] = b.sge(128, 3);
  w.sges[1] = b.sge(200, 5);
  b.post(w);
  b.skip_sent();
  b.set_number(0, 0x1122334455667788);
  const std::string want = b.text(0, 8);
  b.receive(atomic_ack(100, 0x1122334455667788));
  assert_true(b.text(128, 3) + b.text(200, 5) == want);
}

/// Field report B15: READs and atomics outstanding are limited together.
void B15_the_requester_holds_one_too_many(void**) {
  Bench b({.max_rd_atomic = 2});
  b.post(b.wr(WrOpcode::kRdmaRead, 0, 4, 1));
  b.post(atomic_wr(b, WrOpcode::kFetchAdd, 2));
  b.post(atomic_wr(b, WrOpcode::kFetchAdd, 3));
  assert_int_equal(b.skip_sent(), 2);
  b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 100, .payload = "data"});
  b.expect_sent({.opcode = Opcode::kRcFetchAdd, .psn = 102});
  SendWr fenced = b.wr(WrOpcode::kSend, 0, 4, 4);
  fenced.fence = true;
  b.post(fenced);
  b.receive(atomic_ack(101, 0));
  b.expect_nothing();
  b.receive(atomic_ack(102, 0));
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 103, .payload = "data"});
}

void an_ack_past_an_atomic_is_an_implied_nak(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.post(atomic_wr(b, WrOpcode::kFetchAdd, 2));
  b.post(b.wr(WrOpcode::kSend, 0, 4, 3));
  b.skip_sent();
  b.receive(ack(102));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_no_completion();
  b.expect_sent({.opcode = Opcode::kRcFetchAdd, .psn = 101, .swap_or_add = 0x1111});
  b.expect_sent({.opcode = Opcode::kRcSendOnly, .psn = 102, .payload = b.text(0, 4)});
  b.receive(atomic_ack(101, 9));
  b.receive(ack(102));
  b.expect_completion(2, CompletionStatus::kSuccess);
  b.expect_completion(3, CompletionStatus::kSuccess);
}

void a_lost_answer_is_asked_for_again(void**) {
  Bench b({.timeout = 10, .retry_count = 1});
  b.post(atomic_wr(b, WrOpcode::kCompareSwap, 1));
  b.skip_sent();
  b.advance(Duration::ns(4096 << 10));
  b.expect_sent(
      {.opcode = Opcode::kRcCompareSwap, .psn = 100, .swap_or_add = 0x2222, .compare = 0x1111});
  b.advance(Duration::ns(4096 << 10));
  b.expect_completion(1, CompletionStatus::kRetryExceeded);
}

void answers_that_do_not_fit(void**) {
  Bench b;
  b.post(atomic_wr(b, WrOpcode::kFetchAdd, 1));
  b.skip_sent();
  assert_eq(b.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 100, .payload = "12345678"}),
            Drop::kUnexpectedAck);
  Packet nak = atomic_ack(100, 1);
  nak.syndrome = 0x62;
  assert_eq(b.receive(nak), Drop::kBadSyndrome);
  b.expect_no_completion();
  b.receive(ack(100, 0x62));
  b.expect_completion(1, CompletionStatus::kRemoteAccess);
}

void what_cannot_be_posted(void**) {
  Bench b;
  for (const std::uint32_t length : {0U, 4U, 16U}) {
    SendWr w = atomic_wr(b, WrOpcode::kFetchAdd);
    w.sges[0].length = length;
    assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidArgument);
  }
  Bench none({.max_rd_atomic = 0});
  const SendWr w = atomic_wr(none, WrOpcode::kCompareSwap);
  assert_error(none.engine.post_send(none.qpn, {&w, 1}), Error::kInvalidArgument);
  SendWr bad = atomic_wr(b, WrOpcode::kFetchAdd, 3);
  bad.sges[0].lkey = Lkey(1);
  b.post(bad);
  b.expect_nothing();
  b.expect_completion(3, CompletionStatus::kLocalProtection);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(executes_and_answers_what_it_found),
      cmocka_unit_test(what_is_refused),
      cmocka_unit_test(a_window_with_the_right_and_the_last_word_of_a_region),
      cmocka_unit_test(not_in_the_middle_of_a_message_and_no_payload),
      cmocka_unit_test(B09_duplicates_are_answered_from_what_was_stored),
      cmocka_unit_test(a_duplicate_after_the_key_died),
      cmocka_unit_test(B15_resources_are_shared_with_reads),
      cmocka_unit_test(old_answers_make_room),
      cmocka_unit_test(atomic_towards_the_cpu),
      cmocka_unit_test(asks_and_completes_with_what_was_found),
      cmocka_unit_test(the_answer_may_be_scattered),
      cmocka_unit_test(B15_the_requester_holds_one_too_many),
      cmocka_unit_test(an_ack_past_an_atomic_is_an_implied_nak),
      cmocka_unit_test(a_lost_answer_is_asked_for_again),
      cmocka_unit_test(answers_that_do_not_fit),
      cmocka_unit_test(what_cannot_be_posted),
  };
  return cmocka_run_group_tests_name("atomic", tests, nullptr, nullptr);
}
