// The first message between two hosts, before either knows the other's MAC address, and longer than all that
// may wait for it: the queue pair waits, and nothing is lost. Where nobody answers, it ends as it must.
#include <vector>

#include "sim/world.h"

#include "test/test_support.h"

namespace h4a::sim {
namespace {

using verbs::QpType;

constexpr std::uint32_t kLength = 300'000;  // 293 packets

struct Transfer {
  explicit Transfer(World& w, const PairOptions& options)
      : world(w), pair(connect_pair(w, options)), source(kLength, 0x5a), target(kLength) {
    const auto& [a, b] = pair.of_host;
    const auto from =
        w.host(0).register_memory(a.pd, source.data(), kLength, verbs::Access::kNone, kClear);
    const auto to =
        w.host(1).register_memory(b.pd, target.data(), kLength, verbs::Access::kLocalWrite, kClear);
    verbs::RecvWr recv;
    recv.sge_count = 1;
    recv.sges[0] = {reinterpret_cast<std::uintptr_t>(target.data()), kLength, to->lkey};
    assert_ok(w.host(1).post_recv(b.qpn, {&recv, 1}));
    verbs::SendWr send;
    send.sge_count = 1;
    send.sges[0] = {reinterpret_cast<std::uintptr_t>(source.data()), kLength, from->lkey};
    assert_ok(w.host(0).post_send(a.qpn, {&send, 1}));
  }
  [[nodiscard]] bool completes(std::size_t host, verbs::CompletionStatus status) {
    verbs::Completion c;
    const bool came = world.run_until(
        [&] {
          return world.host(host).poll_cq(pair.of_host[host].cq, {&c, 1}) == 1;
        },
        Duration::s(20));
    return came && c.status == status;
  }

  World& world;
  Pair pair;
  std::vector<std::uint8_t> source;
  std::vector<std::uint8_t> target;
};

void nothing_is_lost(QpType type) {
  World world({});
  PairOptions options;
  options.type = type;
  options.timeout = 14;
  Transfer t(world, options);
  assert_true(t.completes(1, verbs::CompletionStatus::kSuccess));
  assert_true(t.source == t.target);
  const verbs::DeviceCounters c = world.host(0).counters();
  assert_int_equal(c.drops[Drop::kNoNeighbour], 0);
  assert_int_equal(c.retransmitted_packets, 0);
}
void rc_waits_for_the_neighbour(void**) {
  nothing_is_lost(QpType::kRc);
}
void uc_waits_for_the_neighbour(void**) {
  nothing_is_lost(QpType::kUc);
}

void nobody_answers(void**) {
  World world({});
  world.link().set_up(false);
  PairOptions options;
  options.timeout = 10;
  options.retry_count = 3;
  Transfer t(world, options);
  assert_true(t.completes(0, verbs::CompletionStatus::kRetryExceeded));
  world.run_for(Duration::s(1));  // what waited is given up
  assert_true(world.link().all_frames_home());
}

void an_unreliable_message_into_the_void_ends(void**) {
  World world({});
  world.link().set_up(false);
  PairOptions options;
  options.type = QpType::kUc;
  Transfer t(world, options);
  assert_true(t.completes(0, verbs::CompletionStatus::kSuccess));
  world.run_for(Duration::s(1));
  assert_true(world.link().all_frames_home());
  assert_true(world.host(0).counters().drops[Drop::kNoNeighbour] > 200);
}

}  // namespace
}  // namespace h4a::sim

int main() {
  using namespace h4a::sim;
  const CMUnitTest tests[] = {
      cmocka_unit_test(rc_waits_for_the_neighbour),
      cmocka_unit_test(uc_waits_for_the_neighbour),
      cmocka_unit_test(nobody_answers),
      cmocka_unit_test(an_unreliable_message_into_the_void_ends),
  };
  return cmocka_run_group_tests_name("cold_start", tests, nullptr, nullptr);
}
