// Client and server sessions against each other on fake devices: the straight path, many requests,
// credit, deadlines, cancellation. In each test every request completes once,
// every sink is released once and never while a peer could reach it (Recorder checks that at the moment).
#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

bool same(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  return a == b;
}

// ---- the straight path ----

void confirms_with_ping_and_pong(void** state) {
  World& w = world(state);
  w.connect();
  assert_true(w.client->error() == SessionError::kNone);
}

void gets_bodies_of_every_size(void** state) {
  World& w = world(state);
  w.connect();
  const std::size_t sizes[] = {0,
                               1,
                               255,
                               4095,
                               4096,
                               4097,
                               8191,
                               8192,
                               8193,
                               16384,
                               65536,
                               262143,
                               262144,
                               262145,
                               524288,
                               1000003,
                               std::size_t{5} << 20};
  std::uint32_t seed = 0;
  for (const std::size_t size : sizes) {
    const auto body = pattern(size, ++seed);
    w.handler.files["/f"] = body;
    const RequestId id = w.get("/f", w.sink(std::max<std::size_t>(size, 1)));
    assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
    const auto& e = w.recorder[id];
    assert_true(e.outcome == Outcome::kResponse);
    assert_int_equal(e.status, 200);
    assert_true(e.body_sent);
    assert_int_equal(e.body_length, size);
    assert_true(same(e.body, body));
    assert_string_equal(e.headers.at("content-length").c_str(), std::to_string(size).c_str());
  }
  assert_true(w.client_device.longest_write <= kBodyChunkBytes);
  assert_true(w.client->counters().body_bytes_placed > (std::size_t{5} << 20));
}

void small_bodies_come_inline_without_a_sink(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000);
  const RequestId id = w.get("/f");
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_true(same(w.recorder[id].body, pattern(1000)));
  assert_int_equal(w.client->counters().body_bytes_placed, 0);
}

void head_has_no_body(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(100000);
  const RequestId id = w.get("/f", {}, Duration::s(1), "HEAD");
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_int_equal(w.recorder[id].status, 200);
  assert_int_equal(w.recorder[id].body.size(), 0);
  assert_string_equal(w.recorder[id].headers.at("content-length").c_str(), "100000");
}

void a_range_lands_at_the_start_of_the_sink(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(100000);
  const HeaderField range[] = {{"range", "bytes=20000-79999"}};
  const RequestId id = w.get("/f", w.sink(60000), Duration::s(1), "GET", range);
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_int_equal(w.recorder[id].status, 206);
  const auto all = pattern(100000);
  assert_true(same(w.recorder[id].body, {all.begin() + 20000, all.begin() + 80000}));
}

// DESIGN §6.8: who acknowledges nothing holds chunks for long, but never all of them.
void a_slow_client_leaves_chunks_for_others(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(16 * kBodyChunkBytes);
  const RequestId id = w.get("/f", w.sink(16 * kBodyChunkBytes));
  w.client->poll(w.now);
  w.fabric.run();
  for (int i = 0; i < 20; ++i) w.server->poll(w.now);
  assert_int_equal(w.staging->available(), w.staging->capacity() / 2);
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_true(same(w.recorder[id].body, w.handler.files["/f"]));
}

void registered_bodies_are_sent_from_where_they_are(void** state) {
  World& w = world(state);
  w.connect();
  auto& body = w.handler.files["/f"] = pattern(700000);
  const auto region = w.server_device.register_memory(w.server_pd, body.data(), body.size(),
                                                      verbs::Access::kNone, kClear);
  assert_ok(region);
  w.handler.registered = true;
  w.handler.lkey = region->lkey;
  const RequestId id = w.get("/f", w.sink());
  for (int i = 0; i < 3; ++i) {
    w.turn(1);
    assert_int_equal(w.staging->available(), w.staging->capacity());
  }
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_true(same(w.recorder[id].body, body));
  assert_ok(w.server_device.deregister_memory(region->id));
}

