// A peer that breaks the rules, made of raw verbs: each case feeds one lie and says what is right. What
// holds in all: nothing false is delivered, each request completes once, and each sink is released once,
// when the peer cannot reach it any more (Recorder checks that at the moment).
#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

/// A client session against a raw server, or the other way round.
struct Duel : World {
  std::unique_ptr<RawPeer> peer;

  /// The client session confirms with a raw server.
  void face_server() {
    client = std::make_unique<ClientSession>(client_device, client_pd, random, client_options);
    const auto c = client->open();
    assert_ok(c);
    peer = std::make_unique<RawPeer>(server_device, server_pd);
    peer->connect(*c);
    assert_ok(client->connect(endpoint(client_device, server_device, peer->local()), now));
    turn();
    peer->send(SettingsFrame{32, 16384, 60000});
    peer->send(PongFrame{peer->all<PingFrame>().at(0).nonce});
    turn();
    assert_true(client->state() == SessionState::kOpen);
  }
  /// The server session hears from a raw client.
  void face_client() {
    auto pool = StagingPool::create(server_device, server_pd, 8);
    assert_ok(pool);
    staging = std::make_unique<StagingPool>(std::move(*pool));
    server = std::make_unique<ServerSession>(server_device, server_pd, random, handler, *staging,
                                             server_options);
    const auto s = server->open();
    assert_ok(s);
    peer = std::make_unique<RawPeer>(client_device, client_pd);
    peer->connect(*s);
    assert_ok(server->connect(endpoint(server_device, client_device, peer->local()), now));
    peer->send(PingFrame{5});
    turn();
    assert_true(server->state() == SessionState::kOpen);
  }
  /// Asks for /f and returns what the raw server sees of it.
  RequestFrame ask(RequestId& id, std::size_t bytes = kSinkBytes,
                   Duration timeout = Duration::s(10)) {
    id = get("/f", sink(bytes), timeout);
    client->poll(now);
    turn();
    return peer->all<RequestFrame>().back();
  }
  void settle() {
    for (int i = 0; i < 20; ++i) turn();
    pass(Duration::s(1));  // also for a GoAway that cannot leave
    for (int i = 0; i < 5; ++i) turn();
  }
};

int make_duel(void** state) {
  *state = new Duel;
  return 0;
}
int drop_duel(void** state) {
  Duel* d = static_cast<Duel*>(*state);
  d->client.reset();
  d->server.reset();
  d->peer.reset();
  const bool staged = !d->staging || d->staging->available() == d->staging->capacity();
  d->staging.reset();
  d->sinks.clear();
  const bool clean = staged && d->client_device.objects() == 0 && d->server_device.objects() == 0 &&
                     d->handler.bodies_open == 0 &&
                     d->recorder.responses() == d->recorder.entries.size() &&
                     d->recorder.releases() == d->recorder.entries.size();
  delete d;
  if (!clean) print_error("something was not given back\n");
  return clean ? 0 : -1;
}
Duel& duel(void** state) {
  return *static_cast<Duel*>(*state);
}

ResponseFrame placed(RequestId id, std::uint64_t bytes) {
  ResponseFrame r;
  r.id = id;
  r.status = 200;
  r.place = BodyPlace::kPlaced;
  r.placed_bytes = r.body_length = bytes;
  return r;
}

void ended_without_delivery(Duel& d, RequestId id, SessionError why) {
  d.settle();
  if (d.client->error() != why)
    fail_msg("ended for: %s", std::string(to_string(d.client->error())).c_str());
  assert_true(d.client->ended());
  assert_true(d.recorder[id].outcome == Outcome::kSessionFailed);
  assert_int_equal(d.recorder[id].body.size(), 0);
  assert_int_equal(d.recorder[id].responses, 1);
  assert_int_equal(d.recorder[id].releases, 1);
}

// ---- a hostile server ----

void an_honest_raw_server_is_believed(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id);
  const auto body = pattern(5000);
  d.peer->write(*q.sink, 0, body);
  d.peer->send(placed(q.id, 5000), &q.sink->rkey);
  d.settle();
  assert_true(d.recorder[id].body == body);
  assert_true(d.client->state() == SessionState::kOpen);
}

