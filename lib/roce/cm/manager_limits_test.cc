// What peers may not do, limits, datagram services, and arguments.
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

void unmatched_messages(void**) {
  Pair& p = *g_pair;
  p.establish();
  const auto deliver = [&](const net::CmMessage& m) {
    Output o{{host_address(0), host_address(1), kClear}, {}};
    net::build_cm({5, 0, m}, o.mad);
    return p.deliver(true, o).drop;
  };
  assert_eq(deliver(net::CmDreq{1, 2, Qpn(3), {}}), Drop::kCmUnmatched);
  const auto drep = Pair::as<net::CmDrep>(p.take(false).at(0));
  assert_int_equal(drep.local_comm_id, 2);
  assert_int_equal(drep.remote_comm_id, 1);
  net::CmRep rep;
  rep.local_comm_id = 1;
  rep.remote_comm_id = 2;
  rep.local_qpn = Qpn(3);
  assert_eq(deliver(rep), Drop::kCmUnmatched);
  assert_eq(Pair::as<net::CmRej>(p.take(false).at(0)).reason, CmRejectReason::kInvalidCommId);
  assert_eq(deliver(net::CmRtu{1, 2, {}}), Drop::kCmUnmatched);
  assert_eq(deliver(net::CmDrep{1, 2, {}}), Drop::kCmUnmatched);
  net::CmRej rej;
  rej.local_comm_id = 1;
  rej.remote_comm_id = 2;
  assert_eq(deliver(rej), Drop::kCmUnmatched);
  assert_eq(deliver(net::CmMra{1, 2, CmMessageKind::kReq, 31, {}}), Drop::kCmUnmatched);
  assert_eq(deliver(net::CmLap{1, 2, Qpn(3)}), Drop::kCmUnmatched);
  assert_eq(deliver(net::CmApr{}), Drop::kCmUnexpected);
  net::CmSidrRep sidr;
  sidr.request_id = 2;
  assert_eq(deliver(sidr), Drop::kCmUnmatched);
  assert_true(p.take(false).empty());
}

void others_cannot_end_a_connection(void**) {
  Pair& p = *g_pair;
  p.establish();
  assert_ok(p.a.disconnect(p.id_a, {}, p.now));
  const Output dreq = p.take(true).at(0);
  Output bad = dreq;
  bad.peer.local = host_address(7);  // right IDs, another host
  assert_eq(p.deliver(true, bad).drop, Drop::kCmWrongPeer);
  bad = dreq;
  bad.peer.association = AssociationId(9);  // another association
  assert_eq(p.deliver(true, bad).drop, Drop::kCmWrongPeer);
  auto m = Pair::as<net::CmDreq>(dreq);
  m.remote_qpn = Qpn(0x201);
  bad = dreq;
  net::build_cm({1, 0, m}, bad.mad);
  assert_eq(p.deliver(true, bad).drop, Drop::kBadCmMessage);
  assert_eq(*p.b.state(p.id_b), State::kEstablished);
  assert_true(p.take(false).empty());
}

void addresses_in_a_request_are_those_of_its_packet(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  assert_ok(p.a.connect(Pair::connect_options(), p.now));
  const Output req = p.take(true).at(0);
  const auto with = [&](auto change) {
    auto m = Pair::as<net::CmReq>(req);
    change(m);
    Output o = req;
    net::build_cm({1, 0, m}, o.mad);
    return p.deliver(true, o).drop;
  };
  assert_eq(with([](net::CmReq& m) { m.primary.local_gid = host_address(5); }), Drop::kCmWrongPeer);
  assert_eq(with([](net::CmReq& m) { m.primary.remote_gid = host_address(5); }),
            Drop::kCmWrongPeer);
  assert_eq(with([](net::CmReq& m) { m.private_data[19] = 5; }), Drop::kCmWrongPeer);
  assert_eq(with([](net::CmReq& m) { m.private_data[35] = 5; }), Drop::kCmWrongPeer);
  assert_eq(with([](net::CmReq& m) { m.private_data[1] = 0x50; }), Drop::kBadCmMessage);
  assert_eq(with([](net::CmReq& m) { m.local_comm_id = 0; }), Drop::kBadCmMessage);
  assert_eq(with([](net::CmReq& m) { m.local_qpn = Qpn(1); }), Drop::kBadCmMessage);
  assert_eq(with([](net::CmReq& m) { m.local_qpn = Qpn(0xffffff); }), Drop::kBadCmMessage);
  Output spoofed = req;
  spoofed.peer.local = IpAddress::v4(224, 0, 0, 1);
  assert_eq(p.deliver(true, spoofed).drop, Drop::kBadAddress);
  assert_true(p.take(false).empty());
  assert_int_equal(p.b.connections(), 0);
}

