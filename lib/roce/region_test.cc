// Type 1 windows and fast regions: memory whose keys change by work requests.
#include "roce/memory_table.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;

// ---- type 1 windows ----

Rkey bind(Bench& b, verbs::MemoryWindow window, std::size_t offset, std::uint64_t length,
          Access access = Access::kRemoteWrite) {
  verbs::WindowBind w;
  w.wr_id = 9;
  w.window = window.id;
  w.region = b.region.id;
  w.address = b.address(offset);
  w.length = length;
  w.access = access;
  return b.engine.bind_window(b.qpn, w).value();
}

Packet write_through(Bench& b, Rkey rkey, std::uint32_t psn, std::size_t offset) {
  Packet p = write(b, psn, offset, "data");
  p.rkey = rkey;
  return p;
}

void a_type_1_window_moves_and_its_old_key_dies(void**) {
  Bench b;
  const auto window = b.engine.alloc_type1_window(b.pd).value();
  const Rkey first = bind(b, window, 0, 64);
  b.expect_nothing();
  b.expect_completion(9, CompletionStatus::kSuccess);
  assert_eq(b.receive(write_through(b, first, 500, 0)), Drop::kNone);
  assert_error(b.engine.deregister_memory(b.region.id), Error::kBusy);
  const Rkey second = bind(b, window, 1000, 64);  // while it is bound
  b.skip_sent();
  b.expect_completion(9, CompletionStatus::kSuccess);
  assert_true(first != second);
  assert_eq(b.receive(write_through(b, second, 501, 1000)), Drop::kNone);
  b.skip_sent();
  expect_refused(b, write_through(b, first, 502, 0), 0x62, Drop::kRemoteAccess);
}

void it_serves_every_qp_of_its_domain(void**) {
  Bench b;
  const auto window = b.engine.alloc_type1_window(b.pd).value();
  const Rkey rkey = bind(b, window, 0, 64);
  b.expect_nothing();
  b.expect_completion(9, CompletionStatus::kSuccess);
  assert_ok(b.engine.destroy_qp(b.qpn));  // the one that bound it
  b.qpn = b.engine.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq}).value();
  b.connect();
  assert_eq(b.receive(write_through(b, rkey, 500, 0)), Drop::kNone);
  const auto other = b.engine.alloc_pd().value();
  b.qpn = b.engine.create_qp({.pd = other, .send_cq = b.cq, .recv_cq = b.cq}).value();
  b.connect();
  b.skip_sent();
  expect_refused(b, write_through(b, rkey, 500, 0), 0x62, Drop::kRemoteAccess);
}

void length_zero_unbinds_it(void**) {
  Bench b;
  const auto window = b.engine.alloc_type1_window(b.pd).value();
  const Rkey bound = bind(b, window, 0, 64);
  bind(b, window, 0, 0);  // replaces what the first has not begun: one bind at a time
  b.expect_nothing();
  b.expect_completion(9, CompletionStatus::kWindowBind);
  b.expect_completion(9, CompletionStatus::kFlushed);
  assert_ok(b.engine.to_reset(b.qpn));
  b.connect();
  const Rkey again = bind(b, window, 0, 64);
  b.expect_nothing();
  b.expect_completion(9, CompletionStatus::kSuccess);
  const Rkey none = bind(b, window, 0, 0);
  b.expect_nothing();
  b.expect_completion(9, CompletionStatus::kSuccess);
  assert_true(bound != again && none != again);
  assert_true(b.engine.window_status(window.id)->state == verbs::WindowStatus::State::kInvalidated);
  expect_refused(b, write_through(b, none, 500, 0), 0x62, Drop::kRemoteAccess);
  assert_ok(b.engine.destroy_qp(b.qpn));
  assert_ok(b.engine.deregister_memory(b.region.id));  // nothing is bound to it
}

void type_1_is_not_invalidated_and_the_types_do_not_mix(void**) {
  Bench b;
  const auto one = b.engine.alloc_type1_window(b.pd).value();
  const auto two = b.engine.alloc_window(b.pd).value();
  assert_error(b.engine.fresh_rkey(one.id), Error::kInvalidArgument);
  verbs::WindowBind w;
  w.window = two.id;
  assert_error(b.engine.bind_window(b.qpn, w), Error::kInvalidArgument);
  w.window = verbs::MwId(99);
  assert_error(b.engine.bind_window(b.qpn, w), Error::kNotFound);
  const Rkey rkey = bind(b, one, 0, 64);
  b.expect_nothing();
  b.expect_completion(9, CompletionStatus::kSuccess);
  b.post_recv(2000, 64);
  expect_refused(b, {.opcode = Opcode::kRcSendOnlyWithInvalidate, .psn = 500, .invalidate = rkey},
                 0x62, Drop::kRemoteAccess);
}