void less_placed_than_claimed(void** state) {
  struct Row {
    std::size_t written;
    std::uint64_t claimed;
  } rows[] = {{0, 1}, {0, 5000}, {4999, 5000}, {5000, 5001}, {5000, World::kSinkBytes}};
  for (const Row& row : rows) {
    Duel& d = duel(state);
    d.recorder.entries.clear();
    d.face_server();
    RequestId id;
    const RequestFrame q = d.ask(id);
    if (row.written > 0) d.peer->write(*q.sink, 0, pattern(row.written));
    d.peer->send(placed(q.id, row.claimed), &q.sink->rkey);
    ended_without_delivery(d, id, SessionError::kPlacedShort);
    assert_true(d.peer->all<GoAwayFrame>().size() == 1);
  }
}

void a_hole_in_what_was_placed(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id);
  d.peer->write(*q.sink, 0, pattern(1000));
  d.peer->write(*q.sink, 2000, pattern(3000));  // 1000..1999 keep somebody else's bytes
  d.peer->send(placed(q.id, 5000), &q.sink->rkey);
  ended_without_delivery(d, id, SessionError::kPlacedShort);
}

void more_claimed_than_the_sink_holds(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id, 1000);
  d.peer->write(*q.sink, 0, pattern(1000));
  d.peer->send(placed(q.id, ~0ULL), &q.sink->rkey);
  ended_without_delivery(d, id, SessionError::kProtocol);
}

// DESIGN D4: the client kills the window itself, waits, and only then looks.
void a_response_that_does_not_invalidate(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id);
  d.peer->write(*q.sink, 0, pattern(5000));
  d.peer->send(placed(q.id, 5000));
  d.fabric.run();
  d.client->poll(d.now);
  assert_int_equal(d.recorder[id].responses, 0);  // its own invalidation is on its way
  d.turn();
  assert_int_equal(d.recorder[id].responses, 1);
  assert_true(d.recorder[id].body == pattern(5000));
  assert_true(d.client->state() == SessionState::kOpen);
}

void a_write_between_response_and_revocation_is_part_of_it(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id);
  d.peer->write(*q.sink, 0, pattern(5000, 1));
  d.peer->send(placed(q.id, 5000));
  d.fabric.run();
  d.peer->write(*q.sink, 0, pattern(5000, 2));
  d.fabric.run();
  d.client->poll(d.now);
  d.turn();
  assert_true(d.recorder[id].body == pattern(5000, 2));  // whole, of one kind, and final
}

void a_write_after_the_response(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id, other;
  const RequestFrame q = d.ask(id);
  static_cast<void>(d.ask(other));
  d.peer->write(*q.sink, 0, pattern(5000));
  d.peer->send(placed(q.id, 5000), &q.sink->rkey);
  d.turn();
  assert_true(d.recorder[id].body == pattern(5000));
  d.peer->write(*q.sink, 0, pattern(5000, 9));
  d.settle();
  assert_memory_equal(d.sinks[0].data(), pattern(5000).data(), 5000);
  assert_true(d.client->error() == SessionError::kTransport);
  assert_true(d.recorder[other].outcome == Outcome::kSessionFailed);
}

void the_window_of_another_request_is_invalidated(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id, other;
  const RequestFrame q = d.ask(id);
  const RequestFrame o = d.ask(other);
  d.peer->write(*q.sink, 0, pattern(5000));
  d.peer->send(placed(q.id, 5000), &o.sink->rkey);
  ended_without_delivery(d, id, SessionError::kWrongWindow);
  assert_true(d.recorder[other].outcome == Outcome::kSessionFailed);
}

void the_body_goes_into_the_window_of_another_request(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id, other;
  const RequestFrame q = d.ask(id);
  const RequestFrame o = d.ask(other);
  d.peer->write(*o.sink, 0, pattern(5000));
  d.peer->send(placed(q.id, 5000), &q.sink->rkey);
  ended_without_delivery(d, id, SessionError::kPlacedShort);
}

void a_write_outside_the_window(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id, 1000);
  d.peer->write(*q.sink, 1, pattern(1000));
  ended_without_delivery(d, id, SessionError::kTransport);
}

