// Who may speak to a QP, the calls around it, and the bookkeeping of objects.
#include "roce/engine.h"

#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using namespace test;

Packet write(const Bench& b) {
  return {.opcode = Opcode::kRcWriteOnly,
          .psn = 500,
          .payload = "data",
          .address = b.address(0),
          .rkey = b.region.rkey};
}

/// D3: rkey and PSN are right in each case.
void origin_of_packets(void**) {
  const IpAddress stranger = IpAddress::v4(10, 0, 0, 66);
  const struct {
    AssociationId own;
    AssociationId packet;
    IpAddress source;
    Drop drop;
  } cases[] = {
      {kClear, kClear, kPeer, Drop::kNone},
      {kClear, kClear, stranger, Drop::kWrongPeer},
      {kClear, AssociationId(5), kPeer, Drop::kWrongAssociation},
      {AssociationId(5), kClear, kPeer, Drop::kNeedsEsp},
      {AssociationId(5), AssociationId(6), kPeer, Drop::kWrongAssociation},
      {AssociationId(5), AssociationId(5), kPeer, Drop::kNone},
      {AssociationId(5), AssociationId(5), stranger, Drop::kWrongPeer},
  };
  for (const auto& c : cases) {
    Bench b({.association = c.own});
    Packet p = write(b);
    p.association = c.packet;
    p.source = c.source;
    assert_eq(b.receive(p), c.drop);
    if (c.drop == Drop::kNone)
      b.expect_sent(ack(500));
    else
      b.expect_nothing();
    assert_true(b.text(0, 4) == (c.drop == Drop::kNone ? "data" : std::string(4, '\0')));
    assert_true(b.engine.counters().drops[c.drop] == (c.drop == Drop::kNone ? 0U : 1U));
  }
}

/// Field report B20.
void B20_partition_keys(void**) {
  const struct {
    std::uint16_t packet;
    std::uint16_t own;
    bool ok;
  } cases[] = {{0xffff, 0xffff, true},  {0x7fff, 0xffff, true},  {0xffff, 0x7fff, true},
               {0x7fff, 0x7fff, false}, {0xfffe, 0xffff, false}, {0x0000, 0xffff, false}};
  for (const auto& c : cases) {
    Bench b({.pkey = c.own});
    Packet p = write(b);
    p.pkey = c.packet;
    assert_eq(b.receive(p), c.ok ? Drop::kNone : Drop::kBadPkey);
  }
  Bench b;
  assert_ok(b.engine.to_reset(b.qpn));
  assert_error(b.engine.to_init(b.qpn, {.access = kAllRights, .pkey = 0}), Error::kInvalidArgument);
  assert_error(b.engine.to_init(b.qpn, {.access = kAllRights, .pkey = 0x8000}),
               Error::kInvalidArgument);
}

/// Field report B18.
void B18_mig_req_of_either_kind(void**) {
  for (const bool mig_req : {true, false}) {
    Bench b;
    b.post(b.wr(WrOpcode::kSend, 0, 4));
    b.skip_sent();
    Packet p = write(b);
    p.mig_req = mig_req;
    assert_eq(b.receive(p), Drop::kNone);
    p = ack(100);
    p.mig_req = mig_req;
    assert_eq(b.receive(p), Drop::kNone);
  }
}

void packets_for_nobody(void**) {
  Bench b;
  Packet p = write(b);
  p.dest_qp = Qpn(b.qpn.value() ^ 1);
  assert_eq(b.receive(p), Drop::kNoQp);
  assert_eq(b.receive({.opcode = Opcode::kUcSendOnly, .psn = 500}), Drop::kBadOpcode);
  assert_eq(b.receive({.opcode = Opcode::kUdSendOnly, .psn = 500}), Drop::kBadOpcode);
  assert_eq(b.receive({.opcode = Opcode::kCnp}), Drop::kCnpUnhandled);
  const std::vector<std::uint8_t> nothing;
  assert_eq(b.receive_bytes(nothing), Drop::kTruncated);
  auto bytes = to_bytes(write(b), b.qpn);
  bytes[1] |= 1;
  assert_eq(b.receive_bytes(bytes), Drop::kBadBth);
  b.expect_nothing();
  assert_int_equal(b.engine.counters().rx_packets, 0);
}

