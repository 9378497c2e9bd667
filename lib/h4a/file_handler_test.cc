// FileHandler: what a request for a file gets, and a whole fetch of a file from disk to memory.
#include "h4a/file_handler.h"

#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "h4a/fetch_operation.h"
#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

struct Served {
  std::string folder;
  std::unique_ptr<FileHandler> handler;
  ServerResponse response;

  void write(const std::string& name, const std::vector<std::uint8_t>& data) const {
    std::ofstream out(folder + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(data.data()),
              static_cast<std::streamsize>(data.size()));
  }
  ServerResponse& ask(std::string_view path, HeaderFields headers = {},
                      std::string_view method = "GET") {
    response.status = 200;
    response.headers.clear();
    response.body.reset();
    handler->handle({method, "https", "example.org", path, headers}, response);
    return response;
  }
  std::string header(std::string_view name) {
    return std::string(response.headers.find(name).value_or("(none)"));
  }
  std::vector<std::uint8_t> body() {
    std::vector<std::uint8_t> out(response.body ? response.body->size() : 0);
    if (response.body) assert_ok(response.body->read(0, out));
    return out;
  }
};

int make(void** state) {
  auto* s = new Served;
  char name[] = "/tmp/h4a_file_handler_XXXXXX";
  if (mkdtemp(name) == nullptr) return -1;
  s->folder = name;
  auto root = FileRoot::open(s->folder);
  if (!root) return -1;
  s->handler = std::make_unique<FileHandler>(
      std::move(*root), FileHandler::Options{.authorities = {"example.org"}, .bodies_max = 4});
  s->write("f.txt", pattern(1000));
  s->write("empty", {});
  *state = s;
  return 0;
}
int drop(void** state) {
  auto* s = static_cast<Served*>(*state);
  s->response.body.reset();
  for (const char* f : {"f.txt", "empty", "big"}) unlink((s->folder + "/" + f).c_str());
  rmdir(s->folder.c_str());
  delete s;
  return 0;
}
Served& served(void** state) {
  return *static_cast<Served*>(*state);
}

void a_whole_file(void** state) {
  Served& s = served(state);
  assert_int_equal(s.ask("/f.txt").status, 200);
  assert_true(s.body() == pattern(1000));
  assert_string_equal(s.header("content-length").c_str(), "1000");
  assert_string_equal(s.header("accept-ranges").c_str(), "bytes");
  assert_true(s.header("content-type").starts_with("text/plain"));
  assert_int_equal(s.header("etag").front(), '"');
  assert_int_equal(s.ask("/f.txt", {}, "HEAD").status, 200);
  assert_null(s.response.body.get());
  assert_string_equal(s.header("content-length").c_str(), "1000");
  assert_int_equal(s.ask("/empty").status, 200);
  assert_null(s.response.body.get());
  assert_int_equal(s.handler->counters().served, 3);
}

void ranges(void** state) {
  Served& s = served(state);
  const HeaderField middle[] = {{"Range", "bytes=100-199"}};
  assert_int_equal(s.ask("/f.txt", middle).status, 206);
  const auto all = pattern(1000);
  assert_true(s.body() == std::vector<std::uint8_t>(all.begin() + 100, all.begin() + 200));
  assert_string_equal(s.header("content-range").c_str(), "bytes 100-199/1000");
  const HeaderField last[] = {{"range", "bytes=-1"}};
  assert_int_equal(s.ask("/f.txt", last).status, 206);
  assert_true(s.body() == std::vector<std::uint8_t>{all.back()});
  const HeaderField behind[] = {{"range", "bytes=1000-"}};
  assert_int_equal(s.ask("/f.txt", behind).status, 416);
  assert_string_equal(s.header("content-range").c_str(), "bytes */1000");
  assert_null(s.response.body.get());
}

void conditions(void** state) {
  Served& s = served(state);
  static_cast<void>(s.ask("/f.txt"));
  const std::string etag = s.header("etag");
  const std::string date = s.header("last-modified");
  const HeaderField same[] = {{"if-none-match", etag}};
  assert_int_equal(s.ask("/f.txt", same).status, 304);
  assert_null(s.response.body.get());
  const HeaderField since[] = {{"if-modified-since", date}};
  assert_int_equal(s.ask("/f.txt", since).status, 304);
  const HeaderField other[] = {{"if-match", "\"other\""}};
  assert_int_equal(s.ask("/f.txt", other).status, 412);
  assert_null(s.response.body.get());
  const HeaderField old_range[] = {{"if-range", "\"other\""}, {"range", "bytes=0-9"}};
  assert_int_equal(s.ask("/f.txt", old_range).status, 200);
  const HeaderField range[] = {{"if-range", etag}, {"range", "bytes=0-9"}};
  assert_int_equal(s.ask("/f.txt", range).status, 206);
}

