// A peer that knows the protocol and breaks it in one place: no crash, nothing outside what it was
// given, each work request once, each atomic once, no other queue pair touched.
#include <vector>

#include "roce/model_peer.h"

#include "test/test_support.h"

namespace h4a::roce {
namespace {

struct Depth {
  DropCounters drops;
  std::uint64_t accepted = 0;
  std::uint64_t placed = 0;
  std::uint64_t atomics = 0;
  std::uint64_t completed = 0;
};

/// The seeds are worth their time only if they get past the first checks.
void expect_depth(const Depth& d) {
  for (const Drop reason :
       {Drop::kRemoteAccess, Drop::kInvalidRequest, Drop::kDuplicatePsn, Drop::kOutOfSequence,
        Drop::kReceiverNotReady, Drop::kUnexpectedAck, Drop::kBadSyndrome, Drop::kBadPkey}) {
    print_message("# %s %llu\n", std::string(to_string(reason)).c_str(),
                  static_cast<unsigned long long>(d.drops[reason]));
    assert_true(d.drops[reason] > 10);
  }
  print_message(
      "# accepted %llu, placed %llu bytes, atomics %llu, completed %llu\n",
      static_cast<unsigned long long>(d.accepted), static_cast<unsigned long long>(d.placed),
      static_cast<unsigned long long>(d.atomics), static_cast<unsigned long long>(d.completed));
  assert_true(d.accepted > 5000 && d.placed > 200'000);
  assert_true(d.atomics > 200 && d.completed > 500);
}

void run(bool shared, Depth& depth) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SeededRandom random(seed);
    std::vector<std::uint8_t> bytes(8000);
    random.fill(bytes);
    test::ModelWorld world(shared);
    test::ByteSource in(bytes);
    while (!in.empty()) world.step(in);
    world.finish();
    depth.drops += world.counters().drops;
    depth.accepted += world.counters().rx_packets;
    depth.placed += world.counters().rx_payload_bytes;
    depth.atomics += world.atomics_executed();
    depth.completed += world.completed_ok();
  }
}

void nothing_breaks(void**) {
  Depth depth;
  run(false, depth);
  expect_depth(depth);
}

void nothing_breaks_with_a_shared_receive_queue(void**) {
  Depth depth;
  run(true, depth);
  expect_depth(depth);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_breaks),
      cmocka_unit_test(nothing_breaks_with_a_shared_receive_queue),
  };
  return cmocka_run_group_tests_name("roce_model", tests, nullptr, nullptr);
}