void a_body_larger_than_the_sink_is_not_sent(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(100000);
  const SinkBuffer sink = w.sink(99999);
  const RequestId id = w.get("/f", sink);
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_int_equal(w.recorder[id].status, 200);
  assert_false(w.recorder[id].body_sent);
  assert_int_equal(w.recorder[id].body_length, 100000);
  assert_int_equal(w.client_device.writes_executed, 0);
}

void errors_have_their_status(void** state) {
  World& w = world(state);
  w.authorities = {"example.org", "other.org"};
  w.connect();
  w.handler.files["/f"] = pattern(10);
  const std::string long_value(9000, 'v');
  const HeaderField large[] = {{"x", long_value}};
  struct Row {
    const char* method;
    const char* authority;
    const char* path;
    HeaderFields headers;
    std::uint16_t right;
  } rows[] = {{"GET", "example.org", "/none", {}, 404},
              {"GET", "other.org", "/f", {}, 421},
              {"POST", "example.org", "/f", {}, 501},
              {"DELETE", "example.org", "/f", {}, 501},
              {"GET", "example.org", "/f", large, 431}};
  for (const Row& row : rows) {
    const RequestHead head{row.method, "https", row.authority, row.path, row.headers};
    const auto id = w.client->submit(head, w.sink(100), Duration::s(1), w.recorder, w.now);
    assert_ok(id);
    assert_true(w.run([&] { return w.recorder[*id].releases == 1; }));
    assert_int_equal(w.recorder[*id].status, row.right);
  }
}

void a_body_that_cannot_be_read_becomes_a_500(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  w.handler.fails_from = 600000;  // as a file that was truncated meanwhile
  const RequestId id = w.get("/f", w.sink());
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_int_equal(w.recorder[id].status, 500);
  assert_int_equal(w.recorder[id].body.size(), 0);
  w.handler.files["/s"] = pattern(100);
  w.handler.fails_from = 50;
  const RequestId small = w.get("/s");
  assert_true(w.run([&] { return w.recorder[small].releases == 1; }));
  assert_int_equal(w.recorder[small].status, 500);
}

// ---- many ----

void many_requests_at_once_each_gets_its_own(void** state) {
  World& w = world(state);
  w.connect();
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::string path = "/" + std::to_string(i);
    w.handler.files[path] = pattern(1000 + i * 9973, i);
    ids.push_back(w.get(path, w.sink(400000)));
  }
  RequestHead head;
  head.authority = "example.org";
  assert_error(w.client->submit(head, {}, Duration::s(1), w.recorder, w.now), Error::kFull);
  assert_int_equal(w.client->free_requests(), 0);
  assert_true(w.run([&] { return w.recorder.releases() == 32; }));
  for (std::uint32_t i = 0; i < 32; ++i)
    assert_true(same(w.recorder[ids[i]].body, pattern(1000 + i * 9973, i)));
  w.turn();
  assert_int_equal(w.client->free_requests(), 32);
}

// Ten thousand requests through eight receives each way: the credit comes back, in time and not too late.
void credit_lasts_for_ever(void** state) {
  World& w = world(state);
  w.client_options.recv_depth = w.server_options.session.recv_depth = 8;
  w.connect();
  w.handler.files["/f"] = pattern(100);
  std::uint64_t sent = 0;
  while (w.recorder.releases() < 2000 && sent < 3000) {
    while (w.client->free_requests() > 0 && sent < 2000) {
      static_cast<void>(w.get("/f"));
      ++sent;
    }
    w.turn(1 + sent % 7);
  }
  assert_int_equal(w.recorder.releases(), 2000);
  assert_true(w.client->counters().credit_stalls > 0);
}

