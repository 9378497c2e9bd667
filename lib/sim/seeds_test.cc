// Seeds: each seed is another network (loss, duplication, reordering, corruption, rate, MTU, family,
// protection, first PSN) and another mix of messages. In all of them every message must arrive exactly
// once, in order and intact, every work request complete once, every frame return to its pool, nothing
// clear leave a protected QP, and no ESP sequence number be used twice. H4A_SEEDS=FIRST:COUNT chooses;
// a failure names its seed.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>

#include "net/esp.h"
#include "net/packet_view.h"
#include "sim/traffic_test_support.h"

#include "test/test_support.h"

namespace h4a::sim {
namespace {

struct Range {
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
};

Range seeds_wanted() {
  Range r;
  if (const char* text = std::getenv("H4A_SEEDS")) {
    unsigned long long first = 0, count = 0;
    if (std::sscanf(text, "%llu:%llu", &first, &count) == 2) r = {first, count};
  }
  return r;
}

struct Scenario {
  WorldOptions world;
  PairOptions pair;
  TrafficOptions traffic;
  bool is_protected = false;
  EspSuite suite = EspSuite::kAesGcm128;
};

// The smallest ACK timeout that a full window at the link's rate cannot exceed, as an operator would set
// it (IBA vol. 1 §9.7.6.1.3): 4.096 µs × 2^t.
std::uint8_t timeout_for(const WorldOptions& world, std::uint16_t mtu) {
  const double window_bits = 8.0 * world.engine.window_packets * (mtu + 128.0);
  const double wanted_ns = 2e9 * window_bits / static_cast<double>(world.link.bits_per_second) +
                           4.0 * static_cast<double>(world.link.delay.count_ns()) + 1e6;
  std::uint8_t t = 8;
  while (4096.0 * static_cast<double>(1 << t) < wanted_ns) ++t;
  return t;
}

Scenario draw(std::uint64_t seed) {
  SeededRandom r(seed * 7919);
  const auto probability = [&](double most) {
    return r.below(2) == 0 ? 0.0 : static_cast<double>(r.below(1001)) / 1000 * most;
  };
  Scenario s;
  s.world.seed = seed;
  s.world.ipv6 = r.below(2) == 0;
  s.world.link.loss = probability(0.05);
  s.world.link.duplicate = probability(0.05);
  s.world.link.reorder = probability(0.05);
  s.world.link.corrupt = probability(0.03);
  s.world.link.delay = Duration::us(static_cast<std::int64_t>(1 + r.below(100)));
  s.world.link.bits_per_second = 100'000'000ULL << r.below(8);
  constexpr std::uint16_t kMtus[] = {256, 512, 1024, 2048, 4096};
  s.pair.path_mtu = s.traffic.mtu = kMtus[r.below(5)];
  s.pair.timeout = timeout_for(s.world, s.pair.path_mtu);
  s.pair.first_psn[0] =
      Psn(r.below(3) == 0 ? 0xffffff - static_cast<std::uint32_t>(r.below(40)) : r.u32());
  s.pair.first_psn[1] = Psn(r.u32());
  s.pair.queue_depth = static_cast<std::uint32_t>(2 + r.below(30));
  s.pair.rd_atomic = static_cast<std::uint8_t>(1 + r.below(8));
  s.pair.shared_receives = r.below(3) == 0;
  s.pair.end_to_end_credits = r.below(3) == 0;
  s.pair.max_inline = s.traffic.max_inline = r.below(2) == 0 ? 0 : 300;
  s.is_protected = r.below(2) == 0;
  s.suite = r.below(2) == 0 ? EspSuite::kAesGcm128 : EspSuite::kAesGcm256;
  return s;
}

// Watches the wire of a protected pair.
struct Watch {
  std::set<std::uint64_t> esp_seen;
  std::string error;

  void see(Bytes frame) {
    const auto view = net::parse_packet(frame);
    if (!view) {
      error = "we sent a frame that does not parse";
    } else if (view->protocol == net::IpProtocol::kUdp && view->ip_version != 0) {
      error = "a clear packet left a protected queue pair";
    } else if (view->protocol == net::IpProtocol::kEsp && view->ip_version != 0) {
      const auto esp = net::EspView::parse(view->transport());
      const std::uint64_t key = std::uint64_t{esp->spi().value()} << 32 | esp->sequence();
      if (!esp_seen.insert(key).second) error = "an ESP sequence number was used twice";
    }
  }
};

std::string run(std::uint64_t seed) {
  const Scenario s = draw(seed);
  World world(s.world);
  Watch watch;
  Protection protection;
  if (s.is_protected) {
    protection = protect(world, s.suite);
    world.link().set_tap([&](std::size_t, Bytes frame, Instant) { watch.see(frame); });
  }
  const Pair pair = connect_rc(world, s.pair, protection);
  Traffic traffic(world, pair, s.traffic);
  world.set_application([&](Instant now) {
    traffic.poll();
    return now + Duration::us(50);
  });
  const auto over = [&] { return traffic.done() || traffic.failed() || !watch.error.empty(); };
  if (!world.run_until(over, Duration::ms(200))) {
    world.link().set_faults(0, 0, 0, 0);  // the network heals: now all must end soon
    if (!world.run_until(over, Duration::s(10))) return "did not finish after the network healed";
  }
  traffic.check_written();
  world.link().set_faults(0, 0, 0, 0);
  world.set_application({});
  if (traffic.failed()) return traffic.error();
  if (!watch.error.empty()) return watch.error;
  if (!world.run_until([&] { return world.link().all_frames_home(); }, Duration::s(2)))
    return "frames are missing from their pools";
  return {};
}

void every_seed_delivers_exactly_once(void**) {
  const Range range = seeds_wanted();
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const std::string error = run(seed);
    if (!error.empty())
      fail_msg("seed %llu: %s (run with H4A_SEEDS=%llu:1)", static_cast<unsigned long long>(seed),
               error.c_str(), static_cast<unsigned long long>(seed));
  }
}

void a_seed_repeats_itself(void**) {
  for (int i = 0; i < 2; ++i) assert_true(run(42).empty());
}

}  // namespace
}  // namespace h4a::sim

int main() {
  using namespace h4a::sim;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_seed_repeats_itself),
      cmocka_unit_test(every_seed_delivers_exactly_once),
  };
  return cmocka_run_group_tests_name("seeds", tests, nullptr, nullptr);
}
