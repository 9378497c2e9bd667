// `h4a rping` between two stacks of the simulator: our server and our client.
#include <cstring>
#include <functional>
#include <memory>

#include "apps/rping_session.h"
#include "sim/world.h"
#include "stack/cm_service.h"

#include "test/test_support.h"

namespace h4a::apps {
namespace {

class Net {
 public:
  explicit Net(const sim::WorldOptions& options = {}) : world(options) {
    for (std::size_t i = 0; i < 2; ++i) {
      cm[i] = std::move(*stack::CmService::create(world.host(i), world.random()));
      cm[i]->poll(world.now());
    }
    world.set_application([this](Instant now) {
      Instant next = Instant::never();
      for (std::size_t i = 0; i < 2; ++i) {
        next = std::min(next, cm[i]->poll(now));
        bool worked = false;
        for (auto& s : sessions[i]) worked = s->poll(now) || worked;
        if (worked) next = now + Duration::ns(500);
      }
      return next;
    });
  }
  ~Net() {
    for (auto& list : sessions) list.clear();
  }
  RpingSession& add(std::size_t host, RpingOptions o) {
    if (host == 0) o.address = world.address(1);
    sessions[host].push_back(
        std::make_unique<RpingSession>(world.host(host), *cm[host], std::move(o)));
    std::string error;
    if (!sessions[host].back()->start(error)) fail_msg("%s", error.c_str());
    return *sessions[host].back();
  }
  static RpingOptions server() {
    RpingOptions o;
    o.task.server = true;
    return o;
  }
  static RpingOptions client(std::uint32_t count, std::uint32_t size = 100) {
    RpingOptions o;
    o.task.count = count;
    o.task.size = size;
    o.task.validate = true;
    return o;
  }
  [[nodiscard]] bool run(const std::function<bool()>& done) {
    return world.run_until(done, Duration::s(120));
  }

  sim::World world;
  std::unique_ptr<stack::CmService> cm[2];
  std::vector<std::unique_ptr<RpingSession>> sessions[2];
};

std::unique_ptr<Net> g_net;
int tear_down(void**) {
  g_net.reset();
  return 0;
}

void expect_clean(RpingSession& s, std::uint64_t pings) {
  if (!s.error().empty()) fail_msg("%s", s.error().c_str());
  assert_int_equal(s.times().pings, pings);
}

void every_size(void**) {
  for (const std::uint32_t size : {26U, 64U, 1024U, 4097U, kRpingSizeMax}) {
    g_net = std::make_unique<Net>();
    Net& n = *g_net;
    RpingSession& server = n.add(1, Net::server());
    RpingSession& client = n.add(0, Net::client(3, size));
    assert_true(n.run([&] { return server.over() && client.over(); }));
    expect_clean(server, 3);
    expect_clean(client, 3);
    assert_true(client.times().least > Duration{});
    assert_true(client.times().most >= client.times().least);
    n.sessions[0].clear();
    n.sessions[1].clear();
    n.world.run_for(Duration::s(20));
    assert_int_equal(n.cm[0]->manager().connections(), 0);
    assert_int_equal(n.cm[1]->manager().connections(), 0);
  }
}

/// The text is that of rping: other implementations show it.
void text_of_the_pings(void**) {
  g_net = std::make_unique<Net>();
  Net& n = *g_net;
  std::vector<std::string> at_server, at_client;
  auto s = Net::server();
  s.task.show = [&](std::string_view t) { at_server.emplace_back(t); };
  auto c = Net::client(60, 32);
  c.task.show = [&](std::string_view t) { at_client.emplace_back(t); };
  RpingSession& server = n.add(1, s);
  RpingSession& client = n.add(0, c);
  assert_true(n.run([&] { return server.over() && client.over(); }));
  assert_int_equal(at_client.size(), 60);
  assert_true(at_client == at_server);
  assert_string_equal(at_client[0].c_str(), "rdma-ping-0: ABCDEFGHIJKLMNOPQR");
  assert_string_equal(at_client[1].c_str(), "rdma-ping-1: BCDEFGHIJKLMNOPQRS");
  assert_string_equal(at_client[57].c_str(), "rdma-ping-57: zABCDEFGHIJKLMNOP");
  assert_string_equal(at_client[58].c_str(), "rdma-ping-58: ABCDEFGHIJKLMNOPQ");
}

void over_a_bad_link(void**) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    sim::WorldOptions o;
    o.seed = seed;
    o.ipv6 = seed % 2 == 0;
    o.link.loss = o.link.duplicate = o.link.reorder = o.link.corrupt = 0.03;
    g_net = std::make_unique<Net>(o);
    Net& n = *g_net;
    RpingSession& server = n.add(1, Net::server());
    RpingSession& client = n.add(0, Net::client(20, 3000));
    assert_true(n.run([&] { return server.over() && client.over(); }));
    expect_clean(server, 20);
    expect_clean(client, 20);
  }
}