void the_smallest_depths_make_progress(void** state) {
  World& w = world(state);
  w.connect_unconfirmed();
  // The same with peers that say they have only four receives.
  w.client.reset();
  w.server.reset();
  w.client = std::make_unique<ClientSession>(w.client_device, w.client_pd, w.random);
  w.server = std::make_unique<ServerSession>(w.server_device, w.server_pd, w.random, w.handler,
                                             *w.staging);
  auto c = *w.client->open();
  auto s = *w.server->open();
  c.recv_depth = s.recv_depth = 64;
  assert_ok(w.server->connect(World::endpoint(w.server_device, w.client_device, c), w.now));
  s.recv_depth = 3;
  assert_error(w.client->connect(World::endpoint(w.client_device, w.server_device, s), w.now),
               Error::kInvalidArgument);
  s.recv_depth = 64;
  assert_ok(w.client->connect(World::endpoint(w.client_device, w.server_device, s), w.now));
  w.handler.files["/f"] = pattern(100);
  const RequestId id = w.get("/f");
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
}

void the_servers_limit_is_kept(void** state) {
  World& w = world(state);
  w.server_options.session.max_requests = 2;
  w.connect();
  w.handler.files["/f"] = pattern(100000);
  for (int i = 0; i < 20; ++i) static_cast<void>(w.get("/f", w.sink(100000)));
  assert_true(w.run([&] { return w.recorder.releases() == 20; }));
  for (const auto& [id, e] : w.recorder.entries) assert_int_equal(e.status, 200);
}

// The next request comes before the acknowledgement of the last Response.
void late_acknowledgements_hold_a_request_back(void** state) {
  World& w = world(state);
  w.server_options.session.max_requests = 2;
  w.connect();
  w.turn();
  w.handler.files["/f"] = pattern(100);
  w.server_device.late_acknowledgements = true;
  const RequestId ids[] = {w.get("/f"), w.get("/f"), w.get("/f"), w.get("/f")};
  assert_true(w.run([&] { return w.recorder[ids[1]].releases == 1; }));
  for (int i = 0; i < 5; ++i) w.turn();
  assert_int_equal(w.recorder[ids[2]].responses, 0);
  assert_true(w.server->state() == SessionState::kOpen);
  w.server_device.late_acknowledgements = false;
  assert_true(w.run([&] { return w.recorder[ids[3]].releases == 1; }));
  assert_int_equal(w.recorder[ids[3]].status, 200);
}

void a_listener_may_ask_again(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(50000);
  int left = 50;
  w.recorder.then = [&](RequestId) {
    if (left-- > 0) static_cast<void>(w.get("/f", w.sink(50000)));
  };
  static_cast<void>(w.get("/f", w.sink(50000)));
  assert_true(w.run([&] { return w.recorder.releases() == 51; }));
}

// ---- giving up ----

void a_deadline_completes_at_once_and_releases_later(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId id = w.get("/f", w.sink(), Duration::ms(100));
  for (int i = 0; i < 3; ++i) w.turn(2);  // some of the body is on its way
  assert_true(w.client->next_deadline() <= w.now + Duration::ms(100));
  w.pass(Duration::ms(100));
  w.client->poll(w.now);
  assert_int_equal(w.recorder[id].responses, 1);
  assert_true(w.recorder[id].outcome == Outcome::kTimeout);
  assert_true(w.recorder[id].maybe_processed);
  assert_int_equal(w.recorder[id].releases, 0);
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_true(w.client->state() == SessionState::kOpen);
}

void writes_after_a_cancel_are_discarded(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const SinkBuffer sink = w.sink();
  const RequestId id = w.get("/f", sink);
  w.turn();  // bind and Request arrive, the server posts WRITEs
  w.client->cancel(id);
  w.client->poll(w.now);  // retired before any WRITE was executed
  assert_true(w.recorder[id].outcome == Outcome::kCancelled);
  assert_int_equal(w.recorder[id].releases, 0);
  const std::vector<std::uint8_t> before(1000, 0);
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_true(w.client_device.violations.discarded_writes > 0);
  assert_memory_equal(sink.address, before.data(), before.size());
  assert_int_equal(w.server->counters().cancels, 1);
}