void association_binds_the_connection(void**) {
  Pair& p = *g_pair;
  auto listen = Pair::listen_options();
  listen.protected_only = true;
  assert_ok(p.b.listen(listen));
  auto o = Pair::connect_options();
  o.association = AssociationId(4);
  assert_ok(p.a.connect(o, p.now));
  p.settle();
  const auto e = Pair::events(p.b).at(0);
  assert_eq(e.association, AssociationId(4));
  assert_eq(p.b.settings(e.id, Pair::qp(0x200))->rtr.association, AssociationId(4));
}

void backlog_is_bounded(void**) {
  Pair& p = *g_pair;
  auto listen = Pair::listen_options();
  listen.backlog = 4;
  const auto listener = p.b.listen(listen);
  assert_ok(listener);
  for (std::uint32_t i = 0; i < 4; ++i) {
    auto o = Pair::connect_options();
    o.qp = Pair::qp(0x100 + i);
    assert_ok(p.a.connect(o, p.now));
  }
  p.settle();
  assert_int_equal(p.b.half_open(*listener), 2);  // half of it, from one address
  const auto events = Pair::events(p.a);
  assert_int_equal(events.size(), 2);
  assert_eq(events[0].reason, verbs::CmReason::kNoResources);
  for (const auto& e : Pair::events(p.b)) assert_ok(p.b.destroy(e.id, p.now));
  assert_int_equal(p.b.half_open(*listener), 0);
}

void a_full_table_refuses(void**) {
  Options options;
  options.connection_max = 2;
  Pair p(options);
  assert_ok(p.b.listen(Pair::listen_options()));
  const Options big;
  Manager many(big, p.random);
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto o = Pair::connect_options();
    o.qp = Pair::qp(0x100 + i);
    assert_ok(many.connect(o, p.now));
    Output out;
    assert_true(many.next_output(out));
    assert_eq(p.deliver(true, out).drop, i < 2 ? Drop::kNone : Drop::kCmRefused);
  }
  assert_error(p.b.connect(Pair::connect_options(), p.now), Error::kNoMemory);
}

void datagram_service_is_resolved(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options(verbs::QpType::kUd)));
  const auto a = p.a.connect(Pair::connect_options(verbs::QpType::kUd), p.now);
  assert_ok(a);
  const auto req = p.take(true).at(0);
  p.deliver(true, req);
  assert_eq(p.deliver(true, req).drop, Drop::kCmDuplicate);
  const auto e = Pair::events(p.b).at(0);
  assert_eq(e.qp_type, verbs::QpType::kUd);
  const std::uint8_t data[] = {1, 2, 3};
  assert_ok(p.b.accept(e.id, {.qp = Pair::qp(0x2e), .private_data = data}, p.now));
  p.take(false);  // lost
  p.deliver(true, req);
  p.settle();
  const auto done = Pair::events(p.a).at(0);
  assert_eq(done.type, Type::kEstablished);
  assert_eq(done.remote_qpn, Qpn(0x2e));
  assert_int_equal(done.remote_qkey, verbs::kCmDefaultQkey);
  assert_memory_equal(done.private_data.bytes.data(), data, 3);
  assert_ok(p.a.destroy(*a, p.now));
  assert_ok(p.b.destroy(e.id, p.now));
  p.run(Duration::s(5));
  assert_int_equal(p.a.connections() + p.b.connections(), 0);
}

void datagram_service_refusals(void**) {
  Pair& p = *g_pair;
  const auto o = Pair::connect_options(verbs::QpType::kUd);
  assert_ok(p.a.connect(o, p.now));
  p.settle();
  assert_eq(Pair::events(p.a).at(0).reason, verbs::CmReason::kNoUdService);
  assert_ok(p.b.listen(Pair::listen_options(verbs::QpType::kUd)));
  assert_ok(p.a.connect(o, p.now));
  p.settle();
  assert_ok(p.b.reject(Pair::events(p.b).at(0).id, {}, p.now));
  p.settle();
  assert_eq(Pair::events(p.a).at(0).reason, verbs::CmReason::kUdRefused);
}

void alternate_paths_are_declined(void**) {
  Pair& p = *g_pair;
  p.establish();
  net::CmLap lap;
  assert_ok(p.a.disconnect(p.id_a, {}, p.now));
  const auto dreq = Pair::as<net::CmDreq>(p.take(true).at(0));
  lap.local_comm_id = dreq.local_comm_id;
  lap.remote_comm_id = dreq.remote_comm_id;
  Output o{{host_address(0), host_address(1), kClear}, {}};
  net::build_cm({77, 0, lap}, o.mad);
  assert_eq(p.deliver(true, o).drop, Drop::kCmRefused);
  const auto answer = p.take(false).at(0);
  assert_int_equal(Pair::as<net::CmApr>(answer).status, net::kAprUnsupported);
  assert_true(net::parse_cm(answer.mad)->transaction_id == 77);
  assert_eq(*p.b.state(p.id_b), State::kEstablished);
}