void persistent_server_serves_many(void**) {
  g_net = std::make_unique<Net>();
  Net& n = *g_net;
  auto o = Net::server();
  o.persistent = true;
  RpingSession& server = n.add(1, o);
  // A connection manager has one list of events: one session a host at a time.
  for (int i = 0; i < 3; ++i) {
    RpingSession& client = n.add(0, Net::client(2));
    assert_true(n.run([&] { return client.over(); }));
    expect_clean(client, 2);
    n.sessions[0].clear();
  }
  assert_false(server.over());
  server.stop();
  assert_true(n.run([&] { return server.over(); }));
  expect_clean(server, 6);
  assert_int_equal(server.connections(), 3);
}

void nobody_listens(void**) {
  g_net = std::make_unique<Net>();
  Net& n = *g_net;
  RpingSession& client = n.add(0, Net::client(1));
  assert_true(n.run([&] { return client.over(); }));
  assert_non_null(std::strstr(client.error().c_str(), "nobody listens"));
}

void stopped_client_says_goodbye(void**) {
  g_net = std::make_unique<Net>();
  Net& n = *g_net;
  RpingSession& server = n.add(1, Net::server());
  RpingSession& client = n.add(0, Net::client(0));
  assert_true(n.run([&] { return client.times().pings > 10; }));
  client.stop();
  assert_true(n.run([&] { return server.over() && client.over(); }));
  assert_true(server.error().empty() && client.error().empty());
}

/// A client that speaks another protocol.
void client_with_a_wrong_message(void**) {
  g_net = std::make_unique<Net>();
  Net& n = *g_net;
  RpingSession& server = n.add(1, Net::server());
  std::string error;
  auto peer = RpingPeer::create(n.world.host(0), {}, error);
  assert_non_null(peer.get());
  verbs::CmConnectOptions o;
  o.remote_address = n.world.address(1);
  o.port = 7174;
  o.qp = peer->parameters();
  assert_ok(n.cm[0]->connect(o));
  assert_true(n.run([&] { return server.connections() == 1; }));
  const verbs::SendWr empty;
  assert_ok(n.world.host(0).post_send(o.qp.qpn, {&empty, 1}));
  assert_true(n.run([&] { return server.over(); }));
  assert_non_null(std::strstr(server.error().c_str(), "a message of 0 bytes"));
}

}  // namespace
}  // namespace h4a::apps

#define RPING_TEST(f) cmocka_unit_test_teardown(f, tear_down)

int main() {
  using namespace h4a::apps;
  const CMUnitTest tests[] = {
      RPING_TEST(every_size),
      RPING_TEST(text_of_the_pings),
      RPING_TEST(over_a_bad_link),
      RPING_TEST(persistent_server_serves_many),
      RPING_TEST(nobody_listens),
      RPING_TEST(stopped_client_says_goodbye),
      RPING_TEST(client_with_a_wrong_message),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
