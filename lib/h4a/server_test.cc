// Server: many sessions on one device: who gets how many, what events of the device do to one of them, and how
// much a turn asks of the disk.
#include "h4a/server.h"

#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

verbs::AsyncEvent event(verbs::AsyncEvent::Type type, std::uint32_t association) {
  verbs::AsyncEvent e;
  e.type = type;
  e.association = AssociationId(association);
  return e;
}

Server::Options limits(std::uint32_t all, std::uint32_t per_client) {
  Server::Options o;
  o.sessions_max = all;
  o.sessions_per_client = per_client;
  o.staging_chunks = 4;
  return o;
}

/// A server with its sessions, and clients on one device.
struct Crowd : World {
  int ended = 0;
  Server server_of_many;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<std::unique_ptr<ClientSession>> clients;

  explicit Crowd(const Server::Options& options)
      : server_of_many(server_device, server_pd, random, handler, options,
                       [this](const ServerSession&) { ++ended; }) {
    assert_ok(server_of_many.start());
  }
  Result<ServerSession*> join(const std::string& name) {
    auto s = server_of_many.open(name);
    if (!s) return s;
    auto c = std::make_unique<ClientSession>(client_device, client_pd, random);
    const auto local = c->open();
    assert_ok(local);
    PeerEndpoint of_client = endpoint(server_device, client_device, *local);
    of_client.association = AssociationId(static_cast<std::uint32_t>(100 + clients.size()));
    assert_ok((*s)->connect(of_client, now));
    assert_ok(c->connect(endpoint(client_device, server_device, (*s)->local()), now));
    clients.push_back(std::move(c));
    recorders.push_back(std::make_unique<Recorder>(client_device));
    return s;
  }
  void ask(std::size_t who, std::string_view path) {
    const RequestHead head{"GET", "https", "example.org", path, {}};
    assert_ok(clients[who]->submit(head, sink(), Duration::s(10), *recorders[who], now));
  }
  [[nodiscard]] std::size_t responses() const {
    std::size_t n = 0;
    for (const auto& r : recorders) n += r->responses();
    return n;
  }
  void turns(int n = 10) {
    for (int i = 0; i < n; ++i) {
      fabric.run();
      server_of_many.poll(now);
      for (auto& c : clients) c->poll(now);
    }
  }
};

void one_client_does_not_take_all_sessions(void**) {
  Crowd crowd(limits(6, 2));
  assert_ok(crowd.join("a"));
  assert_ok(crowd.join("a"));
  crowd.turns();
  assert_error(crowd.join("a"), Error::kBusy);
  assert_ok(crowd.join("b"));
  assert_ok(crowd.join("b"));
  assert_error(crowd.join("b"), Error::kBusy);
  assert_ok(crowd.join(""));
  assert_ok(crowd.join(""));
  assert_error(crowd.join("c"), Error::kFull);
  crowd.turns();
  assert_int_equal(crowd.server_of_many.counters().refused, 3);
  crowd.clients[0]->close(crowd.now);  // its place is free again
  crowd.turns();
  assert_int_equal(crowd.ended, 1);
  assert_ok(crowd.join("a"));
  crowd.clients.clear();
}

void a_server_acts_on_the_limits_of_one_session(void**) {
  Crowd crowd(limits(4, 4));
  for (const char* name : {"a", "b", "c"}) assert_ok(crowd.join(name));
  crowd.turns();
  crowd.server_of_many.on_event(event(verbs::AsyncEvent::Type::kSaSoftLimit, 100));
  crowd.server_of_many.on_event(event(verbs::AsyncEvent::Type::kSaHardLimit, 101));
  crowd.turns();
  assert_true(crowd.clients[0]->ended() && crowd.clients[0]->may_be_renewed());
  assert_true(crowd.clients[2]->state() == SessionState::kOpen);
  assert_int_equal(crowd.server_of_many.size(), 1);
  assert_int_equal(crowd.ended, 2);
  crowd.clients.clear();
}

/// However many sessions want bodies, a turn reads so many chunks, and everybody gets on.
void reads_of_a_turn_are_bounded(void**) {
  Server::Options options = limits(8, 8);
  options.staging_chunks = 64;
  options.reads_per_turn = 3;
  Crowd crowd(options);
  crowd.handler.files["/f"] = pattern(1000000);  // four chunks
  for (int i = 0; i < 8; ++i) assert_ok(crowd.join("x"));
  crowd.turns();
  for (std::size_t i = 0; i < 8; ++i) crowd.ask(i, "/f");
  for (auto& c : crowd.clients) c->poll(crowd.now);
  crowd.fabric.run();
  int turns = 0;
  for (; crowd.responses() < 8 && turns < 100; ++turns) {
    crowd.handler.reads.clear();
    crowd.server_of_many.poll(crowd.now);
    int reads = 0;
    for (const auto& [body, n] : crowd.handler.reads) reads += n;
    assert_true(reads <= 3);
    crowd.fabric.run();
    for (auto& c : crowd.clients) c->poll(crowd.now);
  }
  assert_int_equal(crowd.responses(), 8);
  assert_true(turns >= 8 * 4 / 3);
  crowd.clients.clear();
}

/// A burst of requests opens so many files a turn; the others wait in order and are all answered.
void requests_of_a_turn_are_bounded(void**) {
  Server::Options options = limits(1, 1);
  options.session.requests_per_turn = 3;
  Crowd crowd(options);
  crowd.handler.files["/f"] = pattern(100);
  assert_ok(crowd.join("x"));
  crowd.turns();
  for (int i = 0; i < 32; ++i) crowd.ask(0, "/f");
  crowd.clients[0]->poll(crowd.now);
  crowd.fabric.run();
  for (int before = 0; before < 32;) {
    assert_true(crowd.server_of_many.poll(crowd.now) > 0);
    assert_true(crowd.handler.handled > before && crowd.handler.handled <= before + 3);
    before = crowd.handler.handled;
    crowd.fabric.run();
  }
  crowd.turns();
  assert_int_equal(crowd.responses(), 32);
  crowd.clients.clear();
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(one_client_does_not_take_all_sessions),
      cmocka_unit_test(a_server_acts_on_the_limits_of_one_session),
      cmocka_unit_test(reads_of_a_turn_are_bounded),
      cmocka_unit_test(requests_of_a_turn_are_bounded),
  };
  return cmocka_run_group_tests_name("h4a_server", tests, nullptr, nullptr);
}
