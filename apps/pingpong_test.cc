// Ping-pong: the message of the exchange against ones of rdma-core, the exchange over a real socket, and
// two ends against each other over simulated links that lose nothing, and some.
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "apps/pingpong_end.h"
#include "apps/pingpong_exchange.h"
#include "sim/world.h"

#include "test/test_support.h"

namespace h4a::apps {
namespace {

using verbs::QpType;

void messages_are_those_of_rdma_core(void**) {
  // Captured from ibv_rc_pingpong -g 1 on 10.77.0.1.
  const char captured[] = "0000:000033:df8c90:00000000000000000000ffff0a4d0001";
  static_assert(sizeof(captured) == kPingpongMessageSize);
  const PingpongContact c{Qpn(0x33), Psn(0xdf8c90), IpAddress::v4(10, 77, 0, 1)};
  const auto message = to_message(c);
  assert_memory_equal(message.data(), captured, sizeof(captured));
  const auto parsed = parse_message({captured, sizeof(captured)});
  assert_true(parsed && *parsed == c);
}

void what_is_no_message_is_refused(void**) {
  const std::string gid(32, '0');
  const struct {
    int line;
    std::string text;
    bool ok;
  } cases[] = {
      {1, "0000:000033:df8c90:" + gid, true},
      {2, "ffff:ffffff:ffffff:" + gid, true},
      {3, "0:1:2:" + gid, true},
      {4, "", false},
      {5, "0000:000033:df8c90", false},
      {6, "0000:000033:df8c90:" + gid.substr(1), false},
      {7, "0000:000033:df8c90:" + gid + "0", false},
      {8, "0000:1000000:df8c90:" + gid, false},
      {9, "0000:000033:1000000:" + gid, false},
      {10, "0000:00003g:df8c90:" + gid, false},
      {11, "0000::df8c90:" + gid, false},
      {12, "0000:000033:-00001:" + gid, false},
      {13, "0000:000033:df8c90:" + std::string(31, '0') + "x", false},
      {14, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", false},
  };
  for (const auto& c : cases)
    if (parse_message(c.text).has_value() != c.ok) fail_msg("case %d", c.line);
}

bool nap(int) {
  ::usleep(1000);
  return true;
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(a);
  assert_int_equal(::bind(fd, reinterpret_cast<sockaddr*>(&a), size), 0);
  assert_int_equal(::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size), 0);
  ::close(fd);
  return ntohs(a.sin_port);
}

void two_ends_tell_each_other_over_tcp(void**) {
  const PingpongContact a{Qpn(0x11), Psn(1), IpAddress::v4(10, 0, 0, 1)};
  const PingpongContact b{Qpn(0x22), Psn(2), IpAddress::v4(10, 0, 0, 2)};
  const std::uint16_t port = free_port();
  PingpongChannel server(nap);
  assert_true(server.listen(port));
  bool joined = false;
  std::thread client([&] {
    PingpongChannel channel(nap);
    if (!channel.connect("127.0.0.1", port) || !channel.send(a)) return;
    const auto peer = channel.receive();
    joined = peer && *peer == b && channel.send_done();
  });
  bool served = server.accept();
  const auto peer = server.receive();
  served = served && peer && *peer == a && server.send(b) && server.receive_done();
  client.join();
  assert_true(served);
  assert_true(joined);
}

void a_stranger_on_the_port_is_told_apart(void**) {
  const std::uint16_t port = free_port();
  PingpongChannel server(nap);
  assert_true(server.listen(port));
  std::thread client([&] {
    PingpongChannel channel(nap);
    if (channel.connect("127.0.0.1", port)) static_cast<void>(channel.send_done());
  });
  const bool accepted = server.accept();
  const auto contact = server.receive();
  client.join();
  assert_true(accepted && !contact && !server.error().empty());
}

struct Game {
  QpType type = QpType::kRc;
  std::uint32_t size = 4096;
  bool ipv6 = false;
  double loss = 0;
  std::uint32_t iterations = 50;
};

void play(const Game& game) {
  sim::WorldOptions w;
  w.ipv6 = game.ipv6;
  w.link.loss = game.loss;
  sim::World world(w);
  std::unique_ptr<PingpongEnd> ends[2];
  std::string error;
  for (std::size_t i = 0; i < 2; ++i) {
    ends[i] = PingpongEnd::create(world.host(i), world.random(),
                                  {.type = game.type,
                                   .client = i == 1,
                                   .size = game.size,
                                   .iterations = game.iterations,
                                   .receives = 7,
                                   .validate = true},
                                  error);
    if (!ends[i]) fail_msg("%s", error.c_str());
  }
  for (std::size_t i = 0; i < 2; ++i)
    if (!ends[i]->connect(ends[1 - i]->local())) fail_msg("%s", ends[i]->error().c_str());
  assert_true(ends[0]->serve() && ends[1]->serve());
  world.set_application([&](Instant) {
    for (auto& end : ends) end->poll();
    return Instant::never();
  });
  const bool over = world.run_until(
      [&] {
        return (ends[0]->done() && ends[1]->done()) || !ends[0]->error().empty() ||
               !ends[1]->error().empty();
      },
      Duration::s(20));
  for (auto& end : ends)
    if (!end->error().empty()) fail_msg("%s", end->error().c_str());
  assert_true(over);
  for (auto& end : ends)
    if (!end->validate()) fail_msg("%s", end->error().c_str());
}

void rc_plays(void**) {
  for (const std::uint32_t size : {1U, 3000U, 4096U, 100'000U})
    for (const bool ipv6 : {false, true}) play({.size = size, .ipv6 = ipv6});
}
void rc_plays_in_spite_of_loss(void**) {
  play({.loss = 0.02});
}
void uc_plays(void**) {
  for (const std::uint32_t size : {1U, 4096U, 100'000U})
    for (const bool ipv6 : {false, true}) play({.type = QpType::kUc, .size = size, .ipv6 = ipv6});
}
void ud_plays(void**) {
  for (const std::uint32_t size : {1U, 1000U, 1024U})
    for (const bool ipv6 : {false, true}) play({.type = QpType::kUd, .size = size, .ipv6 = ipv6});
}

void what_cannot_be_played_is_said(void**) {
  sim::World world({.link = {}, .engine = {}});
  std::string error;
  const auto refuse = [&](const PingpongOptions& o, const char* part) {
    error.clear();
    if (PingpongEnd::create(world.host(0), world.random(), o, error)) fail_msg("%s", part);
    if (error.find(part) == std::string::npos) fail_msg("%s: %s", part, error.c_str());
  };
  refuse({.type = QpType::kUd, .size = 4097}, "-s 4097");
  refuse({.size = 64, .gid_index = 1}, "-g 1");
  const auto end = PingpongEnd::create(world.host(0), world.random(), {.size = 64}, error);
  assert_non_null(end.get());
  assert_false(end->connect({Qpn(5), Psn(5), IpAddress()}));
  assert_true(end->error().find("no GID") != std::string::npos);
}

}  // namespace
}  // namespace h4a::apps

int main() {
  using namespace h4a::apps;
  const CMUnitTest tests[] = {
      cmocka_unit_test(messages_are_those_of_rdma_core),
      cmocka_unit_test(what_is_no_message_is_refused),
      cmocka_unit_test(two_ends_tell_each_other_over_tcp),
      cmocka_unit_test(a_stranger_on_the_port_is_told_apart),
      cmocka_unit_test(rc_plays),
      cmocka_unit_test(rc_plays_in_spite_of_loss),
      cmocka_unit_test(uc_plays),
      cmocka_unit_test(ud_plays),
      cmocka_unit_test(what_cannot_be_played_is_said),
  };
  return cmocka_run_group_tests_name("pingpong", tests, nullptr, nullptr);
}
