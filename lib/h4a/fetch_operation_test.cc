// FetchOperation against a server on fake devices: files of every shape arrive whole and in order, and
// every way a fetch can fail ends it with its name and with no buffer left behind.
#include "h4a/fetch_operation.h"

#include "h4a/session_test_support.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

class MemorySink final : public FetchSink {
 public:
  std::vector<std::uint8_t> data;
  std::uint64_t size = 0;
  std::string etag;
  int heads = 0;
  std::uint64_t full_at = ~0ULL;  // a disk that is full from here on
  bool refuse_head = false;

  Result<void> on_head(const FetchHead& head) noexcept override {
    ++heads;
    size = head.size;
    etag = head.etag;
    return refuse_head ? Result<void>(failure(Error::kAccess)) : Result<void>();
  }
  Result<void> on_data(std::uint64_t offset, Bytes bytes) noexcept override {
    assert_int_equal(offset, data.size());
    if (offset + bytes.size() > full_at) return failure(Error::kIo);
    data.insert(data.end(), bytes.begin(), bytes.end());
    return {};
  }
};

struct Fetching : World {
  MemorySink sink;
  FetchOptions options;
  std::unique_ptr<FetchOperation> fetch;

  Fetching() {
    options.authority = "example.org";
    options.path = "/f";
    options.chunk_bytes = 100000;
  }
  void begin() {
    if (!client) connect();
    sink.data.clear();
    sink.heads = 0;
    fetch = std::make_unique<FetchOperation>(*client, sink, options);
    assert_ok(fetch->start(now));
  }
  void fetch_turn(std::size_t wire_max = SIZE_MAX) {
    turn(wire_max);
    fetch->poll(now);
  }
  bool finish(std::size_t max = 2000) {
    for (std::size_t i = 0; i < max && !fetch->finished(); ++i) fetch_turn();
    return fetch->finished();
  }
  void ends_with(FetchError error) {
    assert_true(finish());
    if (fetch->result().error != error)
      fail_msg("ended with: %s", std::string(to_string(fetch->result().error)).c_str());
  }
};

int make(void** state) {
  *state = new Fetching;
  return 0;
}
int drop(void** state) {
  Fetching* f = static_cast<Fetching*>(*state);
  f->fetch.reset();
  f->client.reset();
  f->server.reset();
  f->staging.reset();
  f->sinks.clear();
  const bool clean = f->client_device.objects() == 0 && f->server_device.objects() == 0 &&
                     f->handler.bodies_open == 0;
  delete f;
  if (!clean) print_error("something was not given back\n");
  return clean ? 0 : -1;
}
Fetching& fetching(void** state) {
  return *static_cast<Fetching*>(*state);
}

void files_of_every_shape(void** state) {
  Fetching& f = fetching(state);
  std::uint32_t seed = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{8192}, std::size_t{8193}, std::size_t{99999},
        std::size_t{100000}, std::size_t{100001}, std::size_t{200000}, std::size_t{3333333}}) {
    const auto body = pattern(size, ++seed);
    f.handler.files["/f"] = body;
    f.begin();
    f.ends_with(FetchError::kNone);
    assert_true(f.fetch->succeeded());
    assert_true(f.sink.data == body);
    assert_int_equal(f.sink.heads, 1);
    assert_int_equal(f.sink.size, size);
    assert_string_equal(f.sink.etag.c_str(), "\"v1\"");
    assert_int_equal(f.fetch->result().delivered_bytes, size);
    assert_int_equal(f.fetch->result().requests, 1 + (size + 99999) / 100000);
  }
}

void more_chunks_than_the_session_takes(void** state) {
  Fetching& f = fetching(state);
  f.client_options.max_requests = 2;
  f.options.chunks_in_flight = 6;
  f.handler.files["/f"] = pattern(1234567);
  f.begin();
  f.ends_with(FetchError::kNone);
  assert_true(f.sink.data == pattern(1234567));
}

