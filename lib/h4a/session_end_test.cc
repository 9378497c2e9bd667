// How sessions end: unconfirmed, broken, closed, idle, destroyed; and what they refuse locally. In each test
// every request completes once and every sink is released once (drop_world checks that).
#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

// ---- the end ----

void an_unconfirmed_path_fails_within_a_second(void** state) {
  World& w = world(state);
  w.fabric.silent = true;
  w.connect_unconfirmed();
  const RequestId id = w.get("/f", w.sink(10));
  w.turn();
  assert_true(w.client->next_deadline() <= w.now + Duration::s(1));
  w.pass(Duration::ms(999));
  w.turn();
  assert_true(w.client->state() == SessionState::kConfirming);
  w.pass(Duration::ms(1));
  w.turn();
  assert_true(w.client->ended());
  assert_true(w.client->error() == SessionError::kNotConfirmed);
  assert_false(w.recorder[id].maybe_processed);
  w.pass(Duration::s(4));
  w.turn();
  assert_true(w.server->ended());  // half-open sessions expire
  assert_error(w.client->submit({}, {}, Duration::s(1), w.recorder, w.now), Error::kClosed);
}

void a_dead_peer_is_found_by_keepalive(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId id = w.get("/f", w.sink());
  w.client->poll(w.now);
  w.fabric.run();
  w.fabric.broken = true;
  w.server.reset();
  w.pass(Duration::ms(600));
  w.turn();
  w.turn();
  assert_true(w.client->ended());
  assert_true(w.client->error() == SessionError::kTransport);
  assert_true(w.client->transport_status() == verbs::CompletionStatus::kRetryExceeded);
  assert_true(w.recorder[id].outcome == Outcome::kSessionFailed);
  assert_int_equal(w.recorder[id].releases, 1);
}

void death_at_every_moment_of_a_transfer(void** state) {
  World& w = world(state);
  w.handler.files["/f"] = pattern(900000);
  for (std::size_t moment = 0; moment < 24; ++moment) {
    w.fabric.broken = false;
    w.recorder.entries.clear();
    w.connect();
    const RequestId id = w.get("/f", w.sink());
    const RequestId other = w.get("/f", w.sink());
    for (std::size_t i = 0; i < moment; ++i) w.turn(1);
    w.fabric.broken = true;
    for (int i = 0; i < 40 && !w.client->ended(); ++i) {
      w.pass(Duration::ms(250));
      w.turn();
    }
    assert_int_equal(w.recorder[id].responses, 1);
    assert_int_equal(w.recorder[id].releases, 1);
    assert_int_equal(w.recorder[other].releases, 1);
    w.client.reset();
    w.server.reset();
  }
}

void close_says_goodbye(void** state) {
  World& w = world(state);
  w.connect();
  w.server->close(w.now);
  assert_true(w.run([&] { return w.client->ended() && w.server->ended(); }));
  assert_true(w.client->error() == SessionError::kPeerClosed);
  assert_true(w.client->go_away_code() == GoAwayCode::kDone);
  assert_true(w.server->error() == SessionError::kClosed);
}

// Where an unconfirmed client is, only its Offer says: nothing is sent there, not even a farewell.
void a_server_says_nothing_before_it_was_spoken_to(void** state) {
  World& w = world(state);
  w.fabric.silent = true;
  w.connect_unconfirmed();
  w.server->close(w.now);
  assert_true(w.server->ended());
  assert_true(w.server->error() == SessionError::kClosed);
  assert_int_equal(w.server->counters().frames_sent, 0);
}

void goaway_tells_what_was_not_processed(void** state) {
  World& w = world(state);
  w.server_options.reads_per_turn = 1;
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId first = w.get("/f", w.sink());
  w.client->poll(w.now);
  w.fabric.run();
  w.server->poll(w.now);  // took the first, not the second
  const RequestId second = w.get("/f", w.sink());
  w.server->close(w.now);
  assert_true(w.run([&] { return w.client->ended(); }));
  assert_true(w.recorder[first].outcome == Outcome::kSessionFailed);
  assert_true(w.recorder[first].maybe_processed);
  assert_true(w.recorder[second].outcome == Outcome::kRefused);
  assert_false(w.recorder[second].maybe_processed);
}

void an_idle_session_ends(void** state) {
  World& w = world(state);
  w.server_options.session.idle_timeout = Duration::s(5);
  w.connect();
  w.pass(Duration::ms(4999));
  w.turn();
  assert_true(w.server->state() == SessionState::kOpen);
  assert_true(w.server->next_deadline() <= w.now + Duration::ms(1));
  w.pass(Duration::ms(1));
  assert_true(w.run([&] { return w.client->ended() && w.server->ended(); }));
  assert_true(w.server->error() == SessionError::kIdle);
  assert_true(w.client->go_away_code() == GoAwayCode::kDone);
}

void destroying_a_session_tells_everybody(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId sent = w.get("/f", w.sink());
  w.turn(3);
  const RequestId queued = w.get("/f", w.sink());
  w.client.reset();
  assert_true(w.recorder[sent].outcome == Outcome::kSessionFailed);
  assert_int_equal(w.recorder[sent].releases, 1);
  assert_int_equal(w.recorder[queued].releases, 1);
}

// ---- local limits ----

