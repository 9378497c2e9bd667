// The server against clients that do not behave: wrong, giant, slow, many, or gone.
#include "edge/server.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>

#include "edge/edge_fixture.h"
#include "edge/raw_client.h"
#include "h4a/bootstrap.h"

#include "test/test_support.h"

namespace h4a::edge {
namespace {

using test::Fixture;
using test::RawClient;

#define assert_started(f, ...)                                    \
  do {                                                            \
    const auto started_ = (f).start(__VA_ARGS__);                 \
    if (!started_) fail_msg("%s", started_.error().text.c_str()); \
  } while (0)

std::string post(const std::string& more, const std::string& body = "offer") {
  return "POST /.well-known/h4a HTTP/1.1\r\nHost: localhost\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string kOfferType = "Content-Type: application/vnd.h4a.offer\r\n";

std::string get(const std::string& target, const std::string& more = {}) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

unsigned status_of(const std::string& response) {
  return response.substr(0, 9) == "HTTP/1.1 "
             ? static_cast<unsigned>(std::stoul(response.substr(9)))
             : 0;
}

/// Sends `text` on a connection of its own. @return the status, 0 if there was no response.
unsigned ask(const Fixture& f, const std::string& text) {
  RawClient c(f.server->port());
  c.send(text);
  return status_of(c.receive_response());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Waits until `condition`, for at most 5 s.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

struct Case {
  std::string request;
  unsigned status;
};

void requests_get_their_status(void**) {
  Fixture f;
  f.options.limits.connections_per_source = 1000;
  f.options.limits.half_open.per_source = 1000;
  assert_started(f);
  const std::string giant(bootstrap::kMessageMaxBytes + 1, 'x');
  const std::string chunked = "POST /.well-known/h4a HTTP/1.1\r\nHost: localhost\r\n" + kOfferType +
                              "Transfer-Encoding: chunked\r\n\r\n";
  const Case cases[] = {
      // Offers
      {post(kOfferType), 200},
      {post("content-type: APPLICATION/VND.H4A.OFFER\r\n"), 200},
      {post(kOfferType, giant.substr(1)), 200},
      {chunked + "5\r\noffer\r\n0\r\n\r\n", 200},
      {post(kOfferType, giant), 413},
      {chunked + "ffffff\r\n" + giant, 413},
      {chunked + "zz\r\n", 400},
      {post(""), 415},
      {post("Content-Type: application/octet-stream\r\n"), 415},
      {post("Content-Type: application/vnd.h4a.offer; charset=utf-8\r\n"), 415},
      {post("Content-Type: application/x-www-form-urlencoded\r\n"), 415},
      {post(kOfferType + "Content-Encoding: gzip\r\n"), 415},
      {post(kOfferType + "Early-Data: 1\r\n"), 425},
      {get("/.well-known/h4a"), 405},
      // where the request goes
      {"POST /.well-known/h4a HTTP/1.1\r\nHost: other.example\r\n" + kOfferType +
           "Content-Length: 0\r\n\r\n",
       421},
      {"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", 421},
      {"GET / HTTP/1.1\r\nHost: LOCALHOST:1234\r\n\r\n", 200},
      {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 200},
      {"GET https://127.0.0.1/ HTTP/1.1\r\nHost: other.example\r\n\r\n", 200},
      {"GET https://other.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421},
      {"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
      {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      // files
      {get("/hello.txt"), 200},
      {get("/hello.txt?q"), 200},
      {get("/nowhere"), 404},
      {get("/sub"), 404},
      {get("/../secret"), 403},
      {get("/%2e%2e/secret"), 403},
      {get("/sub/..%2f..%2fsecret"), 403},
      {get("/out"), 403},
      {get("/hello.txt%00.html"), 400},
      {get("/%zz"), 400},
      {get("//etc/passwd"), 404},
      {"OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
      {"PUT /hello.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405},
      {"DELETE /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
      {"POST /hello.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405},
      // what is no HTTP
      {"hello\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'x') + "\r\n\r\n", 431},
      {"GET /" + std::string(20000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 431},
  };
  for (const Case& c : cases) {
    const unsigned status = ask(f, c.request);
    if (status != c.status)
      fail_msg("row %td: %u, not %u: %.60s", &c - cases, status, c.status, c.request.c_str());
  }
}

void ranges_and_preconditions(void**) {
  Fixture f;
  assert_started(f);
  RawClient c(f.server->port());
  const auto say = [&](const std::string& text) { return c.send(text), c.receive_response(); };
  const std::string whole = say(get("/hello.txt"));
  assert_true(contains(whole, "\r\n\r\nhello, world"));
  assert_true(contains(whole, "Accept-Ranges: bytes\r\n"));
  assert_true(contains(whole, "Date: "));
  assert_true(
      contains(whole, "Alt-Svc: h4a=\":" + std::to_string(f.server->port()) + "\"; ma=86400"));
  const std::size_t at = whole.find("ETag: ") + 6;
  const std::string tag = whole.substr(at, whole.find("\r\n", at) - at);
  const std::string part = say(get("/hello.txt", "Range: bytes=7-99\r\nIf-Range: " + tag + "\r\n"));
  assert_int_equal(status_of(part), 206);
  assert_true(contains(part, "Content-Range: bytes 7-11/12\r\n"));
  assert_true(contains(part, "\r\n\r\nworld"));
  assert_int_equal(status_of(say(get("/hello.txt", "Range: bytes=7-\r\nIf-Range: \"x\"\r\n"))),
                   200);
  assert_int_equal(status_of(say(get("/hello.txt", "Range: bytes=12-\r\n"))), 416);
  const std::string same = say(get("/hello.txt", "If-None-Match: " + tag + "\r\n"));
  assert_int_equal(status_of(same), 304);
  assert_false(contains(same, "Content-Length"));
  assert_int_equal(status_of(say(get("/hello.txt", "If-Match: \"x\"\r\n"))), 412);
  assert_int_equal(f.server->counters().connections, 1);  // all on one
}

void head_has_no_body(void**) {
  Fixture f;
  assert_started(f);
  RawClient c(f.server->port());
  c.send("HEAD /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::string head = c.receive();
  assert_true(contains(head, "Content-Length: 12\r\n"));
  assert_true(head.substr(head.size() - 4) == "\r\n\r\n");
  c.send("HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  head = c.receive_all();
  assert_int_equal(status_of(head), 404);
  assert_true(head.substr(head.size() - 4) == "\r\n\r\n");
}

void a_giant_body_still_gets_its_413(void**) {
  Fixture f;
  assert_started(f);
  RawClient c(f.server->port());
  const std::string body(300'000, 'x');
  c.send(post(kOfferType, body));  // more than the server reads before it answers
  assert_int_equal(status_of(c.receive_all()), 413);
}

void a_client_that_asks_first_is_told_to_go_on(void**) {
  Fixture f;
  assert_started(f);
  RawClient c(f.server->port());
  const std::string head = post(kOfferType + "Expect: 100-continue\r\n", "offer");
  c.send(head.substr(0, head.size() - 5));
  assert_true(contains(c.receive(), "HTTP/1.1 100 Continue\r\n\r\n"));
  c.send("offer");
  assert_true(contains(c.receive_response(), "\r\n\r\nreffo"));
}

void pipelined_requests_are_answered_in_order(void**) {
  Fixture f;
  assert_started(f);
  RawClient c(f.server->port());
  c.send(get("/hello.txt") + post(kOfferType) + get("/index.html", "Connection: close\r\n"));
  const std::string all = c.receive_all();
  const auto first = all.find("hello, world");
  const auto second = all.find("reffo");
  const auto third = all.find("<top>");
  assert_true(first < second);
  assert_true(second < third);
  assert_true(third != std::string::npos);
}

void only_tls_1_2_and_later(void**) {
  Fixture f;
  assert_started(f);
  assert_false(RawClient(f.server->port(), true, TLS1_VERSION).secured);
  assert_false(RawClient(f.server->port(), true, TLS1_1_VERSION).secured);
  assert_true(RawClient(f.server->port(), true, TLS1_2_VERSION).secured);
  assert_true(RawClient(f.server->port(), true, TLS1_3_VERSION).secured);
  RawClient clear(f.server->port(), false);
  clear.send(get("/"));
  assert_false(contains(clear.receive_all(), "HTTP"));
}

void the_protocol_is_http_1_1(void**) {
  Fixture f;
  assert_started(f);
  assert_string_equal(RawClient(f.server->port(), true, 0, "\x02h2\x08http/1.1").protocol.c_str(),
                      "http/1.1");
  assert_false(RawClient(f.server->port(), true, 0, "\x02h2").secured);
}

/// Timeouts of a tenth of a second, for clients that stall.
void make_impatient(Fixture& f) {
  f.options.limits.header_timeout = Duration::ms(150);
  f.options.limits.idle_timeout = Duration::ms(150);
  f.options.limits.linger = Duration::ms(100);
}

void slow_clients_are_cut_off(void**) {
  Fixture f;
  make_impatient(f);
  assert_started(f);
  RawClient no_handshake(f.server->port(), false);
  RawClient no_request(f.server->port());
  RawClient half_header(f.server->port());
  half_header.send("GET / HTTP/1.1\r\nHost: local");
  RawClient half_body(f.server->port());
  half_body.send("POST /.well-known/h4a HTTP/1.1\r\nHost: localhost\r\n" + kOfferType +
                 "Content-Length: 100\r\n\r\nabc");
  RawClient idle(f.server->port());
  idle.send(get("/hello.txt"));
  assert_int_equal(status_of(idle.receive_response()), 200);
  for (RawClient* c : {&no_handshake, &no_request, &half_header, &half_body, &idle})
    assert_true(c->receive_all().empty());
  assert_true(eventually([&] { return f.server->open_connections() == 0; }));
  assert_true(f.server->counters().timeouts >= 5);
  assert_int_equal(f.handler.calls.load(), 0);
}

/// One octet at a time does not extend the time for a header.
void a_slow_loris_starves(void**) {
  Fixture f;
  make_impatient(f);
  assert_started(f);
  RawClient c(f.server->port());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100 && f.server->open_connections() > 0; ++i) {
    c.send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  assert_true(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1500));
  assert_true(eventually([&] { return f.server->open_connections() == 0; }));
}

void a_reader_that_stops_is_cut_off(void**) {
  Fixture f;
  make_impatient(f);
  f.write("root/huge.bin", std::string(32 * 1024 * 1024, 'x'));
  assert_started(f);
  RawClient c(f.server->port());
  c.send(get("/huge.bin"));
  assert_true(eventually([&] { return f.server->counters().timeouts > 0; }));
  assert_true(eventually([&] { return f.server->open_connections() == 0; }));
}

void connections_are_limited(void**) {
  Fixture f;
  f.options.limits.connections_per_source = 3;
  assert_started(f);
  RawClient a(f.server->port());
  RawClient b(f.server->port());
  {
    RawClient c(f.server->port());
    assert_true(c.secured);
    assert_false(RawClient(f.server->port()).secured);
    assert_int_equal(f.server->counters().refused_connections, 1);
  }
  assert_true(eventually([&] { return f.server->open_connections() == 2; }));
  assert_true(RawClient(f.server->port()).secured);
  Fixture g;
  g.options.limits.connections = 1;
  assert_started(g);
  RawClient only(g.server->port());
  assert_false(RawClient(g.server->port()).secured);
}

void many_at_once(void**) {
  constexpr int kThreads = 16;
  constexpr int kRequests = 20;
  Fixture f;
  f.options.limits.half_open.per_source = 10000;
  assert_started(f);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      RawClient c(f.server->port());
      for (int i = 0; i < kRequests; ++i) {
        c.send(post(kOfferType));
        if (contains(c.receive_response(), "\r\n\r\nreffo")) ++good;
        c.send(get("/hello.txt"));
        if (contains(c.receive_response(), "hello, world")) ++good;
      }
    });
  for (std::thread& t : threads) t.join();
  assert_int_equal(good.load(), 2 * kThreads * kRequests);
  assert_int_equal(f.handler.calls.load(), kThreads * kRequests);
}

void a_full_queue_is_503(void**) {
  Fixture f;
  f.options.limits.answer_timeout = Duration::ms(200);
  OfferQueue tiny(1);
  f.options.offers = &tiny;
  assert_started(f, false);
  RawClient first(f.server->port());
  first.send(post(kOfferType));
  assert_true(eventually([&] { return tiny.waiting() == 1; }));
  RawClient second(f.server->port());
  second.send(post(kOfferType));
  assert_int_equal(status_of(second.receive_response()), 503);
  assert_int_equal(status_of(first.receive_response()), 503);  // nobody polled
  f.server.reset();
}

void an_answer_that_comes_too_late_is_for_nobody(void**) {
  class Slow final : public OfferHandler {
   public:
    OfferReply answer(Bytes offer, const AuthInfo&) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return {200, {offer.begin(), offer.end()}};
    }
  } slow;
  Fixture f;
  f.options.limits.answer_timeout = Duration::ms(100);
  assert_started(f, false);
  RawClient c(f.server->port());
  test::StackThread stack(f.queue, slow);
  c.send(post(kOfferType, "first"));
  assert_int_equal(status_of(c.receive_response()), 503);
  c.send(post(kOfferType, "second"));
  const std::string got = c.receive_response();
  assert_false(contains(got, "first"));  // the first answer is not taken for the second's
  assert_int_equal(status_of(got), 503);
  f.server.reset();
}

void the_server_ends_while_clients_are_busy(void**) {
  Fixture f;
  f.write("root/huge.bin", std::string(32 * 1024 * 1024, 'x'));
  assert_started(f, false);
  RawClient idle(f.server->port());
  RawClient reading(f.server->port());
  reading.send(get("/huge.bin"));
  RawClient waiting(f.server->port());
  waiting.send(post(kOfferType));
  RawClient handshaking(f.server->port(), false);
  assert_true(eventually([&] { return f.queue.waiting() == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  f.server.reset();
  assert_true(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
  assert_int_equal(f.queue.poll(f.handler), 0);  // what waited is abandoned
  assert_true(idle.receive().empty());
  assert_true(waiting.receive().empty());
}

/// The stack may be in the middle of an answer when the server goes away.
void an_answer_outlives_the_server(void**) {
  Fixture f;
  class Ending final : public OfferHandler {
   public:
    explicit Ending(Fixture& f) : f_(f) {}
    OfferReply answer(Bytes, const AuthInfo&) override {
      f_.server.reset();
      return {200, {1}};
    }

   private:
    Fixture& f_;
  } ending(f);
  assert_started(f, false);
  RawClient c(f.server->port());
  c.send(post(kOfferType));
  assert_true(eventually([&] { return f.queue.waiting() == 1; }));
  assert_int_equal(f.queue.poll(ending), 1);
  assert_true(c.receive().empty());
}

void start_says_what_is_wrong(void**) {
  Fixture f;
  assert_started(f);
  const auto fails = [](Fixture& g, Error code, const char* part) {
    const auto r = g.start();
    if (r) fail_msg("started: %s", part);
    if (r.error().code != code || !contains(r.error().text, part))
      fail_msg("%s", r.error().text.c_str());
  };
  Fixture taken;
  taken.options.port = f.server->port();
  fails(taken, Error::kExists, "another program listens on 127.0.0.1:");
  Fixture foreign;
  foreign.options.address = IpAddress::v4(203, 0, 113, 77);
  fails(foreign, Error::kNotFound, "no interface of this machine has that address");
  Fixture mismatch;
  mismatch.options.private_key_pem = f.pem.private_key;
  fails(mismatch, Error::kInvalidArgument, "private key");
  Fixture no_certificate;
  no_certificate.options.certificate_pem = "hello";
  fails(no_certificate, Error::kMalformed, "BEGIN CERTIFICATE");
  Fixture no_key;
  no_key.options.private_key_pem = "hello";
  fails(no_key, Error::kInvalidArgument, "private key");
}

void requests_are_recorded(void**) {
  Fixture f;
  std::mutex mutex;
  std::vector<std::string> lines;
  f.options.on_request = [&](const RequestRecord& r) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::string(r.method) + " " + std::string(r.target) + " " +
                    std::to_string(r.status) + " " + std::to_string(r.body_bytes));
  };
  assert_started(f);
  ask(f, get("/hello.txt?q"));
  ask(f, post(kOfferType));
  ask(f, get("/hello.txt", "Range: bytes=0-4\r\n"));
  assert_true(eventually([&] {
    const std::lock_guard lock(mutex);
    return lines.size() == 3;
  }));
  assert_string_equal(lines[0].c_str(), "GET /hello.txt?q 200 12");
  assert_string_equal(lines[1].c_str(), "POST /.well-known/h4a 200 5");
  assert_string_equal(lines[2].c_str(), "GET /hello.txt 206 5");
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  std::signal(SIGPIPE, SIG_IGN);  // the raw client writes to connections that the server ended
  const CMUnitTest tests[] = {
      cmocka_unit_test(requests_get_their_status),
      cmocka_unit_test(ranges_and_preconditions),
      cmocka_unit_test(head_has_no_body),
      cmocka_unit_test(a_giant_body_still_gets_its_413),
      cmocka_unit_test(a_client_that_asks_first_is_told_to_go_on),
      cmocka_unit_test(pipelined_requests_are_answered_in_order),
      cmocka_unit_test(only_tls_1_2_and_later),
      cmocka_unit_test(the_protocol_is_http_1_1),
      cmocka_unit_test(slow_clients_are_cut_off),
      cmocka_unit_test(a_slow_loris_starves),
      cmocka_unit_test(a_reader_that_stops_is_cut_off),
      cmocka_unit_test(connections_are_limited),
      cmocka_unit_test(many_at_once),
      cmocka_unit_test(a_full_queue_is_503),
      cmocka_unit_test(an_answer_that_comes_too_late_is_for_nobody),
      cmocka_unit_test(the_server_ends_while_clients_are_busy),
      cmocka_unit_test(an_answer_outlives_the_server),
      cmocka_unit_test(start_says_what_is_wrong),
      cmocka_unit_test(requests_are_recorded),
  };
  return cmocka_run_group_tests_name("server", tests, nullptr, nullptr);
}
