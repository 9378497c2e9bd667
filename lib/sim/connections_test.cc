// Connections by the connection manager between two real stacks over a simulated link.
#include <cstring>
#include <memory>

#include "sim/world.h"
#include "stack/cm_service.h"

#include "test/test_support.h"

namespace h4a::stack {
namespace {

using Type = verbs::CmEvent::Type;

/// A host of the world with a connection manager, and one queue pair with memory.
struct Side {
  std::unique_ptr<CmService> cm;
  verbs::PdId pd;
  verbs::CqId cq;
  Qpn qpn;
  verbs::MemoryRegion region;
  std::array<std::uint8_t, 4096> memory{};
  std::vector<verbs::CmEvent> events;
  std::vector<verbs::Completion> completions;
};

class Net {
 public:
  explicit Net(const sim::WorldOptions& options = {}) : world(options) {
    for (std::size_t i = 0; i < 2; ++i) {
      auto made = CmService::create(world.host(i), world.random());
      assert_ok(made);
      side[i].cm = std::move(*made);
      side[i].cm->poll(world.now());
    }
    world.set_application([this](Instant now) { return turn(now); });
  }
  void make_qp(std::size_t i, verbs::QpType type = verbs::QpType::kRc, std::uint32_t qkey = 0) {
    stack::Stack& host = world.host(i);
    Side& s = side[i];
    s.pd = *host.alloc_pd();
    s.cq = *host.create_cq(64);
    verbs::QpOptions o;
    o.type = type;
    o.pd = s.pd;
    o.send_cq = o.recv_cq = s.cq;
    s.qpn = *host.create_qp(o);
    verbs::InitAttributes init;
    init.qkey = qkey;
    assert_ok(host.to_init(s.qpn, init));
    s.region = *host.register_memory(s.pd, s.memory.data(), s.memory.size(),
                                     verbs::Access::kLocalWrite, kClear);
    verbs::RecvWr recv;
    recv.sge_count = 1;
    recv.sges[0] = {reinterpret_cast<std::uintptr_t>(s.memory.data()), 2048, s.region.lkey};
    assert_ok(host.post_recv(s.qpn, {&recv, 1}));
  }
  verbs::SendWr send_wr(std::size_t i, std::string_view text) {
    Side& s = side[i];
    std::memcpy(s.memory.data() + 2048, text.data(), text.size());
    verbs::SendWr wr;
    wr.sge_count = 1;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.memory.data() + 2048),
                  static_cast<std::uint32_t>(text.size()), s.region.lkey};
    return wr;
  }
  verbs::CmConnectOptions connect_options(AssociationId association = kClear) {
    verbs::CmConnectOptions o;
    o.remote_address = world.address(1);
    o.port = 5000;
    o.association = association;
    o.qp.qpn = side[0].qpn;
    return o;
  }
  verbs::CmListenOptions listen_options() {
    verbs::CmListenOptions o;
    o.port = 5000;
    return o;
  }
  [[nodiscard]] bool run_until_events(std::size_t i, std::size_t count) {
    return world.run_until([&] { return side[i].events.size() >= count; }, Duration::s(60));
  }
  /// A request at host 1, accepted with its queue pair; both established.
  void establish(AssociationId association = kClear) {
    make_qp(0);
    make_qp(1);
    assert_ok(side[1].cm->listen(listen_options()));
    const auto id = side[0].cm->connect(connect_options(association));
    assert_ok(id);
    assert_true(run_until_events(1, 1));
    assert_eq(side[1].events[0].type, Type::kConnectRequest);
    assert_ok(
        side[1].cm->accept(side[1].events[0].id, {.qp = {.qpn = side[1].qpn}, .private_data = {}}));
    assert_true(run_until_events(0, 1) && run_until_events(1, 2));
    assert_eq(side[0].events[0].type, Type::kEstablished);
    assert_eq(side[1].events[1].type, Type::kEstablished);
  }
  /// A SEND each way arrives intact.
  void exchange() {
    for (std::size_t i = 0; i < 2; ++i) {
      const verbs::SendWr wr = send_wr(i, i == 0 ? "from zero" : "from one");
      assert_ok(world.host(i).post_send(side[i].qpn, {&wr, 1}));
    }
    assert_true(world.run_until(
        [&] { return side[0].completions.size() >= 2 && side[1].completions.size() >= 2; },
        Duration::s(60)));
    for (const Side& s : side)
      for (const auto& c : s.completions) assert_eq(c.status, verbs::CompletionStatus::kSuccess);
    assert_memory_equal(side[1].memory.data(), "from zero", 9);
    assert_memory_equal(side[0].memory.data(), "from one", 8);
  }

  sim::World world;
  Side side[2];