void bad_options_are_refused(void** state) {
  World& w = world(state);
  SessionOptions rows[6];
  rows[0].recv_depth = 7;
  rows[1].recv_depth = 5000;
  rows[2].recv_bytes = 512;
  rows[3].recv_bytes = 1 << 20;
  rows[4].max_requests = 0;
  rows[5].max_requests = 257;
  for (const SessionOptions& o : rows) {
    ClientSession c(w.client_device, w.client_pd, w.random, o);
    assert_error(c.open(), Error::kInvalidArgument);
  }
}

void a_device_without_memory_is_reported(void** state) {
  World& w = world(state);
  for (std::uint32_t call = 1; call < 40; ++call) {
    ClientSession c(w.client_device, w.client_pd, w.random);
    w.client_device.fail_call_in = call;
    const auto opened = c.open();
    if (opened) assert_true(call > 36);
    w.client_device.fail_call_in = 0;
  }
}

void bad_requests_are_refused_here(void** state) {
  World& w = world(state);
  w.authorities = {};
  w.connect();
  const auto submit = [&](const RequestHead& head, Duration timeout = Duration::s(1)) {
    return w.client->submit(head, {}, timeout, w.recorder, w.now);
  };
  RequestHead head;
  head.path = "/a b";
  assert_error(submit(head), Error::kInvalidArgument);
  head = {};
  head.method = "";
  assert_error(submit(head), Error::kInvalidArgument);
  head = {};
  const std::string longer(20000, 'p');
  head.path = longer;
  assert_error(submit(head), Error::kInvalidArgument);
  assert_error(submit({}, Duration()), Error::kInvalidArgument);
  assert_int_equal(w.client->free_requests(), 32);
}

// What the Answer does not name is not sent: the server would answer 421 (DESIGN §6.3, RFC 9110 §7.4).
void only_authorities_of_the_session_are_asked_for(void** state) {
  World& w = world(state);
  w.authorities = {"example.org", "b.example:8443", "c.example:443"};
  w.handler.authority = "";  // answers for any
  w.connect();
  const struct {
    std::string_view authority;
    bool carried;
  } rows[] = {{"example.org", true},
              {"EXAMPLE.org", true},
              {"example.org:443", true},
              {"b.example:8443", true},
              {"c.example", true},
              {"example.org:8443", false},
              {"b.example", false},
              {"other.example", false},
              {"www.example.org", false},
              {"example.org.evil", false},
              {"", false},
              {":443", false}};
  for (const auto& row : rows) {
    RequestHead head;
    head.authority = row.authority;
    const auto id = w.client->submit(head, {}, Duration::s(1), w.recorder, w.now);
    if (row.carried)
      assert_ok(id);
    else
      assert_error(id, Error::kAccess);
    assert_int_equal(w.client->carries(row.authority), row.carried);
  }
  const std::uint64_t asked = w.client->counters().requests;
  assert_true(w.run([&] { return w.client->counters().responses == asked; }));
  assert_int_equal(w.server->counters().requests, asked);
}

// Two bodies in the same bytes: the second is refused until the first sink was released.
void sinks_in_flight_share_no_byte(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(100000);
  const SinkBuffer whole = w.sink(400000);
  const auto part = [&](std::size_t first, std::size_t bytes) {
    return SinkBuffer{static_cast<std::uint8_t*>(whole.address) + first, bytes, whole.region};
  };
  const RequestId first = w.get("/f", part(100000, 100000));
  const struct {
    std::size_t first;
    std::size_t bytes;
    bool taken;
  } rows[] = {{100000, 100000, false}, {0, 400000, false},      {150000, 1, false},
              {0, 100001, false},      {199999, 100000, false}, {0, 100000, true},
              {200000, 100000, true},  {150000, 0, true}};
  RequestHead head;
  head.authority = "example.org";
  head.path = "/f";
  for (const auto& row : rows) {
    const auto id =
        w.client->submit(head, part(row.first, row.bytes), Duration::s(1), w.recorder, w.now);
    if (row.taken)
      assert_ok(id);
    else
      assert_error(id, Error::kBusy);
  }
  const SinkBuffer wraps{whole.address, ~std::uint64_t{0}, whole.region};
  assert_error(w.client->submit(head, wraps, Duration::s(1), w.recorder, w.now),
               Error::kInvalidArgument);
  // Given up: told at once, and still in use, since the peer may write until its final frame (DESIGN D4).
  w.client->poll(w.now);
  w.client->cancel(first);
  w.client->poll(w.now);
  assert_int_equal(w.recorder[first].responses, 1);
  assert_error(w.client->submit(head, part(100000, 1), Duration::s(1), w.recorder, w.now),
               Error::kBusy);
  assert_true(w.run([&] { return w.recorder.releases() == 4; }));
  w.get("/f", part(100000, 100000));
  assert_true(w.run([&] { return w.recorder.releases() == 5; }));
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
#define T(f) cmocka_unit_test_setup_teardown(f, make_world, drop_world)
  const CMUnitTest tests[] = {
      T(an_unconfirmed_path_fails_within_a_second),     T(a_dead_peer_is_found_by_keepalive),
      T(death_at_every_moment_of_a_transfer),           T(close_says_goodbye),
      T(goaway_tells_what_was_not_processed),           T(an_idle_session_ends),
      T(destroying_a_session_tells_everybody),          T(bad_options_are_refused),
      T(a_device_without_memory_is_reported),           T(bad_requests_are_refused_here),
      T(a_server_says_nothing_before_it_was_spoken_to), T(sinks_in_flight_share_no_byte),
      T(only_authorities_of_the_session_are_asked_for),
  };
#undef T
  return cmocka_run_group_tests_name("session_end", tests, nullptr, nullptr);
}
