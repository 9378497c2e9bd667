#include "roce/cm/manager.h"

#include "roce/cm/test_pair.h"

#include "test/test_support.h"

namespace h4a::roce::cm {
namespace {

using net::CmMessageKind;
using net::CmRejectReason;
using test::g_pair;
using test::host_address;
using test::Pair;
using Type = verbs::CmEvent::Type;

/// The Starting PSN of a REQ or REP is where its receiver begins to send (IBA vol. 1 §12.7.31), as Linux has it.
void starting_psns_are_the_receivers(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  assert_ok(p.a.connect(Pair::connect_options(), p.now));
  const Output req = p.take(true).at(0);
  static_cast<void>(p.deliver(true, req));
  const auto request = Pair::events(p.b).at(0);
  verbs::CmAcceptOptions accept;
  accept.qp = Pair::qp(0x200);
  const QpSettings passive = *p.b.settings(request.id, accept.qp);
  assert_ok(p.b.accept(request.id, accept, p.now));
  const Output rep = p.take(false).at(0);
  static_cast<void>(p.deliver(false, rep));
  const QpSettings& active = p.replied_settings;
  const Psn in_req = std::get<net::CmReq>(net::parse_cm(req.mad)->message).starting_psn;
  const Psn in_rep = std::get<net::CmRep>(net::parse_cm(rep.mad)->message).starting_psn;
  assert_eq(passive.rts.sq_psn, in_req);
  assert_eq(active.rtr.rq_psn, in_req);
  assert_eq(active.rts.sq_psn, in_rep);
  assert_eq(passive.rtr.rq_psn, in_rep);
}

void handshake_derives_both_queue_pairs(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  auto o = Pair::connect_options();
  o.qp.responder_resources = 3;
  o.qp.initiator_depth = 5;
  o.qp.rnr_retry = 6;
  o.retry_count = 4;
  o.path_mtu = 2048;
  const std::uint8_t hello[] = {'h', 'i'};
  o.private_data = hello;
  const auto a = p.a.connect(o, p.now);
  assert_ok(a);
  p.settle();
  const auto request = Pair::events(p.b).at(0);
  assert_eq(request.type, Type::kConnectRequest);
  assert_eq(request.remote_address, host_address(0));
  assert_int_equal(request.private_data.size, verbs::kCmConnectPrivateMax);
  assert_memory_equal(request.private_data.bytes.data(), hello, 2);
  assert_int_equal(request.responder_resources, 5);  // what it wants to send
  assert_int_equal(request.initiator_depth, 3);      // what it serves
  assert_true(request.remote_port >= 0xc000);

  verbs::CmAcceptOptions accept;
  accept.qp = Pair::qp(0x200);
  accept.qp.responder_resources = 4;
  accept.qp.initiator_depth = 2;
  accept.qp.rnr_retry = 5;
  const auto passive = p.b.settings(request.id, accept.qp);
  assert_ok(passive);
  assert_ok(p.b.accept(request.id, accept, p.now));
  p.settle();
  const auto established = Pair::events(p.a).at(0);
  assert_eq(established.type, Type::kEstablished);
  assert_string_equal(Pair::event_names(p.b).c_str(), "established ");

  const QpSettings& active = p.replied_settings;
  assert_eq(active.qpn, Qpn(0x100));
  assert_eq(active.rtr.remote_qpn, Qpn(0x200));
  assert_eq(passive->rtr.remote_qpn, Qpn(0x100));
  assert_eq(active.rtr.rq_psn, passive->rts.sq_psn);
  assert_eq(passive->rtr.rq_psn, active.rts.sq_psn);
  assert_int_equal(active.rtr.path_mtu, 2048);
  assert_int_equal(passive->rtr.path_mtu, 2048);
  assert_int_equal(active.rtr.max_dest_rd_atomic, 2);
  assert_int_equal(passive->rts.max_rd_atomic, 2);
  assert_int_equal(active.rts.max_rd_atomic, 4);
  assert_int_equal(passive->rtr.max_dest_rd_atomic, 4);
  assert_int_equal(passive->rts.rnr_retry, 6);  // each does what the other wishes
  assert_int_equal(active.rts.rnr_retry, 5);
  assert_int_equal(passive->rts.retry_count, 4);
  assert_int_equal(active.rts.retry_count, 4);
  assert_int_equal(passive->rts.timeout, 15);
  assert_int_equal(active.rts.timeout, 15);
  assert_eq(active.rtr.local_address, host_address(0));
  assert_eq(passive->rtr.remote_address, host_address(0));
}

void disconnect_reaches_both_and_is_forgotten(void**) {
  Pair& p = *g_pair;
  p.establish();
  const std::uint8_t bye[] = {7};
  assert_ok(p.a.disconnect(p.id_a, bye, p.now));
  p.settle();
  assert_string_equal(Pair::event_names(p.a).c_str(), "disconnected ");
  const auto at_b = Pair::events(p.b).at(0);
  assert_eq(at_b.type, Type::kDisconnected);
  assert_int_equal(at_b.private_data.bytes[0], 7);
  assert_int_equal(at_b.private_data.size, verbs::kCmDisconnectPrivateMax);
  assert_ok(p.a.destroy(p.id_a, p.now));
  assert_ok(p.b.destroy(p.id_b, p.now));
  assert_error(p.a.destroy(p.id_a, p.now), Error::kNotFound);
  assert_int_equal(p.a.connections(), 1);  // time-wait
  p.run(Duration::s(5));
  assert_int_equal(p.a.connections(), 0);
  assert_int_equal(p.b.connections(), 0);
}

void simultaneous_disconnect(void**) {
  Pair& p = *g_pair;
  p.establish();
  assert_ok(p.a.disconnect(p.id_a, {}, p.now));
  assert_ok(p.b.disconnect(p.id_b, {}, p.now));
  p.settle();
  assert_string_equal(Pair::event_names(p.a).c_str(), "disconnected ");
  assert_string_equal(Pair::event_names(p.b).c_str(), "disconnected ");
  assert_eq(*p.a.state(p.id_a), State::kTimeWait);
  assert_eq(*p.b.state(p.id_b), State::kTimeWait);
}

struct RefusalRow {
  const char* what;
  void (*change)(Pair&, verbs::CmListenOptions&, verbs::CmConnectOptions&);
  verbs::CmReason expected;
};

void refusals_have_their_reasons(void**) {
  using verbs::CmReason;
  const RefusalRow rows[] = {
      {"nobody listens", [](Pair&, auto& l, auto&) { l.port = 9; }, CmReason::kNobodyListens},
      {"another address", [](Pair&, auto& l, auto&) { l.local_address = host_address(8); },
       CmReason::kNobodyListens},
      {"datagram service", [](Pair&, auto& l, auto&) { l.type = verbs::QpType::kUd; },
       CmReason::kNobodyListens},
      {"UC listener", [](Pair&, auto& l, auto&) { l.type = verbs::QpType::kUc; },
       CmReason::kWrongType},
      {"UC request", [](Pair&, auto&, auto& c) { c.type = verbs::QpType::kUc; },
       CmReason::kWrongType},
      {"path MTU", [](Pair& p, auto&, auto&) { p.max_path_mtu = 512; }, CmReason::kMtu},
      {"clear request", [](Pair&, auto& l, auto&) { l.protected_only = true; }, CmReason{5}},
  };
  for (const auto& row : rows) {
    Pair p;
    auto listen = Pair::listen_options();
    auto connect = Pair::connect_options();
    row.change(p, listen, connect);
    assert_ok(p.b.listen(listen));
    const auto id = p.a.connect(connect, p.now);
    assert_ok(id);
    p.settle();
    const auto events = Pair::events(p.a);
    if (events.size() != 1 || events[0].type != Type::kRejected || events[0].reason != row.expected)
      fail_msg("%s: %zu events, reason %u", row.what, events.size(),
               static_cast<unsigned>(events.empty() ? CmReason::kNone : events[0].reason));
    assert_int_equal(p.b.connections(), 0);
    assert_true(p.b.drops()[Drop::kCmRefused] == 1);
    assert_ok(p.a.destroy(*id, p.now));
    assert_int_equal(p.a.connections(), 0);
  }
}

void mtu_refusal_tells_the_largest(void**) {
  Pair& p = *g_pair;
  p.max_path_mtu = 512;
  assert_ok(p.b.listen(Pair::listen_options()));
  assert_ok(p.a.connect(Pair::connect_options(), p.now));
  assert_eq(p.deliver(true, p.take(true).at(0)).drop, Drop::kCmRefused);
  const auto rej = Pair::as<net::CmRej>(p.take(false).at(0));
  assert_int_equal(rej.info_length, 1);
  assert_int_equal(rej.info[0], 2);
}

void application_refuses(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  assert_ok(p.a.connect(Pair::connect_options(), p.now));
  const auto req = p.take(true).at(0);
  p.deliver(true, req);
  const auto id = Pair::events(p.b).at(0).id;
  const std::uint8_t why[] = {'n', 'o'};
  assert_ok(p.b.reject(id, why, p.now));
  assert_error(p.b.accept(id, {}, p.now), Error::kInvalidState);
  p.take(false);         // the REJ is lost,
  p.deliver(true, req);  // the REQ comes again,
  p.settle();            // and so does the REJ
  const auto e = Pair::events(p.a).at(0);
  assert_eq(e.type, Type::kRejected);
  assert_eq(e.reason, verbs::CmReason::kRefused);
  assert_memory_equal(e.private_data.bytes.data(), why, 2);
  assert_true(Pair::events(p.b).empty());
}

void repeated_messages_are_answered_again(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  const auto a = p.a.connect(Pair::connect_options(), p.now);
  const auto req = p.take(true).at(0);
  assert_eq(p.deliver(true, req).drop, Drop::kNone);
  assert_eq(p.deliver(true, req).drop, Drop::kCmDuplicate);
  const auto mra = p.take(false);
  assert_int_equal(mra.size(), 1);
  assert_eq(Pair::as<net::CmMra>(mra[0]).message, CmMessageKind::kReq);
  assert_eq(p.deliver(false, mra[0]).drop, Drop::kNone);
  assert_true(p.a.next_deadline() > p.now + Duration::s(8));  // waits for the application

  const auto b = Pair::events(p.b).at(0).id;
  verbs::CmAcceptOptions accept;
  accept.qp = Pair::qp(0x200);
  assert_ok(p.b.accept(b, accept, p.now));
  const auto rep = p.take(false).at(0);
  p.deliver(true, req);
  assert_true(p.take(false).at(0).mad == rep.mad);
  p.deliver(false, rep);
  const auto rtu = p.take(true).at(0);
  assert_eq(p.deliver(false, rep).drop, Drop::kCmDuplicate);
  assert_true(p.take(true).at(0).mad == rtu.mad);
  p.deliver(true, rtu);
  assert_eq(p.deliver(true, rtu).drop, Drop::kCmDuplicate);
  assert_eq(p.deliver(true, req).drop, Drop::kCmDuplicate);  // late
  assert_true(p.take(false).empty());

  assert_ok(p.a.disconnect(*a, {}, p.now));
  const auto dreq = p.take(true).at(0);
  p.deliver(true, dreq);
  assert_eq(p.deliver(true, dreq).drop, Drop::kCmDuplicate);
  assert_int_equal(p.take(false).size(), 2);               // two DREPs
  assert_eq(p.deliver(true, req).drop, Drop::kCmRefused);  // very late: stale
  assert_eq(Pair::as<net::CmRej>(p.take(false).at(0)).reason, CmRejectReason::kStaleConnection);
  assert_string_equal(Pair::event_names(p.b).c_str(), "established disconnected ");
}

void no_answer_is_unreachable_after_all_retries(void**) {
  Pair& p = *g_pair;
  const auto id = p.a.connect(Pair::connect_options(), p.now);
  std::size_t reqs = p.take(true).size();
  const Instant begin = p.now;
  std::vector<Output> last;
  while (!p.a.next_deadline().is_never()) {
    p.now = p.a.next_deadline();
    p.a.run_timers(p.now);
    last = p.take(true);
    reqs += last.size();
  }
  assert_int_equal(reqs, 1 + 15 + 1);  // the last one is a REJ
  assert_eq(Pair::as<net::CmRej>(last.at(0)).reason, CmRejectReason::kTimeout);
  assert_true(p.now - begin < Duration::s(12));
  const auto e = Pair::events(p.a).at(0);
  assert_eq(e.type, Type::kUnreachable);
  assert_eq(e.reason, verbs::CmReason::kTimeout);
  assert_ok(p.a.destroy(*id, p.now));
  assert_int_equal(p.a.connections(), 0);
}

void peer_gives_up_before_accept(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  const auto a = p.a.connect(Pair::connect_options(), p.now);
  p.settle();
  assert_ok(p.a.destroy(*a, p.now));
  assert_int_equal(p.a.connections(), 0);
  p.settle();  // REJ without an ID of ours
  const auto events = Pair::events(p.b);
  assert_int_equal(events.size(), 2);
  assert_eq(events[1].type, Type::kRejected);
  assert_error(p.b.accept(events[0].id, {.qp = Pair::qp(0x200), .private_data = {}}, p.now),
               Error::kInvalidState);
  assert_ok(p.b.destroy(events[0].id, p.now));
  assert_int_equal(p.b.connections(), 0);
}

void lost_rtu_is_made_up_for(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  const auto a = p.a.connect(Pair::connect_options(), p.now);
  p.settle();
  const auto b = Pair::events(p.b).at(0).id;
  assert_ok(p.b.accept(b, {.qp = Pair::qp(0x200), .private_data = {}}, p.now));
  p.deliver(false, p.take(false).at(0));
  p.take(true);  // the RTU is lost
  assert_eq(*p.b.state(b), State::kRepSent);
  p.run(Duration::s(2));  // the REP comes again, and so does the RTU
  assert_eq(*p.b.state(b), State::kEstablished);
  assert_eq(*p.a.state(*a), State::kEstablished);
}

void dreq_in_place_of_rtu(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  const auto a = p.a.connect(Pair::connect_options(), p.now);
  p.settle();
  const auto b = Pair::events(p.b).at(0).id;
  assert_ok(p.b.accept(b, {.qp = Pair::qp(0x200), .private_data = {}}, p.now));
  p.deliver(false, p.take(false).at(0));
  p.take(true);
  assert_ok(p.a.disconnect(*a, {}, p.now));
  p.settle();
  assert_string_equal(Pair::event_names(p.b).c_str(), "established disconnected ");
  assert_string_equal(Pair::event_names(p.a).c_str(), "established disconnected ");
}

void stale_connection_ends_both(void**) {
  Pair& p = *g_pair;
  p.establish();
  // The peer's process died and a new one got its queue pair again.
  Pair reborn;
  reborn.random = SeededRandom(99);
  Manager a2({}, reborn.random);
  const auto id = a2.connect(Pair::connect_options(), p.now);
  assert_ok(id);
  Output req;
  assert_true(a2.next_output(req));
  assert_eq(p.deliver(true, req).drop, Drop::kCmRefused);
  const auto out = p.take(false);
  assert_int_equal(out.size(), 2);
  assert_eq(Pair::as<net::CmDreq>(out[0]).remote_qpn, Qpn(0x100));
  assert_eq(Pair::as<net::CmRej>(out[1]).reason, CmRejectReason::kStaleConnection);
  const auto e = Pair::events(p.b).at(0);
  assert_eq(e.type, Type::kDisconnected);
  assert_eq(e.reason, verbs::CmReason::kStale);
}

}  // namespace
}  // namespace h4a::roce::cm

int main() {
  using namespace h4a::roce::cm;
  const CMUnitTest tests[] = {
      CM_TEST(starting_psns_are_the_receivers),
      CM_TEST(handshake_derives_both_queue_pairs),
      CM_TEST(disconnect_reaches_both_and_is_forgotten),
      CM_TEST(simultaneous_disconnect),
      CM_TEST(refusals_have_their_reasons),
      CM_TEST(mtu_refusal_tells_the_largest),
      CM_TEST(application_refuses),
      CM_TEST(repeated_messages_are_answered_again),
      CM_TEST(no_answer_is_unreachable_after_all_retries),
      CM_TEST(peer_gives_up_before_accept),
      CM_TEST(lost_rtu_is_made_up_for),
      CM_TEST(dreq_in_place_of_rtu),
      CM_TEST(stale_connection_ends_both),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
