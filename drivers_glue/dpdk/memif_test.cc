// memif: two processes, each with an EAL of its own, without hugepages. The child is the server.
#include <array>
#include <cstring>
#include <filesystem>
#include <signal.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/time.h"
#include "drivers_glue/dpdk/eal.h"
#include "drivers_glue/dpdk/port.h"
#include "drivers_glue/dpdk/test_ports.h"

#include "test/test_support.h"

using namespace h4a;
using namespace h4a::dpdk;
using namespace h4a::dpdk::test;

namespace {

constexpr std::array<std::size_t, 5> kSizes{60, 1514, 2100, 4200, 9014};

std::string socket_path() {
  return "/tmp/h4a-memif-test-" + std::to_string(::getpid()) + ".sock";
}

std::unique_ptr<packet::Port> open_or_null(const std::string& spec) {
  std::string error;
  PortOptions options;
  options.frames = 2048;
  auto port = open_port(spec, options, error);
  if (!port) print_error("%s\n", error.c_str());
  return port ? *std::move(port) : nullptr;
}

/// Sends back what comes, until a frame of 99 bytes. @return 0 if all buffers are back then.
int echo(const std::string& path) {
  auto port = open_or_null("memif:" + path + ",role=server");
  if (!port) return 1;
  const std::size_t all = port->pool().available();
  while (packet::Frame* f = receive_one(*port, 6000)) {
    const bool last = f->size() == 99;
    if (!send_one(*port, f)) return 2;
    if (last) {
      // Keep the link until the client has its answer and goes.
      ::usleep(200'000);
      return port->pool().available() == all ? 0 : 3;
    }
  }
  return 4;
}

void bounce(packet::Port& port, std::size_t size, std::uint8_t seed) {
  assert_true(send_one(port, make_frame(port, size, seed)));
  packet::Frame* f = receive_one(port);
  assert_non_null(f);
  assert_true(matches(*f, size, seed));
  port.pool().release_one(f);
}

// The client opens first, before there is a server; jumbo frames come back whole; all buffers
// return.
void test_two_processes(void**) {
  const std::string path = socket_path();
  auto client = open_or_null("memif:" + path);
  assert_non_null(client.get());
  assert_int_equal(client->mtu(), 9000);
  packet::Frame* f = make_frame(*client, 64, 0);
  assert_int_equal(client->transmit({&f, 1}), 0);  // no link yet: the frame stays ours
  client->pool().release_one(f);
  const std::size_t all = client->pool().available();

  // A fresh process for the server: the EAL of this one does not survive a fork.
  const pid_t child = spawn([&] {
    ::execl("/proc/self/exe", "memif_test", "echo", path.c_str(), nullptr);
    return 127;
  });
  std::uint8_t seed = 0;
  for (const std::size_t size : kSizes) bounce(*client, size, ++seed);
  for (int i = 0; i < 3000; ++i) bounce(*client, 4200, ++seed);  // round the ring
  f = make_frame(*client, 9015, 1);
  assert_int_equal(client->transmit({&f, 1}), 1);
  assert_int_equal(client->counters().drops[Drop::kOversize], 1);
  bounce(*client, 99, 1);
  assert_int_equal(wait_for(child), 0);
  assert_int_equal(client->pool().available(), all);
  assert_false(std::filesystem::exists(path));
}

// The server is killed under load and started again: the client lives, and finds the new one.
void test_server_killed(void**) {
  const std::string path = socket_path();
  auto client = open_or_null("memif:" + path);
  assert_non_null(client.get());
  const std::size_t all = client->pool().available();
  for (int round = 0; round < 5; ++round) {
    const pid_t child = spawn([&] {
      ::execl("/proc/self/exe", "memif_test", "echo", path.c_str(), nullptr);
      return 127;
    });
    bounce(*client, 4200, 1);
    std::array<packet::Frame*, 32> burst{};
    const Instant kill_at = steady_now() + Duration::ms(30);
    bool killed = false;
    const auto keep_busy = [&] {
      for (auto& f : burst) f = make_frame(*client, 4200, 9);
      const std::size_t n = client->transmit(burst);
      client->pool().release(std::span<packet::Frame* const>(burst).subspan(n));
      const std::size_t m = client->receive(burst);
      client->pool().release({burst.data(), m});
      if (!killed && steady_now() > kill_at) killed = ::kill(child, SIGKILL) == 0;
      return killed && steady_now() > kill_at + Duration::ms(120);
    };
    while (!keep_busy()) {
    }
    assert_int_equal(wait_for(child), -1);
  }
  assert_int_equal(client->pool().available(), all);
  client.reset();
  std::filesystem::remove(path);
}

void test_addresses(void**) {
  std::string error;
  const std::string path = socket_path();
  assert_error(open_port("memif:/no/such/dir/x,role=server", {}, error), Error::kNotFound);
  assert_true(error.find("does not exist") != std::string::npos);
  assert_error(open_port("memif:/no/such/dir/x", {}, error), Error::kNotFound);
  assert_true(error.find("does not exist") != std::string::npos);
  assert_error(open_port("memif:/etc/passwd,role=server", {}, error), Error::kExists);
  assert_error(open_port("memif:/etc/passwd", {}, error), Error::kExists);
  assert_error(open_port("memif:" + std::string(200, 'x'), {}, error), Error::kMalformed);

  // A relative path.
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path("/tmp");
  assert_ok(open_port("memif:" + path.substr(5) + ",role=server,frames=128", {}, error));
  std::filesystem::current_path(here);

  // A live server on the path.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  assert_int_equal(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  assert_int_equal(::listen(fd, 1), 0);
  assert_error(open_port("memif:" + path + ",role=server", {}, error), Error::kExists);
  assert_true(error.find("another process is the server") != std::string::npos);

  // The same after its death: the socket is stale and is taken over.
  ::close(fd);
  assert_true(std::filesystem::exists(path));
  PortOptions options;
  options.frames = 256;
  const auto port = open_port("memif:" + path + ",role=server", options, error);
  assert_ok(port);
}

void test_reopen(void**) {
  for (int i = 0; i < 20; ++i) {
    const auto server = open_or_null("memif:" + socket_path() + ",role=server,frames=128");
    assert_non_null(server.get());
    const auto client = open_or_null("memif:" + socket_path() + ".none,frames=128");
    assert_non_null(client.get());
    packet::Frame* f = nullptr;
    assert_int_equal(server->receive({&f, 1}), 0);
    assert_int_equal(client->receive({&f, 1}), 0);
  }
  assert_false(std::filesystem::exists(socket_path()));
}

/// Connects to a memif server's socket and leaves before it says anything.
bool look_and_leave(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  const bool connected = ::connect(fd, to, sizeof(address)) == 0;
  ::close(fd);
  return connected;
}

// The driver alone would end the server: it forgets a connection that it cannot greet.
void test_peers_that_leave_before_the_hello(void**) {
  const std::string path = socket_path();
  const pid_t server = spawn([&] {
    ::execl("/proc/self/exe", "memif_test", "echo", path.c_str(), nullptr);
    return 127;
  });
  for (int i = 0; i < 500 && !look_and_leave(path); ++i) ::usleep(10'000);
  for (int i = 0; i < 100; ++i) {
    assert_true(look_and_leave(path));
    ::usleep(1000);
  }
  std::string error;
  assert_error(open_port("memif:" + path + ",role=server", {}, error), Error::kExists);
  auto port = open_or_null("memif:" + path);
  assert_non_null(port.get());
  bounce(*port, 1000, 7);
  bounce(*port, 99, 8);
  assert_int_equal(wait_for(server), 0);
}

int start(void**) {
  std::string error;
  EalOptions options;
  options.hugepages = false;
  options.memory_mb = 128;
  const auto r = start_eal(options, error);
  if (!r) print_error("%s\n", error.c_str());
  return r ? 0 : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "echo") {
    if (start(nullptr) != 0) return 5;
    return echo(argv[2]);
  }
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_two_processes),
      cmocka_unit_test(test_server_killed),
      cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_reopen),
      cmocka_unit_test(test_peers_that_leave_before_the_hello),
  };
  return cmocka_run_group_tests(tests, start, nullptr);
}