void nobody_leaves_the_root(void** state) {
  Served& s = served(state);
  for (const char* path : {"/../etc/passwd", "/%2e%2e/etc/passwd", "/a/../../etc/passwd"})
    assert_int_equal(s.ask(path).status, 403);
  assert_int_equal(s.ask("/none").status, 404);
  assert_int_equal(s.ask("/f%zz").status, 400);
  assert_int_equal(s.handler->counters().refused, 5);
}

void authorities(void** state) {
  Served& s = served(state);
  assert_true(s.handler->serves("https", "Example.ORG"));
  assert_false(s.handler->serves("https", "example.com"));
}

void the_date_is_handed_in(void** state) {
  Served& s = served(state);
  static_cast<void>(s.ask("/f.txt"));
  assert_string_equal(s.header("date").c_str(), "(none)");
  s.handler->set_time(784111777);
  static_cast<void>(s.ask("/f.txt"));
  assert_string_equal(s.header("date").c_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
}

void open_files_are_bounded(void** state) {
  Served& s = served(state);
  ServerResponse held[5];
  for (ServerResponse& r : held)
    s.handler->handle({"GET", "https", "example.org", "/f.txt", {}}, r);
  assert_int_equal(held[3].status, 200);
  assert_int_equal(held[4].status, 503);
  held[0].body.reset();
  s.handler->handle({"GET", "https", "example.org", "/f.txt", {}}, held[4]);
}

// ---- through sessions ----

class MemorySink final : public FetchSink {
 public:
  std::vector<std::uint8_t> data;
  Result<void> on_head(const FetchHead&) noexcept override { return {}; }
  Result<void> on_data(std::uint64_t, Bytes bytes) noexcept override {
    data.insert(data.end(), bytes.begin(), bytes.end());
    return {};
  }
};

// Fetches "/big", and after `turns` does something to the file.
FetchResult fetch_big(Served& s, MemorySink& sink, int turns, const std::function<void()>& then) {
  World w;
  w.served_by = s.handler.get();
  w.connect();
  FetchOptions options;
  options.authority = "example.org";
  options.path = "/big";
  options.chunk_bytes = 700000;
  FetchOperation fetch(*w.client, sink, options);
  assert_ok(fetch.start(w.now));
  for (int i = 0; i < 5000 && !fetch.finished(); ++i) {
    if (i == turns) then();
    w.turn(2);
    fetch.poll(w.now);
  }
  assert_true(fetch.finished());
  assert_true(w.client->state() == SessionState::kOpen);
  return fetch.result();
}

void a_file_from_disk_to_memory(void** state) {
  Served& s = served(state);
  s.write("big", pattern(5'000'000));
  MemorySink sink;
  const FetchResult r = fetch_big(s, sink, -1, [] {});
  assert_true(r.error == FetchError::kNone);
  assert_true(sink.data == pattern(5'000'000));
}

// Truncated while it is served: an error, never a crash, never bytes that were not in the file.
void a_file_that_is_cut_short_meanwhile(void** state) {
  Served& s = served(state);
  int caught = 0;
  for (int turns = 3; turns < 40; turns += 4) {
    s.write("big", pattern(5'000'000));
    MemorySink sink;
    const FetchResult r = fetch_big(
        s, sink, turns, [&] { assert_int_equal(truncate((s.folder + "/big").c_str(), 100), 0); });
    const auto all = pattern(5'000'000);
    assert_true(std::equal(sink.data.begin(), sink.data.end(), all.begin()));
    if (r.error == FetchError::kNone) {  // the server had read all of it
      assert_int_equal(sink.data.size(), all.size());
      continue;
    }
    assert_true(r.error == FetchError::kStatus || r.error == FetchError::kChanged);
    ++caught;
  }
  assert_in_range(caught, 3, 9);
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
#define T(f) cmocka_unit_test_setup_teardown(f, make, drop)
  const CMUnitTest tests[] = {
      T(a_whole_file),
      T(ranges),
      T(conditions),
      T(nobody_leaves_the_root),
      T(authorities),
      T(the_date_is_handed_in),
      T(open_files_are_bounded),
      T(a_file_from_disk_to_memory),
      T(a_file_that_is_cut_short_meanwhile),
  };
#undef T
  return cmocka_run_group_tests_name("file_handler", tests, nullptr, nullptr);
}
