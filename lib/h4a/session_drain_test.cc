// The orderly end of a session: its lifetime, the soft and hard limit of its keys, a server that drains. What is
// in flight finishes, what is not processed is said to be, and another session goes on.
#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;
using Type = verbs::AsyncEvent::Type;

verbs::AsyncEvent event(Type type, AssociationId association) {
  verbs::AsyncEvent e;
  e.type = type;
  e.association = association;
  return e;
}

// ---- one session ----

/// Asked for before and after the server's GoAway: answered, and refused for sure.
void a_draining_server_finishes_what_it_took(void** state) {
  World& w = world(state);
  w.server_options.reads_per_turn = 1;
  w.connect();
  w.handler.files["/f"] = pattern(900000);
  const RequestId first = w.get("/f", w.sink());
  w.client->poll(w.now);
  w.fabric.run();
  w.server->poll(w.now);  // took the first
  w.server->drain();
  const RequestId second = w.get("/f", w.sink());
  w.client->poll(w.now);  // the second is on its way when GoAway is
  assert_true(w.run([&] { return w.client->ended() && w.server->ended(); }));
  assert_true(w.recorder[first].outcome == Outcome::kResponse);
  assert_true(w.recorder[first].body == w.handler.files["/f"]);
  assert_true(w.recorder[second].outcome == Outcome::kRefused);
  assert_false(w.recorder[second].maybe_processed);
  assert_int_equal(w.server->counters().requests, 1);
  assert_true(w.client->error() == SessionError::kPeerClosed && w.client->may_be_renewed());
  assert_true(w.server->error() == SessionError::kExpired ||
              w.server->error() == SessionError::kPeerClosed);
}

/// The sink of a request that was refused after it was sent is nobody's until the session is gone (D4).
void a_refused_sink_is_kept_until_the_end(void** state) {
  World& w = world(state);
  w.server_options.reads_per_turn = 1;
  w.connect();
  w.handler.files["/f"] = pattern(900000);
  const RequestId first = w.get("/f", w.sink());
  w.client->poll(w.now);
  w.fabric.run();
  w.server->poll(w.now);
  w.server->drain();
  const SinkBuffer sink = w.sink();
  const RequestId second = w.get("/f", sink);
  w.client->poll(w.now);
  assert_true(w.run([&] { return w.recorder[second].responses == 1; }));
  assert_int_equal(w.recorder[second].releases, 0);
  assert_int_equal(w.recorder[first].responses, 0);
  const RequestHead head{"GET", "https", "example.org", "/f", {}};
  assert_true(w.client->draining());
  assert_error(w.client->submit(head, w.sink(), Duration::s(1), w.recorder, w.now), Error::kClosed);
  assert_true(w.run([&] { return w.client->ended(); }));
  assert_int_equal(w.recorder[second].releases, 1);
}

/// Both ends count from connect(); nobody has to ask for anything.
void the_lifetime_ends_a_session(void** state) {
  for (const bool busy : {false, true}) {
    World& w = world(state);
    w.lifetime = Duration::s(10);
    w.server_options.session.idle_timeout = w.client_options.idle_timeout = Duration::s(100);
    w.connect();
    w.handler.files["/f"] = pattern(1000000);
    w.pass(Duration::ms(9999));
    w.turn();
    assert_false(w.client->draining() || w.server->draining());
    assert_true(w.client->next_deadline() <= w.now + Duration::ms(1));
    assert_true(w.server->next_deadline() <= w.now + Duration::ms(1));
    std::optional<RequestId> id;
    if (busy) {
      id = w.get("/f", w.sink());
      w.client->poll(w.now);
      w.fabric.run();
      w.server->poll(w.now);
    }
    w.pass(Duration::ms(1));
    assert_true(w.run([&] { return w.client->ended() && w.server->ended(); }));
    assert_true(w.client->may_be_renewed());
    if (busy) assert_true(w.recorder[*id].outcome == Outcome::kResponse);
    w.client.reset();
    w.server.reset();
  }
}

/// Both drain at once, and a request crosses the GoAway: it is refused, and nobody waits for it.
void both_drain_at_once(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(10);
  const RequestId id = w.get("/f", w.sink());
  w.client->poll(w.now);
  w.client->drain();
  w.client->poll(w.now);
  w.server->drain();
  w.server->poll(w.now);
  assert_true(w.run([&] { return w.client->ended() && w.server->ended(); }, 50));
  assert_true(w.recorder[id].outcome == Outcome::kRefused);
  assert_int_equal(w.recorder[id].releases, 1);
  assert_true(w.client->may_be_renewed());
}

/// Nobody may keep a session alive by never finishing.
void draining_has_an_end(void** state) {
  World& w = world(state);
  w.server_options.session.drain_timeout = w.client_options.drain_timeout = Duration::s(5);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId id = w.get("/f", w.sink(), Duration::s(3600));
  w.client->poll(w.now);
  w.fabric.run();
  w.server->poll(w.now);
  w.fabric.silent = true;
  w.server->drain();
  w.client->drain();
  w.turn();
  w.pass(Duration::ms(4999));
  w.turn();
  assert_false(w.client->ended() || w.server->ended());
  w.pass(Duration::ms(1));
  w.turn();
  w.pass(Duration::s(1));  // the goodbye finds no way either
  w.turn();
  assert_true(w.client->ended() && w.server->ended());
  assert_true(w.recorder[id].outcome == Outcome::kSessionFailed);
  assert_int_equal(w.recorder[id].releases, 1);
}