/// What a peer asks for beyond reason is cut down, and ECE's bits change nothing.
void excessive_wishes_are_cut(void**) {
  Pair& p = *g_pair;
  assert_ok(p.b.listen(Pair::listen_options()));
  assert_ok(p.a.connect(Pair::connect_options(), p.now));
  Output o = p.take(true).at(0);
  auto m = Pair::as<net::CmReq>(o);
  m.responder_resources = m.initiator_depth = 255;
  m.primary.local_ack_timeout = 31;
  m.local_cm_timeout = 31;
  m.ece_vendor = 0x15b3;
  m.flow_control = m.srq = true;
  m.primary.traffic_class = 0xb7;
  m.primary.hop_limit = 0;
  m.alternate.local_gid = host_address(9);
  net::build_cm({1, 0x1234, m}, o.mad);
  assert_eq(p.deliver(true, o).drop, Drop::kNone);
  const auto id = Pair::events(p.b).at(0).id;
  auto s = *p.b.settings(id, Pair::qp(0x200));
  assert_int_equal(s.rtr.max_dest_rd_atomic, 16);
  assert_int_equal(s.rts.max_rd_atomic, 16);
  assert_int_equal(s.rts.timeout, 22);
  assert_int_equal(s.rtr.traffic_class, 0xb4);
  assert_int_equal(s.rtr.hop_limit, 64);
  assert_ok(p.b.accept(id, {.qp = Pair::qp(0x200), .private_data = {}}, p.now));
  assert_true(p.b.next_deadline() < p.now + Duration::s(2));
  const auto rep = Pair::as<net::CmRep>(p.take(false).at(0));
  assert_int_equal(rep.ece_vendor_high | rep.ece_vendor_middle | rep.ece_vendor_low, 0);
  assert_int_equal(rep.failover, 1);
  // "For ever" would leave our requester without a time-out.
  auto again = m;
  again.local_comm_id ^= 1;
  again.local_qpn = Qpn(0x101);
  again.primary.local_ack_timeout = 0;
  net::build_cm({2, 0, again}, o.mad);
  assert_eq(p.deliver(true, o).drop, Drop::kNone);
  s = *p.b.settings(Pair::events(p.b).at(0).id, Pair::qp(0x201));
  assert_int_equal(s.rts.timeout, 15);
}

void arguments_are_checked(void**) {
  Pair& p = *g_pair;
  assert_ok(p.a.listen(Pair::listen_options()));
  assert_error(p.a.listen(Pair::listen_options()), Error::kExists);
  auto specific = Pair::listen_options();
  specific.local_address = host_address(0);
  assert_error(p.a.listen(specific), Error::kExists);
  assert_ok(p.a.listen(Pair::listen_options(verbs::QpType::kUd)));  // a port space of its own
  specific.port = 0;
  assert_error(p.a.listen(specific), Error::kInvalidArgument);
  const std::vector<std::uint8_t> big(57);
  const auto bad = [&](auto change) {
    auto o = Pair::connect_options();
    change(o);
    assert_error(p.a.connect(o, p.now), Error::kInvalidArgument);
  };
  bad([](auto& o) { o.port = 0; });
  bad([](auto& o) { o.path_mtu = 1500; });
  bad([](auto& o) { o.retry_count = 8; });
  bad([](auto& o) { o.qp.qpn = Qpn(1); });
  bad([](auto& o) { o.qp.rnr_retry = 8; });
  bad([](auto& o) { o.qp.initiator_depth = 17; });
  bad([](auto& o) { o.remote_address = *IpAddress::parse("fd77::1"); });
  bad([](auto& o) { o.remote_address = IpAddress::v4(224, 0, 0, 1); });
  bad([&](auto& o) { o.private_data = big; });
  assert_int_equal(p.a.connections(), 0);
  assert_error(p.a.accept(verbs::CmId(77), {}, p.now), Error::kNotFound);
  assert_error(p.a.stop_listening(verbs::CmListenerId(77)), Error::kNotFound);
}

}  // namespace
}  // namespace h4a::roce::cm

int main() {
  using namespace h4a::roce::cm;
  const CMUnitTest tests[] = {
      CM_TEST(unmatched_messages),
      CM_TEST(others_cannot_end_a_connection),
      CM_TEST(addresses_in_a_request_are_those_of_its_packet),
      CM_TEST(association_binds_the_connection),
      CM_TEST(backlog_is_bounded),
      CM_TEST(a_full_table_refuses),
      CM_TEST(datagram_service_is_resolved),
      CM_TEST(datagram_service_refusals),
      CM_TEST(alternate_paths_are_declined),
      CM_TEST(excessive_wishes_are_cut),
      CM_TEST(arguments_are_checked),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