 private:
  Instant turn(Instant now) {
    Instant next = Instant::never();
    for (std::size_t i = 0; i < 2; ++i) {
      Side& s = side[i];
      next = std::min(next, s.cm->poll(now));
      verbs::CmEvent e;
      while (s.cm->poll_event(e)) s.events.push_back(e);
      verbs::Completion c;
      while (world.host(i).poll_cq(s.cq, {&c, 1}) == 1) s.completions.push_back(c);
    }
    return next;
  }
};

std::unique_ptr<Net> g_net;

void reset(const sim::WorldOptions& options = {}) {
  g_net.reset();
  g_net = std::make_unique<Net>(options);
}
int tear_down(void**) {
  g_net.reset();
  return 0;
}

void connects_and_disconnects(void**) {
  reset();
  Net& n = *g_net;
  n.establish();
  n.exchange();
  assert_eq(n.side[0].events[0].remote_qpn, n.side[1].qpn);
  assert_int_equal(n.side[0].events[0].path_mtu, 4096);
  assert_ok(n.side[1].cm->disconnect(n.side[1].events[0].id, {}));
  assert_true(n.run_until_events(0, 2) && n.run_until_events(1, 3));
  assert_eq(n.side[0].events[1].type, Type::kDisconnected);
  assert_eq(n.side[1].events[2].type, Type::kDisconnected);
}

void connects_over_ipv6(void**) {
  sim::WorldOptions o;
  o.ipv6 = true;
  reset(o);
  g_net->establish();
  g_net->exchange();
}

void connects_over_a_bad_link(void**) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::WorldOptions o;
    o.seed = seed;
    o.link.loss = 0.2;
    o.link.duplicate = 0.1;
    o.link.reorder = 0.1;
    o.link.corrupt = 0.05;
    reset(o);
    g_net->establish();
    g_net->exchange();
  }
}

/// Nothing of it is clear on the wire, and the queue pairs belong to the association.
void association_protects_messages_and_data(void**) {
  reset();
  Net& n = *g_net;
  bool clear = false;
  n.world.link().set_tap([&](std::size_t, Bytes frame, Instant) {
    const bool ip = frame.size() > 34 && frame[12] == 0x08 && frame[13] == 0x00;
    clear = clear || (ip && frame[23] == 17 && load_be16(frame.data() + 36) == 4791);
  });
  const sim::Protection p = sim::protect(n.world);
  n.establish(p.of_host[0]);
  assert_eq(n.side[1].events[0].association, p.of_host[1]);
  n.exchange();
  assert_false(clear);
}

void clear_request_to_a_protected_service(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0);
  auto listen = n.listen_options();
  listen.protected_only = true;
  assert_ok(n.side[1].cm->listen(listen));
  assert_ok(n.side[0].cm->connect(n.connect_options()));
  assert_true(n.run_until_events(0, 1));
  assert_eq(n.side[0].events[0].type, Type::kRejected);
}

void nobody_listens(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0);
  const auto id = n.side[0].cm->connect(n.connect_options());
  assert_ok(id);
  assert_true(n.run_until_events(0, 1));
  assert_eq(n.side[0].events[0].type, Type::kRejected);
  assert_eq(n.side[0].events[0].reason, verbs::CmReason::kNobodyListens);
  // The queue pair is as it was: it can be tried elsewhere.
  assert_eq(n.world.host(0).qp_status(n.side[0].qpn)->state, verbs::QpState::kInit);
  assert_ok(n.side[0].cm->destroy(*id));
}

void unreachable_host(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0);
  n.world.link().set_up(false);
  assert_ok(n.side[0].cm->connect(n.connect_options()));
  assert_true(n.run_until_events(0, 1));
  assert_eq(n.side[0].events[0].type, Type::kUnreachable);
  assert_true(n.world.now() < Instant::from_ns(0) + Duration::s(12));
}

/// The application gave a queue pair away that cannot be connected any more.
void queue_pair_in_the_wrong_state(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0);
  n.make_qp(1);
  assert_ok(n.side[1].cm->listen(n.listen_options()));
  assert_ok(n.side[0].cm->connect(n.connect_options()));
  assert_true(n.run_until_events(1, 1));
  assert_ok(n.world.host(0).to_error(n.side[0].qpn));
  assert_ok(n.side[1].cm->accept(n.side[1].events[0].id,
                                 {.qp = {.qpn = n.side[1].qpn}, .private_data = {}}));
  assert_true(n.run_until_events(0, 1) && n.run_until_events(1, 2));
  assert_eq(n.side[0].events[0].type, Type::kUnreachable);
  assert_eq(n.side[0].events[0].reason, verbs::CmReason::kLocalQp);
  assert_eq(n.side[1].events[1].type, Type::kRejected);
  assert_error(n.side[0].cm->connect(n.connect_options()), Error::kInvalidState);
}