void a_write_with_an_invented_key(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id);
  d.peer->write({q.sink->address, 100, Rkey(q.sink->rkey.value() + 1)}, 0, pattern(100));
  ended_without_delivery(d, id, SessionError::kTransport);
}

void a_second_response(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id, other;
  const RequestFrame q = d.ask(id);
  static_cast<void>(d.ask(other));
  ResponseFrame r;
  r.id = q.id;
  r.status = 200;
  d.peer->send(r, &q.sink->rkey);
  d.peer->send(r);
  d.settle();
  assert_int_equal(d.recorder[id].responses, 1);
  assert_true(d.recorder[id].outcome == Outcome::kResponse);
  assert_true(d.client->error() == SessionError::kProtocol);
}

void a_response_to_nothing(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  static_cast<void>(d.ask(id));
  ResponseFrame r;
  r.id = RequestId(4711);
  r.status = 200;
  d.peer->send(r);
  ended_without_delivery(d, id, SessionError::kProtocol);
}

void an_inline_body_larger_than_the_sink(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id, 100);
  ResponseFrame r;
  r.id = q.id;
  r.status = 200;
  r.place = BodyPlace::kInline;
  const auto body = pattern(101);
  r.inline_body = body;
  r.body_length = 101;
  d.peer->send(r, &q.sink->rkey);
  ended_without_delivery(d, id, SessionError::kProtocol);
}

void pull_mode_was_not_agreed(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id, 100);
  ResponseFrame r;
  r.id = q.id;
  r.status = 200;
  r.place = BodyPlace::kSource;
  d.peer->send(r, &q.sink->rkey);
  ended_without_delivery(d, id, SessionError::kProtocol);
}

// ---- frames out of place, at either side ----

void frames_that_the_client_does_not_take(void** state) {
  RequestFrame request;
  request.id = RequestId(1);
  const FrameBody rows[] = {request, CancelFrame{RequestId(1)}, DataFrame{RequestId(1)},
                            TrailersFrame{RequestId(1)}, RekeyFrame{1}};
  for (const FrameBody& body : rows) {
    Duel& d = duel(state);
    d.recorder.entries.clear();
    d.face_server();
    RequestId id;
    static_cast<void>(d.ask(id));
    d.peer->send(body);
    ended_without_delivery(d, id, SessionError::kProtocol);
    const auto bye = d.peer->all<GoAwayFrame>();
    assert_int_equal(bye.size(), 1);
    const bool reserved = body.index() == FrameBody(DataFrame{}).index() ||
                          body.index() == FrameBody(TrailersFrame{}).index() ||
                          body.index() == FrameBody(RekeyFrame{}).index();
    assert_true((bye[0].code == GoAwayCode::kUnsupported) == reserved);
  }
}

void octets_that_are_no_frame(void** state) {
  std::vector<std::vector<std::uint8_t>> rows = {{},
                                                 {0},
                                                 pattern(100),
                                                 std::vector<std::uint8_t>(4096, 0),
                                                 std::vector<std::uint8_t>(4096, 0xff)};
  for (const auto& octets : rows) {
    Duel& d = duel(state);
    d.recorder.entries.clear();
    d.face_server();
    RequestId id;
    static_cast<void>(d.ask(id));
    d.peer->send_octets(octets);
    ended_without_delivery(d, id, SessionError::kMalformed);
    std::uint64_t counted = 0;
    for (const std::uint64_t n : d.client->counters().frame_errors) counted += n;
    assert_int_equal(counted, 1);
  }
}

void an_invalidation_without_a_response(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  const RequestFrame q = d.ask(id);
  d.peer->send(PingFrame{1}, &q.sink->rkey);
  ended_without_delivery(d, id, SessionError::kWrongWindow);
}

void credit_for_receives_that_cannot_be(void** state) {
  Duel& d = duel(state);
  d.face_server();
  RequestId id;
  static_cast<void>(d.ask(id));
  d.peer->send(CreditFrame{}, nullptr, 1'000'000);
  ended_without_delivery(d, id, SessionError::kProtocol);
}

