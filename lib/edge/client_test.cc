// Client and server together, over loopback.
#include "edge/client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/alt_svc.h"
#include "edge/edge_fixture.h"

#include "test/test_support.h"

namespace h4a::edge {
namespace {

using test::Fixture;

#define assert_done(outcome)                                              \
  do {                                                                    \
    const auto& done_ = (outcome);                                        \
    if (!done_) fail_msg("%s: %s", #outcome, done_.error().text.c_str()); \
  } while (0)

/// Fails with this code, and a text that has `part` in it.
#define assert_fails(outcome, want, part)                                                     \
  do {                                                                                        \
    const auto& fails_ = (outcome);                                                           \
    if (fails_) fail_msg("%s succeeded", #outcome);                                           \
    if (fails_.error().code != (want) || fails_.error().text.find(part) == std::string::npos) \
      fail_msg("%s: %d, %s", #outcome, static_cast<int>(fails_.error().code),                 \
               fails_.error().text.c_str());                                                  \
  } while (0)

const std::vector<std::uint8_t> kOffer{1, 2, 3, 4, 5};

EdgeClient client_of(const Fixture& f) {
  ClientOptions o;
  o.ca_pem = f.pem.certificate;
  o.connect_timeout = Duration::s(5);
  auto c = EdgeClient::create(std::move(o));
  assert_done(c);
  return std::move(*c);
}

Outcome<OfferResult> offer(const Fixture& f, EdgeClient& c, const std::string& host = "localhost") {
  return c.post_offer(*parse_url(f.url("/", host)), kOffer);
}

struct Body {
  Outcome<FetchResult> result = fail_with(Error::kInvalidState, "not fetched");
  ResponseHead head;  // as told before the body
  std::string text;
  std::uint64_t progress = 0;
};

Body fetch(EdgeClient& c, const std::string& url, const std::string& range = {}) {
  Body b;
  Fetch f;
  f.url = url;
  f.range = range;
  f.on_head = [&](const ResponseHead& h) { return b.head = h, b.text.empty(); };
  f.on_body = [&](Bytes p) { return b.text.append(p.begin(), p.end()), true; };
  f.on_progress = [&](std::uint64_t n, std::int64_t) { return b.progress = n, true; };
  b.result = c.fetch(f);
  return b;
}

void an_offer_is_answered(void**) {
  Fixture f;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  const auto got = offer(f, c);
  assert_done(got);
  assert_eq(got->answer, (std::vector<std::uint8_t>{5, 4, 3, 2, 1}));
  assert_eq(got->server_address, IpAddress::v4(127, 0, 0, 1));
  const std::string authority = "localhost:" + std::to_string(f.server->port());
  assert_string_equal(f.handler.last.authority.c_str(), authority.c_str());
  assert_eq(f.handler.last.source, IpAddress::v4(127, 0, 0, 1));
  const std::vector<std::string> authorities{authority,
                                             "127.0.0.1:" + std::to_string(f.server->port())};
  assert_eq(f.handler.last.authorities, authorities);
  assert_int_equal(f.server->counters().offers_answered, 1);
}

void credentials_travel_with_the_offer(void**) {
  Fixture f;
  assert_done(f.start());
  ClientOptions o;
  o.ca_pem = f.pem.certificate;
  o.headers = {"Authorization: Bearer abc", "Cookie: a=b"};
  auto c = EdgeClient::create(std::move(o));
  assert_done(offer(f, *c));
  assert_string_equal(f.handler.last.authorization.c_str(), "Bearer abc");
  assert_string_equal(f.handler.last.cookie.c_str(), "a=b");
}

void offers_and_fetches_share_a_connection(void**) {
  Fixture f;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  for (int i = 0; i < 5; ++i) assert_done(offer(f, c));
  assert_done(fetch(c, f.url("/hello.txt")).result);
  assert_int_equal(f.server->counters().connections, 1);
  assert_int_equal(f.server->counters().requests, 6);
}

void files_are_fetched(void**) {
  Fixture f;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  const Body b = fetch(c, f.url("/hello.txt"));
  assert_done(b.result);
  assert_string_equal(b.text.c_str(), "hello, world");
  assert_int_equal(b.head.status, 200);
  assert_int_equal(b.head.content_length, 12);
  assert_string_equal(b.head.content_type.c_str(), "text/plain; charset=utf-8");
  assert_string_equal(b.head.protocol.c_str(), "HTTP/1.1");
  assert_int_equal(parse_alt_svc(b.head.alt_svc)->port, f.server->port());
  assert_false(b.head.etag.empty());
  const Body large = fetch(c, f.url("/large.bin"));
  assert_true(large.text == test::pattern_text(Fixture::kLargeBytes));
  assert_int_equal(large.result->body_bytes, Fixture::kLargeBytes);
  assert_int_equal(large.progress, Fixture::kLargeBytes);
  const Body empty = fetch(c, f.url("/empty"));
  assert_done(empty.result);
  assert_int_equal(empty.head.status, 200);  // told, though there is no body
  assert_true(empty.text.empty());
}

void ranges_are_fetched(void**) {
  Fixture f;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  const Body middle = fetch(c, f.url("/large.bin"), "bytes=70000-199999");
  assert_int_equal(middle.head.status, 206);
  assert_string_equal(middle.head.content_range.c_str(), "bytes 70000-199999/1000003");
  assert_true(middle.text == test::pattern_text(Fixture::kLargeBytes).substr(70000, 130000));
  const Body last = fetch(c, f.url("/hello.txt"), "bytes=-5");
  assert_string_equal(last.text.c_str(), "world");
  const Body behind = fetch(c, f.url("/hello.txt"), "bytes=12-");
  assert_done(behind.result);
  assert_int_equal(behind.result->head.status, 416);
  assert_string_equal(behind.result->head.content_range.c_str(), "bytes */12");
}

void statuses_are_results(void**) {
  Fixture f;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  const Body missing = fetch(c, f.url("/nowhere"));
  assert_done(missing.result);
  assert_int_equal(missing.result->head.status, 404);
  assert_true(missing.text.empty());  // the explanation is no body
  assert_int_equal(fetch(c, f.url("/out")).result->head.status, 403);
}

void a_callback_can_stop_it(void**) {
  Fixture f;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  Fetch x;
  x.url = f.url("/large.bin");
  x.on_body = [](Bytes) { return false; };
  assert_fails(c.fetch(x), Error::kClosed, "stopped");
  x.on_body = nullptr;
  x.on_head = [](const ResponseHead&) { return false; };
  assert_fails(c.fetch(x), Error::kClosed, "stopped");
  x.url = f.url("/empty");
  assert_fails(c.fetch(x), Error::kClosed, "stopped");
}

void an_untrusted_certificate_is_refused(void**) {
  Fixture f;
  Fixture other;
  assert_done(f.start());
  EdgeClient c = client_of(other);  // trusts only another server's
  assert_fails(offer(f, c), Error::kAuthentication, "self-signed: pass the server's certificate");
  assert_fails(fetch(c, f.url("/hello.txt")).result, Error::kAuthentication, "self-signed");
  auto system = EdgeClient::create({});
  assert_fails(offer(f, *system), Error::kAuthentication, "self-signed");
  assert_int_equal(f.handler.calls.load(), 0);
}

void an_expired_certificate_is_refused(void**) {
  Fixture f({"localhost"}, -1);
  assert_done(f.start());
  EdgeClient c = client_of(f);
  assert_fails(offer(f, c), Error::kAuthentication, "it has expired");
}

void another_name_is_refused(void**) {
  Fixture f({"files.example"});
  assert_done(f.start());
  EdgeClient c = client_of(f);
  assert_fails(offer(f, c), Error::kAuthentication, "it does not name localhost");
}

void a_server_without_h4a_is_told_apart(void**) {
  Fixture f;
  f.options.offers = nullptr;
  assert_done(f.start(false));
  EdgeClient c = client_of(f);
  assert_fails(offer(f, c), Error::kUnsupported, "plain HTTPS only");
  const Body b = fetch(c, f.url("/hello.txt"));
  assert_string_equal(b.text.c_str(), "hello, world");
  assert_true(b.head.alt_svc.empty());
}

void refusals_have_their_meaning(void**) {
  Fixture f;
  f.options.limits.half_open.per_source = 100;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  const std::pair<unsigned, Error> cases[] = {
      {409, Error::kUnsupported},    {401, Error::kAuthentication}, {403, Error::kAuthentication},
      {421, Error::kAuthentication}, {429, Error::kBusy},           {503, Error::kBusy},
      {400, Error::kMalformed},      {500, Error::kMalformed}};
  for (const auto& [status, error] : cases) {
    f.handler.status = status;
    assert_fails(offer(f, c), error, "localhost:");
  }
}

void a_stack_that_does_not_answer_is_503(void**) {
  Fixture f;
  f.options.limits.answer_timeout = Duration::ms(100);
  assert_done(f.start(false));
  EdgeClient c = client_of(f);
  assert_fails(offer(f, c), Error::kBusy, "503");
  assert_int_equal(f.queue.poll(f.handler), 0);  // nobody waits for it any more
  f.stack = std::make_unique<test::StackThread>(f.queue, f.handler);
  assert_done(offer(f, c));  // and the connection lives on
}

void too_many_half_open_sessions_are_429(void**) {
  Fixture f;
  f.options.limits.half_open.per_source = 2;
  assert_done(f.start());
  EdgeClient c = client_of(f);
  assert_done(offer(f, c));
  assert_done(offer(f, c));
  assert_fails(offer(f, c), Error::kBusy, "429");
  assert_int_equal(f.handler.calls.load(), 2);
}

void nobody_there(void**) {
  Fixture f;
  assert_done(f.start());
  const std::string url = f.url("/");
  f.server.reset();
  EdgeClient c = client_of(f);
  assert_fails(c.post_offer(*parse_url(url), kOffer), Error::kClosed,
               "nothing listens on localhost:");
  assert_fails(c.post_offer(*parse_url("https://nobody.invalid/"), kOffer), Error::kNotFound,
               "does not resolve");
}

/// A listener that takes connections and says nothing.
class Mute {
 public:
  Mute() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    struct sockaddr_in a = {};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(a);
    if (bind(fd_, reinterpret_cast<struct sockaddr*>(&a), n) != 0 || listen(fd_, 8) != 0 ||
        getsockname(fd_, reinterpret_cast<struct sockaddr*>(&a), &n) != 0)
      fail_msg("cannot listen");
    port = ntohs(a.sin_port);
  }
  ~Mute() { ::close(fd_); }
  std::uint16_t port = 0;

 private:
  int fd_;
};

void a_mute_server_times_out(void**) {
  const Mute mute;
  ClientOptions o;
  o.connect_timeout = Duration::ms(200);
  auto c = EdgeClient::create(std::move(o));
  const auto url = parse_url("https://127.0.0.1:" + std::to_string(mute.port) + "/");
  assert_fails(c->post_offer(*url, kOffer), Error::kTimeout, "did not answer in time");
}

// A person does not wait for ten seconds after Ctrl-C, nor a deadline.
void who_offers_can_stop_waiting(void**) {
  const Mute mute;
  auto c = EdgeClient::create({});
  const auto url = parse_url("https://127.0.0.1:" + std::to_string(mute.port) + "/");
  const auto answer = c->post_offer(*url, kOffer, [] { return false; });
  assert_fails(answer, Error::kClosed, "stopped");
}

void a_server_that_dies_ends_the_fetch(void**) {
  Fixture f;
  f.write("root/huge.bin", std::string(64 * 1024 * 1024, 'x'));
  assert_done(f.start());
  EdgeClient c = client_of(f);
  Fetch x;
  x.url = f.url("/huge.bin");
  x.on_body = [&](Bytes) { return f.server.reset(), true; };
  assert_fails(c.fetch(x), Error::kClosed, "closed the connection early");
}

void a_file_cut_short_is_not_taken_for_whole(void**) {
  Fixture f;
  f.write("root/huge.bin", std::string(64 * 1024 * 1024, 'x'));
  assert_done(f.start());
  EdgeClient c = client_of(f);
  Fetch x;
  x.url = f.url("/huge.bin");
  x.on_body = [&](Bytes) { return f.write("root/huge.bin", "short"), true; };
  assert_fails(c.fetch(x), Error::kClosed, "closed the connection early");
}

void bad_options_name_the_file(void**) {
  ClientOptions o;
  o.ca_file = "/nowhere/ca.pem";
  assert_fails(EdgeClient::create(std::move(o)), Error::kInvalidArgument,
               "/nowhere/ca.pem: no such file");
  Fixture f;
  assert_done(f.start());
  ClientOptions p;
  p.ca_file = f.top / "secret";  // no certificate in it
  auto c = EdgeClient::create(std::move(p));
  assert_fails(offer(f, *c), Error::kInvalidArgument, "the CA file cannot be used");
}

void urls(void**) {
  const auto u = parse_url("HTTPS://Files.Example:8443/a%20b/c?q=1#frag");
  assert_done(u);
  assert_string_equal(u->host.c_str(), "files.example");
  assert_int_equal(u->port, 8443);
  assert_string_equal(u->authority.c_str(), "files.example:8443");
  assert_string_equal(u->target.c_str(), "/a%20b/c?q=1");
  assert_string_equal(file_name_of(*u).c_str(), "c");
  assert_string_equal(parse_url("https://a.example:443")->authority.c_str(), "a.example");
  assert_string_equal(parse_url("https://a.example")->target.c_str(), "/");
  assert_string_equal(parse_url("https://[FD77::1]:9/")->authority.c_str(), "[fd77::1]:9");
  assert_string_equal(parse_url("https://[fd77::1]:9/")->host.c_str(), "fd77::1");
  for (const char* text : {"", "files.example/x", "http://a/x", "ftp://a/x", "https://",
                           "https://a b/", "https://u:p@a/", "https://a:99999/"})
    assert_fails(parse_url(text), Error::kInvalidArgument, "a URL looks like");
}

void file_names_are_safe(void**) {
  const std::pair<const char*, const char*> cases[] = {
      {"https://a/", "index.html"},       {"https://a/x/", "index.html"},
      {"https://a/x/y.bin?z/w", "y.bin"}, {"https://a/a%20b", "a b"},
      {"https://a/x%2f..%2fy", "x_.._y"}, {"https://a/%2e%2e", "index.html"},
      {"https://a/a%00b%0a", "a_b_"}};
  for (const auto& [url, name] : cases) {
    const auto u = parse_url(url);
    assert_done(u);
    if (file_name_of(*u) != name) fail_msg("%s: %s", url, file_name_of(*u).c_str());
  }
}

void names_resolve(void**) {
  assert_eq(*resolve("10.0.0.1"), std::vector{IpAddress::v4(10, 0, 0, 1)});
  assert_eq(resolve("fd77::1")->front(), *IpAddress::parse("fd77::1"));
  assert_done(resolve("localhost"));
  assert_fails(resolve("nobody.invalid"), Error::kNotFound, "does not resolve");
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_offer_is_answered),
      cmocka_unit_test(credentials_travel_with_the_offer),
      cmocka_unit_test(offers_and_fetches_share_a_connection),
      cmocka_unit_test(files_are_fetched),
      cmocka_unit_test(ranges_are_fetched),
      cmocka_unit_test(statuses_are_results),
      cmocka_unit_test(a_callback_can_stop_it),
      cmocka_unit_test(an_untrusted_certificate_is_refused),
      cmocka_unit_test(an_expired_certificate_is_refused),
      cmocka_unit_test(another_name_is_refused),
      cmocka_unit_test(a_server_without_h4a_is_told_apart),
      cmocka_unit_test(refusals_have_their_meaning),
      cmocka_unit_test(a_stack_that_does_not_answer_is_503),
      cmocka_unit_test(too_many_half_open_sessions_are_429),
      cmocka_unit_test(nobody_there),
      cmocka_unit_test(a_mute_server_times_out),
      cmocka_unit_test(who_offers_can_stop_waiting),
      cmocka_unit_test(a_server_that_dies_ends_the_fetch),
      cmocka_unit_test(a_file_cut_short_is_not_taken_for_whole),
      cmocka_unit_test(bad_options_name_the_file),
      cmocka_unit_test(urls),
      cmocka_unit_test(file_names_are_safe),
      cmocka_unit_test(names_resolve),
  };
  return cmocka_run_group_tests_name("client", tests, nullptr, nullptr);
}