/// A client drains by itself too: what was not sent is refused, what was sent comes.
void a_client_drains(void** state) {
  World& w = world(state);
  w.server_options.session.max_requests = 1;
  w.connect();
  w.handler.files["/f"] = pattern(500000);
  const RequestId sent = w.get("/f", w.sink());
  const RequestId queued = w.get("/f", w.sink());
  w.client->poll(w.now);
  w.client->drain();
  assert_true(w.run([&] { return w.client->ended() && w.server->ended(); }));
  assert_true(w.recorder[sent].outcome == Outcome::kResponse);
  assert_true(w.recorder[queued].outcome == Outcome::kRefused);
  assert_int_equal(w.recorder[queued].releases, 1);
  assert_true(w.client->error() == SessionError::kExpired);
  assert_true(w.server->error() == SessionError::kPeerClosed);
}

/// A server that says it drains and then answers as it likes gains nothing.
void a_hostile_server_drains(void** state) {
  const std::uint64_t last_ids[] = {0, 1, ~0ULL};
  for (const std::uint64_t last_id : last_ids) {
    World& w = world(state);
    w.client_options.drain_timeout = Duration::s(5);
    RawPeer raw(w.server_device, w.server_pd);
    w.client =
        std::make_unique<ClientSession>(w.client_device, w.client_pd, w.random, w.client_options);
    const auto c = w.client->open();
    assert_ok(c);
    raw.connect(*c);
    assert_ok(
        w.client->connect(World::endpoint(w.client_device, w.server_device, raw.local()), w.now));
    assert_true(w.run([&] { return !raw.all<PingFrame>().empty(); }));
    raw.send(PongFrame{raw.all<PingFrame>().front().nonce});
    assert_true(w.run([&] { return w.client->state() == SessionState::kOpen; }));
    const RequestId id = w.get("/f", w.sink(1000));
    assert_true(w.run([&] { return !raw.all<RequestFrame>().empty(); }));
    raw.send(GoAwayFrame{RequestId(last_id), GoAwayCode::kDraining, {}});
    raw.send(GoAwayFrame{RequestId(last_id + 1), GoAwayCode::kDraining, {}});
    w.turn();
    const bool refused = last_id < id.value();
    assert_int_equal(w.recorder[id].responses, refused ? 1 : 0);
    if (refused) {  // nothing else is in flight: the client leaves
      assert_true(w.run([&] { return w.client->ended(); }));
    } else {
      w.pass(Duration::s(5));
      w.turn();
      w.pass(Duration::s(1));
      w.turn();
    }
    assert_true(w.client->ended());
    assert_int_equal(w.recorder[id].responses, 1);
    assert_int_equal(w.recorder[id].releases, 1);
    w.client.reset();
    w.recorder.entries.clear();
  }
}

// ---- what the device reports ----

void sa_limits_end_a_session(void** state) {
  const struct {
    Type type;
    AssociationId association;
    bool drains;
    bool ends;
  } rows[] = {
      {Type::kSaSoftLimit, AssociationId(77), true, false},
      {Type::kSaHardLimit, AssociationId(77), false, true},
      {Type::kSaSoftLimit, AssociationId(78), false, false},
      {Type::kSaHardLimit, AssociationId(78), false, false},
      {Type::kSaHardLimit, kClear, false, false},
      {Type::kQpFatal, AssociationId(77), false, false},
  };
  for (const auto& row : rows) {
    World& w = world(state);
    w.connect();
    w.handler.files["/f"] = pattern(500000);
    const RequestId id = w.get("/f", w.sink());
    w.turn(4);
    handle_sa_event(*w.client, event(row.type, row.association));
    assert_int_equal(w.client->draining(), row.drains);
    assert_int_equal(w.client->ended(), row.ends);
    w.run([&] { return w.recorder[id].releases == 1; });
    assert_true(w.recorder[id].outcome ==
                (row.ends ? Outcome::kSessionFailed : Outcome::kResponse));
    if (row.drains || row.ends) assert_true(w.client->may_be_renewed());
    w.client->abort();
    w.client.reset();
    w.server.reset();
    w.recorder.entries.clear();
  }
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
#define T(f) cmocka_unit_test_setup_teardown(f, make_world, drop_world)
  const CMUnitTest tests[] = {
      T(a_draining_server_finishes_what_it_took),
      T(a_refused_sink_is_kept_until_the_end),
      T(the_lifetime_ends_a_session),
      T(both_drain_at_once),
      T(draining_has_an_end),
      T(a_client_drains),
      T(a_hostile_server_drains),
      T(sa_limits_end_a_session),
  };
#undef T
  return cmocka_run_group_tests_name("session_drain", tests, nullptr, nullptr);
}