void states_that_do_not_receive(void**) {
  Bench b;
  assert_ok(b.engine.to_error(b.qpn));
  assert_eq(b.receive(write(b)), Drop::kBadQpState);
  assert_eq(b.receive(ack(100)), Drop::kBadQpState);
  assert_ok(b.engine.to_reset(b.qpn));
  assert_eq(b.receive(write(b)), Drop::kBadQpState);
  b.connect();
  assert_eq(b.receive(write(b)), Drop::kNone);
  b.expect_sent(ack(500));
}

void attributes_are_checked(void**) {
  Bench b;
  assert_error(b.engine.to_rts(b.qpn, {}), Error::kInvalidState);
  assert_error(b.engine.to_init(b.qpn, {}), Error::kInvalidState);
  assert_ok(b.engine.to_reset(b.qpn));
  assert_ok(b.engine.to_init(b.qpn, {}));
  verbs::RtrAttributes rtr;
  rtr.path_mtu = 1000;
  assert_error(b.engine.to_rtr(b.qpn, rtr, {}), Error::kInvalidArgument);
  rtr.path_mtu = 4096;
  rtr.max_dest_rd_atomic = 17;
  assert_error(b.engine.to_rtr(b.qpn, rtr, {}), Error::kInvalidArgument);
  rtr.max_dest_rd_atomic = 16;
  rtr.min_rnr_timer = 32;
  assert_error(b.engine.to_rtr(b.qpn, rtr, {}), Error::kInvalidArgument);
  rtr.min_rnr_timer = 31;
  rtr.remote_qpn = Qpn(0x1000000);
  assert_error(b.engine.to_rtr(b.qpn, rtr, {}), Error::kInvalidArgument);
  rtr.remote_qpn = Qpn(0xffffff);
  assert_ok(b.engine.to_rtr(b.qpn, rtr, {}));
  const SendWr w = b.wr(WrOpcode::kSend, 0, 4);
  assert_error(b.engine.post_send(b.qpn, {&w, 1}), Error::kInvalidState);
  verbs::RtsAttributes rts;
  rts.timeout = 32;
  assert_error(b.engine.to_rts(b.qpn, rts), Error::kInvalidArgument);
  rts.timeout = 31;
  rts.rnr_retry = 8;
  assert_error(b.engine.to_rts(b.qpn, rts), Error::kInvalidArgument);
  rts.rnr_retry = 7;
  rts.max_rd_atomic = 0;
  assert_ok(b.engine.to_rts(b.qpn, rts));
  const SendWr r = b.wr(WrOpcode::kRdmaRead, 0, 4);
  assert_error(b.engine.post_send(b.qpn, {&r, 1}), Error::kInvalidArgument);
  assert_error(b.engine.to_error(Qpn(2)), Error::kNotFound);
}

void objects_in_use_stay(void**) {
  Bench b;
  assert_error(b.engine.dealloc_pd(b.pd), Error::kBusy);
  assert_error(b.engine.destroy_cq(b.cq), Error::kBusy);
  Rkey rkey;
  const auto window = b.bound_window(0, 64, rkey);
  assert_error(b.engine.deregister_memory(b.region.id), Error::kBusy);
  assert_ok(b.engine.destroy_qp(b.qpn));
  assert_true(b.engine.window_status(window.id)->state == verbs::WindowStatus::State::kInvalidated);
  assert_ok(b.engine.deregister_memory(b.region.id));
  assert_error(b.engine.dealloc_pd(b.pd), Error::kBusy);
  assert_ok(b.engine.dealloc_window(window.id));
  assert_ok(b.engine.dealloc_pd(b.pd));
  assert_ok(b.engine.destroy_cq(b.cq));
  assert_error(b.engine.dealloc_pd(b.pd), Error::kNotFound);
  assert_error(b.engine.destroy_cq(b.cq), Error::kNotFound);
  assert_error(b.engine.destroy_qp(b.qpn), Error::kNotFound);
}

void tables_have_limits(void**) {
  Bench b;
  for (int i = 0; i < 3; ++i)
    assert_ok(b.engine.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq}));
  assert_error(b.engine.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq}),
               Error::kNoMemory);
  for (int i = 0; i < 3; ++i) assert_ok(b.engine.create_cq(1));
  assert_error(b.engine.create_cq(1), Error::kNoMemory);
  assert_error(b.engine.create_cq(0), Error::kInvalidArgument);
}

void an_association_that_dies_takes_its_qps(void**) {
  Bench b({.association = AssociationId(5)});
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.engine.fail_association(AssociationId(6));
  assert_eq(b.state(), verbs::QpState::kRts);
  b.engine.fail_association(AssociationId(5));
  assert_eq(b.state(), verbs::QpState::kError);
  b.expect_completion(1, CompletionStatus::kFlushed);
  b.expect_nothing();
}