/// The session drains at every moment: what is in flight still comes, and another session goes on behind it.
void a_fetch_goes_on_in_another_session(void** state) {
  Fetching& f = fetching(state);
  f.options.chunks_in_flight = 3;
  const auto body = pattern(1000000);
  f.handler.files["/f"] = body;
  for (std::size_t moment = 0; moment < 40; moment += 3) {
    f.begin();
    for (std::size_t i = 0; i < moment && !f.fetch->finished(); ++i) f.fetch_turn(2);
    if (moment % 2 == 0)
      f.server->drain();
    else
      f.client->drain();
    assert_true(f.finish());
    if (!f.fetch->succeeded()) {
      assert_true(f.fetch->result().error == FetchError::kSession);
      assert_true(f.client->may_be_renewed());
      const FetchResult got = f.fetch->result();
      assert_int_equal(got.delivered_bytes, f.sink.data.size());
      f.fetch.reset();
      f.client.reset();
      f.server.reset();
      f.connect();
      if (got.delivered_bytes > 0)
        f.options.resume = FetchResume{got.delivered_bytes, got.size, got.etag, got.last_modified};
      f.fetch = std::make_unique<FetchOperation>(*f.client, f.sink, f.options);
      assert_ok(f.fetch->start(f.now));
      f.ends_with(FetchError::kNone);
      f.options.resume.reset();
    }
    assert_true(f.sink.data == body);
    f.fetch.reset();
    f.client.reset();
    f.server.reset();
  }
}

void a_fetch_goes_on_with_the_same_file_only(void** state) {
  Fetching& f = fetching(state);
  const auto body = pattern(300000);
  f.handler.files["/f"] = body;
  const struct {
    FetchResume resume;
    const char* etag;
    FetchError error;
  } rows[] = {
      {{100000, 300000, "\"v1\"", ""}, "\"v1\"", FetchError::kNone},
      {{300000, 300000, "\"v1\"", ""}, "\"v1\"", FetchError::kNone},
      {{100000, 300000, "\"v1\"", ""}, "\"v2\"", FetchError::kChanged},
      {{100000, 300001, "\"v1\"", ""}, "\"v1\"", FetchError::kChanged},
      {{300001, 300000, "\"v1\"", ""}, "\"v1\"", FetchError::kChanged},
      {{100000, 300000, "\"v1\"", "yesterday"}, "\"v1\"", FetchError::kChanged},
      {{100000, 300000, "W/\"v1\"", ""}, "W/\"v1\"", FetchError::kChanged},  // says too little
  };
  for (const auto& row : rows) {
    f.handler.etag = row.etag;
    f.connect();
    f.options.resume = row.resume;
    f.sink.heads = 0;
    f.sink.data.assign(body.begin(),
                       body.begin() + static_cast<std::ptrdiff_t>(
                                          std::min<std::uint64_t>(row.resume.offset, body.size())));
    f.fetch = std::make_unique<FetchOperation>(*f.client, f.sink, f.options);
    assert_ok(f.fetch->start(f.now));
    f.ends_with(row.error);
    assert_int_equal(f.sink.heads, 0);
    if (row.error == FetchError::kNone) assert_true(f.sink.data == body);
    f.fetch.reset();
    f.client.reset();
    f.server.reset();
  }
}

void a_server_without_ranges(void** state) {
  Fetching& f = fetching(state);
  f.handler.ranges = false;
  f.handler.files["/f"] = pattern(100000);
  f.begin();
  f.ends_with(FetchError::kNone);
  assert_true(f.sink.data == pattern(100000));
  f.handler.files["/f"] = pattern(100001);
  f.begin();
  f.ends_with(FetchError::kTooLarge);
}

void a_missing_file(void** state) {
  Fetching& f = fetching(state);
  f.begin();
  f.ends_with(FetchError::kStatus);
  assert_int_equal(f.fetch->result().status, 404);
  assert_int_equal(f.sink.heads, 0);
}