void a_pong_with_a_wrong_nonce_confirms_nothing(void** state) {
  Duel& d = duel(state);
  d.client = std::make_unique<ClientSession>(d.client_device, d.client_pd, d.random);
  const auto c = d.client->open();
  d.peer = std::make_unique<RawPeer>(d.server_device, d.server_pd);
  d.peer->connect(*c);
  assert_ok(
      d.client->connect(World::endpoint(d.client_device, d.server_device, d.peer->local()), d.now));
  d.turn();
  d.peer->send(PongFrame{d.peer->all<PingFrame>().at(0).nonce ^ 1});
  d.turn();
  assert_true(d.client->state() == SessionState::kConfirming);
}

void a_server_that_gives_no_credit(void** state) {
  Duel& d = duel(state);
  d.face_server();
  d.peer->give_credit = false;
  std::vector<RequestId> ids;
  for (int i = 0; i < 32; ++i) ids.push_back(d.get("/f", {}, Duration::ms(50)));
  for (int i = 0; i < 10; ++i) d.turn();
  assert_int_equal(d.server_device.violations.receiver_not_ready, 0);
  d.pass(Duration::ms(50));
  d.turn();
  assert_int_equal(d.recorder.responses(), 32);
  d.pass(Duration::s(3));
  d.settle();
  assert_true(d.client->error() == SessionError::kUnresponsive);
}

// ---- a hostile client ----

RequestFrame get_frame(std::uint64_t id, std::optional<Region> sink = {}) {
  RequestFrame q;
  q.id = RequestId(id);
  q.head.authority = "example.org";
  q.head.path = "/f";
  q.sink = sink;
  return q;
}

void a_sink_that_is_no_window(void** state) {
  Duel& d = duel(state);
  d.handler.files["/f"] = pattern(1000000);
  const Region rows[] = {{0, ~0ULL, Rkey(0)},
                         {0x1000, std::uint64_t{1} << 62, Rkey(12345)},
                         {~0ULL - 2'000'000, 1'500'000, Rkey(1)}};
  for (const Region& sink : rows) {
    d.face_client();
    d.peer->send(get_frame(1, sink));
    d.settle();
    assert_true(d.server->ended());
    assert_true(d.server->error() == SessionError::kTransport);
    assert_true(d.server->transport_status() == verbs::CompletionStatus::kRemoteAccess);
    assert_int_equal(d.handler.bodies_open, 0);
    assert_int_equal(d.staging->available(), d.staging->capacity());
    d.server.reset();
    d.peer.reset();
  }
}

void an_invalidation_key_that_is_no_window(void** state) {
  Duel& d = duel(state);
  d.handler.files["/f"] = pattern(10);
  d.face_client();
  d.peer->send(get_frame(1, Region{0x1000, 4096, Rkey(999)}));
  d.settle();
  assert_true(d.server->error() == SessionError::kTransport);
}

void more_requests_than_allowed(void** state) {
  Duel& d = duel(state);
  d.server_options.session.max_requests = 4;
  d.face_client();
  d.handler.files["/f"] = pattern(10);
  for (std::uint64_t id = 1; id <= 40; ++id) d.peer->send(get_frame(id));
  d.settle();
  assert_true(d.server->error() == SessionError::kProtocol);
  assert_true(d.handler.handled <= 4);
}

void ids_that_do_not_grow(void** state) {
  const std::uint64_t rows[][2] = {{1, 1}, {7, 6}, {1, 0}};
  for (const auto& row : rows) {
    Duel& d = duel(state);
    d.face_client();
    d.handler.files["/f"] = pattern(10);
    d.peer->send(get_frame(row[0]));
    d.peer->send(get_frame(row[1]));
    d.settle();
    assert_true(d.server->error() == SessionError::kProtocol);
    d.server.reset();
    d.peer.reset();
  }
}

void bodies_are_refused_by_name(void** state) {
  Duel& d = duel(state);
  d.face_client();
  RequestFrame q = get_frame(1);
  const auto body = pattern(10);
  q.inline_body = body;
  d.peer->send(q);
  d.settle();
  assert_int_equal(d.peer->all<ResponseFrame>().at(0).status, 501);
  assert_true(d.server->state() == SessionState::kOpen);
}