void arguments_are_checked(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0);
  auto o = n.connect_options();
  o.remote_address = IpAddress::v4(192, 168, 1, 1);  // no route
  assert_error(n.side[0].cm->connect(o), Error::kInvalidArgument);
  o = n.connect_options();
  o.type = verbs::QpType::kUc;
  assert_error(n.side[0].cm->connect(o), Error::kInvalidArgument);
  o = n.connect_options();
  o.qp.qpn = Qpn(0x99);
  assert_error(n.side[0].cm->connect(o), Error::kNotFound);
  auto l = n.listen_options();
  l.local_address = IpAddress::v4(192, 168, 1, 1);
  assert_error(n.side[0].cm->listen(l), Error::kInvalidArgument);
}

void one_manager_a_device(void**) {
  reset();
  Net& n = *g_net;
  const auto second = CmService::create(n.world.host(0), n.world.random());
  assert_error(second, Error::kExists);
  n.world.set_application({});
  n.side[0].cm.reset();
  assert_ok(CmService::create(n.world.host(0), n.world.random()));
}

void datagram_service(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0, verbs::QpType::kUd, 7);
  n.make_qp(1, verbs::QpType::kUd, 7);
  verbs::RtrAttributes rtr;
  for (std::size_t i = 0; i < 2; ++i) {
    assert_ok(n.world.host(i).to_rtr(n.side[i].qpn, rtr));
    assert_ok(n.world.host(i).to_rts(n.side[i].qpn, {}));
  }
  auto listen = n.listen_options();
  listen.type = verbs::QpType::kUd;
  assert_ok(n.side[1].cm->listen(listen));
  auto connect = n.connect_options();
  connect.type = verbs::QpType::kUd;
  assert_ok(n.side[0].cm->connect(connect));
  assert_true(n.run_until_events(1, 1));
  assert_ok(n.side[1].cm->accept(n.side[1].events[0].id,
                                 {.qp = {.qpn = n.side[1].qpn, .qkey = 7}, .private_data = {}}));
  assert_true(n.run_until_events(0, 1));
  const auto& e = n.side[0].events[0];
  assert_eq(e.type, Type::kEstablished);
  assert_eq(e.remote_qpn, n.side[1].qpn);
  verbs::AhAttributes to;
  to.local_address = e.local_address;
  to.remote_address = e.remote_address;
  const auto ah = n.world.host(0).create_ah(n.side[0].pd, to);
  assert_ok(ah);
  auto wr = n.send_wr(0, "datagram");
  wr.ah = *ah;
  wr.remote_qpn = e.remote_qpn;
  wr.remote_qkey = e.remote_qkey;
  assert_ok(n.world.host(0).post_send(n.side[0].qpn, {&wr, 1}));
  assert_true(n.world.run_until([&] { return !n.side[1].completions.empty(); }, Duration::s(1)));
  assert_memory_equal(n.side[1].memory.data() + verbs::kGrhBytes, "datagram", 8);
}

void what_is_no_mad_is_counted(void**) {
  reset();
  Net& n = *g_net;
  n.make_qp(0, verbs::QpType::kUd, verbs::kGsiQkey);
  verbs::RtrAttributes rtr;
  assert_ok(n.world.host(0).to_rtr(n.side[0].qpn, rtr));
  assert_ok(n.world.host(0).to_rts(n.side[0].qpn, {}));
  verbs::AhAttributes to;
  to.local_address = n.world.address(0);
  to.remote_address = n.world.address(1);
  auto wr = n.send_wr(0, "no MAD");
  wr.ah = *n.world.host(0).create_ah(n.side[0].pd, to);
  wr.remote_qpn = verbs::kGsiQpn;
  wr.remote_qkey = verbs::kOwnQkey;
  for (int i = 0; i < 300; ++i) {  // more than there are receives: each goes back
    assert_ok(n.world.host(0).post_send(n.side[0].qpn, {&wr, 1}));
    n.world.run_for(Duration::us(100));
  }
  n.world.run_for(Duration::ms(100));
  assert_int_equal(n.side[1].cm->drops()[Drop::kBadMad], 300);
}

}  // namespace
}  // namespace h4a::stack

#define CM_TEST(f) cmocka_unit_test_teardown(f, tear_down)

int main() {
  using namespace h4a::stack;
  const CMUnitTest tests[] = {
      CM_TEST(connects_and_disconnects),
      CM_TEST(connects_over_ipv6),
      CM_TEST(connects_over_a_bad_link),
      CM_TEST(association_protects_messages_and_data),
      CM_TEST(clear_request_to_a_protected_service),
      CM_TEST(nobody_listens),
      CM_TEST(unreachable_host),
      CM_TEST(queue_pair_in_the_wrong_state),
      CM_TEST(arguments_are_checked),
      CM_TEST(one_manager_a_device),
      CM_TEST(datagram_service),
      CM_TEST(what_is_no_mad_is_counted),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