void destroying_a_busy_qp_leaves_nothing(void**) {
  Bench b;
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.skip_sent();
  b.post(b.wr(WrOpcode::kSend, 0, 4, 2));
  assert_true(b.engine.has_work());
  assert_ok(b.engine.destroy_qp(b.qpn));
  assert_false(b.engine.has_work());
  assert_true(b.engine.next_deadline().is_never());
  b.expect_nothing();
  assert_int_equal(b.pool.available(), b.pool.count());
}

void an_empty_pool_is_waited_for(void**) {
  Bench b;
  packet::HeapFramePool small(2);
  for (std::uint64_t id = 1; id <= 3; ++id) b.post(b.wr(WrOpcode::kSend, 0, 4, id));
  packet::Frame* out[8];
  assert_int_equal(b.engine.transmit(small, out, b.now), 2);
  assert_int_equal(small.available(), 0);
  assert_true(b.engine.has_work());
  packet::Frame* none[8];
  assert_int_equal(b.engine.transmit(small, none, b.now), 0);
  small.release(std::span(out).first(2));
  assert_int_equal(b.engine.transmit(small, out, b.now), 1);
  assert_false(b.engine.has_work());
  small.release(std::span(out).first(1));
  assert_int_equal(small.available(), 2);
}

void queue_pairs_take_turns(void**) {
  Bench b;
  const Qpn first = b.qpn;
  b.qpn = b.engine.create_qp({.pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq}).value();
  b.connect();
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 256 * 100));
  const Qpn second = b.qpn;
  b.qpn = first;
  b.post(b.wr(WrOpcode::kRdmaWrite, 0, 256 * 100));
  packet::Frame* out[32];
  assert_int_equal(b.engine.transmit(b.pool, out, b.now), 32);
  std::size_t of_first_port = 0;
  for (const packet::Frame* f : out)
    of_first_port += f->udp_source_port == out[0]->udp_source_port ? 1U : 0U;
  assert_int_equal(of_first_port, 16);
  b.pool.release(out);
  assert_true(first != second);
}

/// A bind or invalidate takes its place among the packets.
void local_operations_keep_order(void**) {
  Bench b;
  const auto window = b.engine.alloc_window(b.pd).value();
  const Rkey rkey = b.engine.fresh_rkey(window.id).value();
  b.post(b.wr(WrOpcode::kSend, 0, 4, 1));
  b.post(b.bind_wr(window, 0, 64, rkey, Access::kRemoteWrite));
  b.post(b.wr(WrOpcode::kSend, 0, 4, 2));
  assert_int_equal(b.skip_sent(), 2);
  assert_true(b.engine.window_status(window.id)->state == verbs::WindowStatus::State::kValid);
  b.expect_no_completion();
  b.receive(ack(100, 0x60));  // go back over the bind: it is not done twice
  assert_int_equal(b.skip_sent(), 2);
  b.receive(ack(101));
  b.expect_completion(1, CompletionStatus::kSuccess);
  b.expect_completion(77, CompletionStatus::kSuccess);
  b.expect_completion(2, CompletionStatus::kSuccess);
}

void binds_that_are_refused(void**) {
  struct Case {
    const char* what;
    void (*change)(Bench&, SendWr&);
  };
  const Case cases[] = {
      {"a key of one's own", [](Bench&, SendWr& w) { w.rkey = Rkey(w.rkey.value() ^ 1); }},
      {"key zero", [](Bench&, SendWr& w) { w.rkey = Rkey(0); }},
      {"no region", [](Bench&, SendWr& w) { w.region = verbs::MrId(0); }},
      {"no window", [](Bench&, SendWr& w) { w.window = verbs::MwId(0); }},
      {"length zero", [](Bench&, SendWr& w) { w.bind_length = 0; }},
      {"too long", [](Bench& b, SendWr& w) { w.bind_length = b.memory.size() + 1; }},
      {"before", [](Bench&, SendWr& w) { w.bind_address -= 1; }},
      {"wraps", [](Bench&, SendWr& w) { w.bind_length = ~std::uint64_t{0}; }},
      {"local right", [](Bench&, SendWr& w) { w.bind_access = Access::kLocalWrite; }},
      {"region without bind",
       [](Bench& b, SendWr& w) {
         w.region =
             b.engine.register_memory(b.pd, b.memory.data(), 64, Access::kLocalWrite, kClear)->id;
       }},
      {"write to a region that is not writable",
       [](Bench& b, SendWr& w) {
         w.region =
             b.engine.register_memory(b.pd, b.memory.data(), 64, Access::kWindowBind, kClear)->id;
       }},
      {"region of another association",
       [](Bench& b, SendWr& w) {
         w.region =
             b.engine.register_memory(b.pd, b.memory.data(), 64, kAllRights, AssociationId(9))->id;
       }},
  };
  for (const Case& c : cases) {
    print_message("# %s\n", c.what);
    Bench b;
    const auto window = b.engine.alloc_window(b.pd).value();
    const Rkey rkey = b.engine.fresh_rkey(window.id).value();
    SendWr w = b.bind_wr(window, 0, 64, rkey, Access::kRemoteWrite);
    c.change(b, w);
    b.post(w);
    b.expect_nothing();
    b.expect_completion(77, CompletionStatus::kWindowBind);
    assert_eq(b.state(), verbs::QpState::kError);
    assert_true(b.engine.window_status(window.id)->state == verbs::WindowStatus::State::kFree);
  }
}