// ---- fast regions ----

SendWr fast_wr(Bench& b, verbs::MemoryRegion region, std::uint8_t variant, std::size_t offset,
               std::uint64_t length, Access access = kAllRights) {
  SendWr w;
  w.wr_id = 5;
  w.opcode = WrOpcode::kFastRegister;
  w.region = region.id;
  w.rkey = Rkey((region.rkey.value() & ~std::uint32_t{0xff}) | variant);
  w.bind_address = b.address(offset);
  w.bind_length = length;
  w.bind_access = access;
  return w;
}

SendWr invalidate_wr(Rkey rkey) {
  SendWr w;
  w.wr_id = 6;
  w.opcode = WrOpcode::kLocalInvalidate;
  w.invalidate_rkey = rkey;
  return w;
}

void a_fast_region_takes_memory_by_work_request(void**) {
  Bench b;
  const auto region = b.engine.alloc_fast_region(b.pd, kClear).value();
  assert_true(region.rkey.value() == region.lkey.value() && region.rkey != Rkey());
  SendWr use = b.wr(WrOpcode::kSend, 0, 4, 7);
  use.sges[0] = {b.address(100), 4, Lkey((region.lkey.value() & ~std::uint32_t{0xff}) | 1)};
  b.post(fast_wr(b, region, 1, 100, 64));
  b.post(use);  // its key works for what follows in the queue
  assert_int_equal(b.skip_sent(), 1);
  const Completion c = b.expect_completion(5, CompletionStatus::kSuccess);
  assert_true(c.opcode == verbs::CompletionOpcode::kFastRegister);
  b.receive(ack(100));
  b.expect_completion(7, CompletionStatus::kSuccess);
  const Rkey rkey = fast_wr(b, region, 1, 0, 0).rkey;
  assert_eq(b.receive(write_through(b, rkey, 500, 100)), Drop::kNone);
  b.skip_sent();
  expect_refused(b, write_through(b, rkey, 501, 99), 0x62, Drop::kRemoteAccess);  // one before
}

void its_key_dies_and_the_next_is_another(void**) {
  Bench b;
  const auto region = b.engine.alloc_fast_region(b.pd, kClear).value();
  const SendWr first = fast_wr(b, region, 0xff, 0, 64);
  b.post(first);
  b.post(invalidate_wr(first.rkey));
  b.post(invalidate_wr(first.rkey));  // dead already: no error
  const SendWr second = fast_wr(b, region, 0, 1000, 64);
  b.post(second);
  b.expect_nothing();
  b.expect_completion(5, CompletionStatus::kSuccess);
  b.expect_completion(6, CompletionStatus::kSuccess);
  b.expect_completion(6, CompletionStatus::kSuccess);
  b.expect_completion(5, CompletionStatus::kSuccess);
  assert_eq(b.receive(write_through(b, second.rkey, 500, 1000)), Drop::kNone);
  b.skip_sent();
  expect_refused(b, write_through(b, first.rkey, 501, 0), 0x62, Drop::kRemoteAccess);
}

void the_peer_may_invalidate_it_with_a_send(void**) {
  Bench b;
  const auto region = b.engine.alloc_fast_region(b.pd, kClear).value();
  const SendWr w = fast_wr(b, region, 3, 0, 64);
  b.post(w);
  b.expect_nothing();
  b.expect_completion(5, CompletionStatus::kSuccess);
  b.post_recv(2000, 64, 8);
  b.receive({.opcode = Opcode::kRcSendOnlyWithInvalidate, .psn = 500, .invalidate = w.rkey});
  const Completion c = b.expect_completion(8, CompletionStatus::kSuccess);
  assert_true(c.has_invalidate && c.invalidated_rkey == w.rkey);
  b.skip_sent();
  expect_refused(b, write_through(b, w.rkey, 501, 0), 0x62, Drop::kRemoteAccess);
}