void cancels_of_nothing_are_ignored(void** state) {
  Duel& d = duel(state);
  d.face_client();
  for (std::uint64_t id = 0; id < 50; ++id) {
    d.peer->send(CancelFrame{RequestId(id)});
    d.turn();
  }
  d.handler.files["/f"] = pattern(10);
  d.peer->send(get_frame(1));
  d.settle();
  assert_int_equal(d.peer->all<ResponseFrame>().at(0).status, 200);
}

void a_flood_of_pings_is_answered_as_far_as_there_is_room(void** state) {
  Duel& d = duel(state);
  d.face_client();
  for (std::uint64_t i = 0; i < 60; ++i) d.peer->send(PingFrame{i});
  d.settle();
  const std::size_t pongs = d.peer->all<PongFrame>().size();
  assert_in_range(pongs, 8, 61);
  assert_true(d.server->state() == SessionState::kOpen);
}

void a_client_that_gives_no_credit_is_dropped_in_the_end(void** state) {
  Duel& d = duel(state);
  d.server_options.session.idle_timeout = Duration::s(5);
  d.face_client();
  d.peer->give_credit = false;
  d.handler.files["/f"] = pattern(10);
  for (std::uint64_t id = 1; id <= 60; ++id) {
    d.peer->send(get_frame(id));
    d.turn();
  }
  assert_int_equal(d.client_device.violations.receiver_not_ready, 0);
  for (std::uint64_t id = 61; id <= 80 && !d.server->ended(); ++id) {
    d.peer->send(get_frame(id));
    d.turn();
  }
  d.pass(Duration::s(6));
  d.settle();
  assert_true(d.server->ended());
  assert_int_equal(d.client_device.violations.receiver_not_ready, 0);
}

void frames_that_the_server_does_not_take(void** state) {
  ResponseFrame response;
  response.status = 200;
  const FrameBody rows[] = {response, DataFrame{RequestId(1)}, TrailersFrame{RequestId(1)},
                            RekeyFrame{1}};
  for (const FrameBody& body : rows) {
    Duel& d = duel(state);
    d.face_client();
    d.peer->send(body);
    d.settle();
    assert_true(d.server->error() == SessionError::kProtocol);
    assert_int_equal(d.peer->all<GoAwayFrame>().size(), 1);
    d.server.reset();
    d.peer.reset();
  }
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
#define T(f) cmocka_unit_test_setup_teardown(f, make_duel, drop_duel)
  const CMUnitTest tests[] = {
      T(an_honest_raw_server_is_believed),
      T(less_placed_than_claimed),
      T(a_hole_in_what_was_placed),
      T(more_claimed_than_the_sink_holds),
      T(a_response_that_does_not_invalidate),
      T(a_write_between_response_and_revocation_is_part_of_it),
      T(a_write_after_the_response),
      T(the_window_of_another_request_is_invalidated),
      T(the_body_goes_into_the_window_of_another_request),
      T(a_write_outside_the_window),
      T(a_write_with_an_invented_key),
      T(a_second_response),
      T(a_response_to_nothing),
      T(an_inline_body_larger_than_the_sink),
      T(pull_mode_was_not_agreed),
      T(frames_that_the_client_does_not_take),
      T(octets_that_are_no_frame),
      T(an_invalidation_without_a_response),
      T(credit_for_receives_that_cannot_be),
      T(a_pong_with_a_wrong_nonce_confirms_nothing),
      T(a_server_that_gives_no_credit),
      T(a_sink_that_is_no_window),
      T(an_invalidation_key_that_is_no_window),
      T(more_requests_than_allowed),
      T(ids_that_do_not_grow),
      T(bodies_are_refused_by_name),
      T(cancels_of_nothing_are_ignored),
      T(a_flood_of_pings_is_answered_as_far_as_there_is_room),
      T(a_client_that_gives_no_credit_is_dropped_in_the_end),
      T(frames_that_the_server_does_not_take),
  };
#undef T
  return cmocka_run_group_tests_name("session_hostile", tests, nullptr, nullptr);
}
