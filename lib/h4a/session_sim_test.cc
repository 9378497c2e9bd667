// Sessions over two whole stacks in the simulator: real packets, real ESP, a virtual clock, one seed.
#include "h4a/fetch_operation.h"
#include "h4a/server.h"
#include "h4a/session_test_support.h"
#include "sim/world.h"

#include "test/test_support.h"

namespace h4a::test {
namespace {

using namespace http;

class MemorySink final : public FetchSink {
 public:
  std::vector<std::uint8_t> data;
  Result<void> on_head(const FetchHead&) noexcept override { return {}; }
  Result<void> on_data(std::uint64_t, Bytes bytes) noexcept override {
    data.insert(data.end(), bytes.begin(), bytes.end());
    return {};
  }
};

PeerEndpoint endpoint(const sim::World& w, std::size_t here, const LocalEndpoint& peer,
                      const sim::Protection& protection, std::uint16_t mtu) {
  PeerEndpoint e;
  e.local_address = w.address(here);
  e.remote_address = w.address(1 - here);
  e.qpn = peer.qpn;
  e.psn = peer.psn;
  e.path_mtu = mtu;
  e.recv_depth = peer.recv_depth;
  e.recv_bytes = peer.recv_bytes;
  e.association = protection.of_host[here];
  return e;
}

struct Run {
  explicit Run(const sim::WorldOptions& options) : world(options), protection(protect(world)) {
    server = std::make_unique<Server>(world.host(1), *world.host(1).alloc_pd(), world.random(),
                                      handler, Server::Options{});
    client = std::make_unique<ClientSession>(world.host(0), *world.host(0).alloc_pd(),
                                             world.random(), session_options());
    world.set_application([this](Instant now) {
      std::size_t work = server->poll(now) + client->poll(now);
      if (fetch) work += fetch->poll(now);
      return work > 0 ? now : std::min(server->next_deadline(), client->next_deadline());
    });
  }
  ~Run() {
    fetch.reset();
    client.reset();
    server.reset();
  }
  // Time-outs of a fast link, so that a lossy run does not take long.
  static SessionOptions session_options() {
    SessionOptions o;
    o.ack_timeout = 9;
    return o;
  }
  void connect(std::uint16_t mtu) {
    assert_ok(server->start());
    const auto s = server->open();
    const auto c = client->open();
    assert_ok(s);
    assert_ok(c);
    assert_ok((*s)->connect(endpoint(world, 1, *c, protection, mtu), world.now()));
    assert_ok(client->connect(endpoint(world, 0, (*s)->local(), protection, mtu), world.now()));
  }
  bool get_file(std::size_t size, Duration limit) {
    handler.files["/f"] = pattern(size);
    FetchOptions options;
    options.authority = "example.org";
    options.path = "/f";
    options.chunk_bytes = std::uint64_t{1} << 20;
    fetch = std::make_unique<FetchOperation>(*client, sink, options);
    if (!fetch->start(world.now())) return false;
    return world.run_until([this] { return fetch->finished(); }, limit);
  }

  MemoryHandler handler;
  MemorySink sink;
  sim::World world;
  sim::Protection protection;
  std::unique_ptr<Server> server;
  std::unique_ptr<ClientSession> client;
  std::unique_ptr<FetchOperation> fetch;
};

void fetch_over(const sim::WorldOptions& options, std::uint16_t mtu, std::size_t size) {
  Run run(options);
  run.connect(mtu);
  const bool done = run.get_file(size, Duration::s(60));
  if (!done || !run.fetch->succeeded())
    fail_msg("seed %llu: fetch: %s, session: %s", static_cast<unsigned long long>(options.seed),
             std::string(to_string(run.fetch->result().error)).c_str(),
             std::string(to_string(run.client->error())).c_str());
  assert_true(run.sink.data == pattern(size));
}

void a_file_over_a_clean_link(void**) {
  const std::uint16_t mtus[] = {256, 1024, 4096};
  for (const std::uint16_t mtu : mtus) fetch_over({}, mtu, 3'000'000);
  sim::WorldOptions options;
  options.ipv6 = true;
  fetch_over(options, 1024, 3'000'000);
}

void files_over_lossy_links(void**) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    sim::WorldOptions options;
    options.seed = seed;
    options.link.loss = 0.01;
    options.link.duplicate = seed % 2 == 0 ? 0.02 : 0;
    options.link.reorder = seed % 3 == 0 ? 0.02 : 0;
    options.link.corrupt = seed % 4 == 0 ? 0.005 : 0;
    fetch_over(options, 1024, 500'000);
  }
}

void a_link_that_goes_down_ends_the_session(void**) {
  Run run({});
  run.connect(1024);
  run.world.run_for(Duration::ms(1));
  bool down = false;
  run.world.set_application([&](Instant now) {
    const std::size_t work = run.client->poll(now) + run.server->poll(now) + run.fetch->poll(now);
    if (!down && run.fetch->result().delivered_bytes > 0) {
      run.world.link().set_up(false);
      down = true;
    }
    return work > 0 ? now : run.client->next_deadline();
  });
  assert_true(run.get_file(20'000'000, Duration::s(60)));
  assert_true(down);
  assert_true(run.fetch->result().error == FetchError::kSession);
  assert_true(run.client->error() == SessionError::kTransport);
}

void a_path_that_is_not_there_is_not_confirmed(void**) {
  Run run({});
  run.world.link().set_up(false);
  run.connect(1024);
  const Instant before = run.world.now();
  assert_true(run.world.run_until([&] { return run.client->ended(); }, Duration::s(5)));
  assert_true(run.client->error() == SessionError::kNotConfirmed);
  assert_true(run.world.now() - before <= Duration::ms(1100));
}

}  // namespace
}  // namespace h4a::test

int main() {
  using namespace h4a::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_file_over_a_clean_link),
      cmocka_unit_test(files_over_lossy_links),
      cmocka_unit_test(a_link_that_goes_down_ends_the_session),
      cmocka_unit_test(a_path_that_is_not_there_is_not_confirmed),
  };
  return cmocka_run_group_tests_name("session_sim", tests, nullptr, nullptr);
}