void registrations_that_are_refused(void**) {
  struct Case {
    const char* what;
    void (*change)(Bench&, SendWr&);
  };
  const Case cases[] = {
      {"another number", [](Bench&, SendWr& w) { w.rkey = Rkey(w.rkey.value() ^ 0x100); }},
      {"an ordinary region", [](Bench& b, SendWr& w) { w.region = b.region.id; }},
      {"no region", [](Bench&, SendWr& w) { w.region = verbs::MrId(); }},
      {"length zero", [](Bench&, SendWr& w) { w.bind_length = 0; }},
      {"address zero", [](Bench&, SendWr& w) { w.bind_address = 0; }},
      {"wraps", [](Bench&, SendWr& w) { w.bind_length = ~std::uint64_t{0}; }},
      {"remote write without local",
       [](Bench&, SendWr& w) { w.bind_access = Access::kRemoteWrite; }},
      {"of another domain",
       [](Bench& b, SendWr& w) {
         w.region = b.engine.alloc_fast_region(b.engine.alloc_pd().value(), kClear)->id;
       }},
  };
  for (const Case& c : cases) {
    print_message("# %s\n", c.what);
    Bench b;
    const auto region = b.engine.alloc_fast_region(b.pd, kClear).value();
    SendWr w = fast_wr(b, region, 1, 0, 64);
    c.change(b, w);
    b.post(w);
    b.expect_nothing();
    b.expect_completion(5, CompletionStatus::kWindowBind);
    assert_eq(b.state(), verbs::QpState::kError);
  }
  Bench twice;
  const auto region = twice.engine.alloc_fast_region(twice.pd, kClear).value();
  twice.post(fast_wr(twice, region, 1, 0, 64));
  twice.post(fast_wr(twice, region, 2, 0, 64));  // it has memory already
  twice.expect_nothing();
  twice.expect_completion(5, CompletionStatus::kSuccess);
  twice.expect_completion(5, CompletionStatus::kWindowBind);
}

void what_cannot_be_invalidated(void**) {
  Bench b;
  b.post(invalidate_wr(b.region.rkey));  // an ordinary region
  b.expect_nothing();
  b.expect_completion(6, CompletionStatus::kLocalQpOperation);
  Bench c;
  const auto region = c.engine.alloc_fast_region(c.pd, kClear).value();
  const SendWr w = fast_wr(c, region, 1, 0, 64);
  c.post(w);
  const auto window = c.engine.alloc_window(c.pd).value();
  SendWr bind =
      c.bind_wr(window, 0, 64, c.engine.fresh_rkey(window.id).value(), Access::kRemoteRead);
  bind.region = region.id;
  c.post(bind);
  c.post(invalidate_wr(w.rkey));  // a window is bound to it
  c.expect_nothing();
  c.expect_completion(5, CompletionStatus::kSuccess);
  c.expect_completion(77, CompletionStatus::kSuccess);
  c.expect_completion(6, CompletionStatus::kLocalQpOperation);
}

void a_fast_region_leaves_nothing_behind(void**) {
  Bench b;
  for (int i = 0; i < 40; ++i) {  // more than the table holds
    const auto region = b.engine.alloc_fast_region(b.pd, kClear).value();
    b.post(fast_wr(b, region, static_cast<std::uint8_t>(i), 0, 64));
    b.expect_nothing();
    b.expect_completion(5, CompletionStatus::kSuccess);
    assert_ok(b.engine.deregister_memory(region.id));
  }
  assert_error(b.engine.alloc_fast_region(verbs::PdId(), kClear), Error::kNotFound);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_type_1_window_moves_and_its_old_key_dies),
      cmocka_unit_test(it_serves_every_qp_of_its_domain),
      cmocka_unit_test(length_zero_unbinds_it),
      cmocka_unit_test(type_1_is_not_invalidated_and_the_types_do_not_mix),
      cmocka_unit_test(a_fast_region_takes_memory_by_work_request),
      cmocka_unit_test(its_key_dies_and_the_next_is_another),
      cmocka_unit_test(the_peer_may_invalidate_it_with_a_send),
      cmocka_unit_test(registrations_that_are_refused),
      cmocka_unit_test(what_cannot_be_invalidated),
      cmocka_unit_test(a_fast_region_leaves_nothing_behind),
  };
  return cmocka_run_group_tests_name("region", tests, nullptr, nullptr);
}