// The file changes at every moment of the fetch: one version arrives whole, or none does.
void a_file_that_changes_meanwhile(void** state) {
  int changed = 0;
  for (int turns = 0; turns < 30; ++turns) {
    Fetching& f = fetching(state);
    f.handler.files["/f"] = pattern(900000, 1);
    f.handler.etag = "\"v1\"";
    f.begin();
    for (int i = 0; i < turns; ++i) f.fetch_turn(2);
    f.handler.files["/f"] = pattern(900000, 2);
    f.handler.etag = "\"v2\"";
    assert_true(f.finish());
    const FetchError e = f.fetch->result().error;
    changed += e == FetchError::kChanged;
    assert_true(e == FetchError::kNone || e == FetchError::kChanged);
    if (e == FetchError::kNone)
      assert_true(f.sink.data == pattern(900000, 1) || f.sink.data == pattern(900000, 2));
  }
  assert_in_range(changed, 3, 30);
}

void a_full_disk(void** state) {
  Fetching& f = fetching(state);
  f.handler.files["/f"] = pattern(900000);
  f.sink.full_at = 350000;
  f.begin();
  f.ends_with(FetchError::kSink);
  assert_true(f.fetch->result().local == Error::kIo);
  assert_int_equal(f.fetch->result().delivered_bytes, 300000);
  assert_true(f.client->state() == SessionState::kOpen);
}

void a_head_that_is_not_wanted(void** state) {
  Fetching& f = fetching(state);
  f.handler.files["/f"] = pattern(900000);
  f.sink.refuse_head = true;
  f.begin();
  f.ends_with(FetchError::kSink);
  assert_int_equal(f.fetch->result().requests, 1);
}

void cancelled_in_the_middle(void** state) {
  Fetching& f = fetching(state);
  f.handler.files["/f"] = pattern(3000000);
  f.begin();
  for (int i = 0; i < 6; ++i) f.fetch_turn(3);
  f.fetch->cancel();
  f.ends_with(FetchError::kCancelled);
  assert_true(f.client->state() == SessionState::kOpen);
  f.begin();  // the session serves on
  f.ends_with(FetchError::kNone);
}

void a_deadline(void** state) {
  Fetching& f = fetching(state);
  f.handler.files["/f"] = pattern(3000000);
  f.options.request_timeout = Duration::ms(100);
  f.begin();
  for (int i = 0; i < 6; ++i) f.fetch_turn(3);
  f.fabric.silent = true;
  f.pass(Duration::ms(100));
  f.fetch_turn();
  assert_true(f.fetch->result().error == FetchError::kTimeout);
  assert_false(f.fetch->finished());  // the buffers are still within reach
  f.fabric.silent = false;
  f.ends_with(FetchError::kTimeout);
}

void a_server_that_dies(void** state) {
  for (std::size_t moment = 0; moment < 20; ++moment) {
    Fetching& f = fetching(state);
    f.fabric.broken = false;
    f.handler.files["/f"] = pattern(900000);
    f.begin();
    for (std::size_t i = 0; i < moment; ++i) f.fetch_turn(2);
    f.fabric.broken = true;
    for (int i = 0; i < 20 && !f.fetch->finished(); ++i) {
      f.pass(Duration::ms(250));
      f.fetch_turn();
    }
    f.ends_with(FetchError::kSession);
    f.fetch.reset();
    f.client.reset();
    f.server.reset();
  }
}

void destroyed_in_the_middle(void** state) {
  Fetching& f = fetching(state);
  f.handler.files["/f"] = pattern(3000000);
  f.begin();
  for (int i = 0; i < 6; ++i) f.fetch_turn(3);
  f.fetch.reset();  // its buffers go, so the peer must be out
  assert_true(f.client->ended());
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
#define T(f) cmocka_unit_test_setup_teardown(f, make, drop)
  const CMUnitTest tests[] = {
      T(files_of_every_shape),
      T(more_chunks_than_the_session_takes),
      T(a_fetch_goes_on_in_another_session),
      T(a_fetch_goes_on_with_the_same_file_only),
      T(a_server_without_ranges),
      T(a_missing_file),
      T(a_file_that_changes_meanwhile),
      T(a_full_disk),
      T(a_head_that_is_not_wanted),
      T(cancelled_in_the_middle),
      T(a_deadline),
      T(a_server_that_dies),
      T(destroyed_in_the_middle),
  };
#undef T
  return cmocka_run_group_tests_name("fetch_operation", tests, nullptr, nullptr);
}