void a_cancelled_request_that_was_not_sent_is_released_at_once(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(10);
  const RequestId id = w.get("/f", w.sink(10));
  w.client->cancel(id);
  w.client->poll(w.now);
  assert_int_equal(w.recorder[id].responses, 1);
  assert_int_equal(w.recorder[id].releases, 1);
  assert_false(w.recorder[id].maybe_processed);
  w.turn();
  assert_int_equal(w.handler.handled, 0);
  assert_int_equal(w.client->free_requests(), 32);
}

void a_server_keeps_the_relative_deadline(void** state) {
  World& w = world(state);
  w.server_options.writes_max = 1;
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId id = w.get("/f", w.sink(), Duration::ms(50));
  w.fabric.run();
  w.client->poll(w.now);
  w.fabric.run();
  w.server->poll(w.now);  // has the request
  w.pass(Duration::ms(50));
  w.server->poll(w.now);  // gives it up without being asked
  assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
  assert_int_equal(w.recorder[id].status, 504);
}

void cancelled_and_answered_at_the_same_time(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(20000);
  for (std::size_t turns = 0; turns < 8; ++turns) {
    const RequestId id = w.get("/f", w.sink(20000));
    for (std::size_t i = 0; i < turns; ++i) w.turn(1);
    w.client->cancel(id);
    assert_true(w.run([&] { return w.recorder[id].releases == 1; }));
    assert_true(w.client->state() == SessionState::kOpen);
  }
}

void a_server_that_ignores_a_cancel_ends_the_session(void** state) {
  World& w = world(state);
  w.connect();
  w.handler.files["/f"] = pattern(1000000);
  const RequestId id = w.get("/f", w.sink(), Duration::ms(10));
  w.client->poll(w.now);
  w.fabric.run();
  w.server->poll(w.now);
  w.server.reset();  // gone, and the wire with it
  w.fabric.silent = true;
  w.pass(Duration::ms(10));
  w.client->poll(w.now);
  assert_int_equal(w.recorder[id].responses, 1);
  assert_int_equal(w.recorder[id].releases, 0);
  w.pass(Duration::s(2));
  assert_true(w.client->next_deadline() <= w.now);
  w.client->poll(w.now);
  w.pass(Duration::s(1));
  w.client->poll(w.now);
  assert_true(w.client->ended());
  assert_true(w.client->error() == SessionError::kUnresponsive);
  assert_int_equal(w.recorder[id].releases, 1);
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
#define T(f) cmocka_unit_test_setup_teardown(f, make_world, drop_world)
  const CMUnitTest tests[] = {
      T(confirms_with_ping_and_pong),
      T(gets_bodies_of_every_size),
      T(small_bodies_come_inline_without_a_sink),
      T(head_has_no_body),
      T(a_range_lands_at_the_start_of_the_sink),
      T(a_slow_client_leaves_chunks_for_others),
      T(registered_bodies_are_sent_from_where_they_are),
      T(a_body_larger_than_the_sink_is_not_sent),
      T(errors_have_their_status),
      T(a_body_that_cannot_be_read_becomes_a_500),
      T(many_requests_at_once_each_gets_its_own),
      T(credit_lasts_for_ever),
      T(the_smallest_depths_make_progress),
      T(the_servers_limit_is_kept),
      T(late_acknowledgements_hold_a_request_back),
      T(a_listener_may_ask_again),
      T(a_deadline_completes_at_once_and_releases_later),
      T(writes_after_a_cancel_are_discarded),
      T(a_cancelled_request_that_was_not_sent_is_released_at_once),
      T(a_server_keeps_the_relative_deadline),
      T(cancelled_and_answered_at_the_same_time),
      T(a_server_that_ignores_a_cancel_ends_the_session),
  };
#undef T
  return cmocka_run_group_tests_name("session", tests, nullptr, nullptr);
}
