// A peer that sends anything: no crash, nothing outside what it was given, each work request once.
#include <vector>

#include "roce/hostile_peer.h"

#include "test/test_support.h"

namespace h4a::roce {
namespace {

/// The seeds are worth their time only if they get past the first checks.
void expect_depth(const DropCounters& drops, std::uint64_t accepted, std::uint64_t placed) {
  for (const Drop d :
       {Drop::kRemoteAccess, Drop::kInvalidRequest, Drop::kDuplicatePsn, Drop::kOutOfSequence,
        Drop::kReceiverNotReady, Drop::kUnexpectedAck, Drop::kBadSyndrome, Drop::kBadOpcode}) {
    print_message("# %s %llu\n", std::string(to_string(d)).c_str(),
                  static_cast<unsigned long long>(drops[d]));
    assert_true(drops[d] > 10);
  }
  print_message("# accepted %llu, placed %llu bytes\n", static_cast<unsigned long long>(accepted),
                static_cast<unsigned long long>(placed));
  assert_true(accepted > 1000 && placed > 100'000);
}

void nothing_breaks(void**) {
  DropCounters drops;
  std::uint64_t accepted = 0;
  std::uint64_t placed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SeededRandom random(seed);
    std::vector<std::uint8_t> bytes(6000);
    random.fill(bytes);
    test::HostileWorld world;
    test::ByteSource in(bytes);
    while (!in.empty()) world.step(in);
    world.finish();
    drops += world.counters().drops;
    accepted += world.counters().rx_packets;
    placed += world.counters().rx_payload_bytes;
  }
  expect_depth(drops, accepted, placed);
}

/// What a peer that sends anything gets past, and what not, with a QP of `type`.
verbs::DeviceCounters torment(verbs::QpType type) {
  verbs::DeviceCounters sum;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    std::vector<std::uint8_t> bytes(6000);
    random.fill(bytes);
    test::HostileWorld world(type);
    test::ByteSource in(bytes);
    while (!in.empty()) world.step(in);
    world.finish();
    sum.drops += world.counters().drops;
    sum.rx_packets += world.counters().rx_packets;
    assert_int_equal(world.counters().naks_sent, 0);
  }
  return sum;
}

void expect_drops(const verbs::DeviceCounters& sum, std::initializer_list<Drop> reasons) {
  for (const Drop d : reasons)
    if (sum.drops[d] <= 10) fail_msg("%s is rare", std::string(to_string(d)).c_str());
  assert_true(sum.rx_packets > 100);
}

void nothing_breaks_uc(void**) {
  expect_drops(torment(verbs::QpType::kUc), {Drop::kMessageBroken, Drop::kInvalidRequest,
                                             Drop::kRemoteAccess, Drop::kBadOpcode});
}

void nothing_breaks_ud(void**) {
  expect_drops(torment(verbs::QpType::kUd), {Drop::kBadQkey, Drop::kNoReceive, Drop::kBadOpcode});
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_breaks),
      cmocka_unit_test(nothing_breaks_uc),
      cmocka_unit_test(nothing_breaks_ud),
  };
  return cmocka_run_group_tests_name("roce_hostile", tests, nullptr, nullptr);
}