void a_window_is_bound_again_with_a_new_key_only(void**) {
  Bench b;
  Rkey first;
  const auto window = b.bound_window(0, 64, first);
  assert_ok(b.engine.fresh_rkey(window.id));
  SendWr w;
  w.wr_id = 5;
  w.opcode = WrOpcode::kLocalInvalidate;
  w.invalidate_rkey = first;
  b.post(w);
  b.post(w);  // dead already: no error
  b.expect_nothing();
  b.expect_completion(5, CompletionStatus::kSuccess);
  b.expect_completion(5, CompletionStatus::kSuccess);
  const Rkey second = b.engine.fresh_rkey(window.id).value();
  assert_true(first != second);
  b.post(b.bind_wr(window, 64, 64, second, Access::kRemoteWrite));
  b.expect_nothing();
  b.expect_completion(77, CompletionStatus::kSuccess);
  const auto status = b.engine.window_status(window.id).value();
  assert_true(status.rkey == second && status.contiguous_bytes == 0 && !status.by_peer);
  b.post(b.bind_wr(window, 0, 64, first, Access::kRemoteWrite));
  b.expect_nothing();
  b.expect_completion(77, CompletionStatus::kWindowBind);
}

void registration_is_checked(void**) {
  Bench b;
  auto& e = b.engine;
  auto* p = b.memory.data();
  assert_error(e.register_memory(b.pd, nullptr, 8, kAllRights, kClear), Error::kInvalidArgument);
  assert_error(e.register_memory(b.pd, p, 0, kAllRights, kClear), Error::kInvalidArgument);
  assert_error(e.register_memory(b.pd, p, ~std::size_t{0}, kAllRights, kClear),
               Error::kInvalidArgument);
  assert_error(e.register_memory(b.pd, p, 8, Access::kRemoteWrite, kClear),
               Error::kInvalidArgument);
  assert_error(e.register_memory(verbs::PdId(0), p, 8, kAllRights, kClear), Error::kNotFound);
  assert_true(e.register_memory(b.pd, p, 8, Access::kLocalWrite, kClear)->rkey == Rkey(0));
  assert_error(e.retire_window(e.alloc_window(b.pd)->id), Error::kInvalidState);
  assert_error(e.window_status(verbs::MwId(77)), Error::kNotFound);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(origin_of_packets),
      cmocka_unit_test(B20_partition_keys),
      cmocka_unit_test(B18_mig_req_of_either_kind),
      cmocka_unit_test(packets_for_nobody),
      cmocka_unit_test(states_that_do_not_receive),
      cmocka_unit_test(attributes_are_checked),
      cmocka_unit_test(objects_in_use_stay),
      cmocka_unit_test(tables_have_limits),
      cmocka_unit_test(an_association_that_dies_takes_its_qps),
      cmocka_unit_test(destroying_a_busy_qp_leaves_nothing),
      cmocka_unit_test(an_empty_pool_is_waited_for),
      cmocka_unit_test(queue_pairs_take_turns),
      cmocka_unit_test(local_operations_keep_order),
      cmocka_unit_test(binds_that_are_refused),
      cmocka_unit_test(a_window_is_bound_again_with_a_new_key_only),
      cmocka_unit_test(registration_is_checked),
  };
  return cmocka_run_group_tests_name("roce_engine", tests, nullptr, nullptr);
}
