// World: two stacks, a link and a virtual clock in one process. One seed decides everything that
// happens, so a failure is repeated by its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "sim/link.h"
#include "stack/stack.h"

namespace h4a::sim {

struct WorldOptions {
  std::uint64_t seed = 1;
  LinkOptions link{};
  bool ipv6 = false;
  roce::EngineOptions engine{};
};

class World {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Host 0 or 1.
  [[nodiscard]] stack::Stack& host(std::size_t i) noexcept { return *hosts_[i]; }
  [[nodiscard]] IpAddress address(std::size_t i) const noexcept { return addresses_[i]; }
  [[nodiscard]] Link& link() noexcept { return link_; }
  [[nodiscard]] Random& random() noexcept { return random_; }
  [[nodiscard]] Instant now() const noexcept { return now_; }

  /// Called in every turn, after the stacks ran. Returns when it next wants to run (an application's
  /// own deadlines), Instant::never() if only packets matter to it.
  void set_application(std::function<Instant(Instant)> f) { application_ = std::move(f); }

  /// Runs until `done` holds, checked in every turn. @return false if it did not within `limit` of
  /// virtual time, or if nothing at all is left to happen.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, Duration limit);
  /// Runs for a span of virtual time.
  void run_for(Duration span);

 private:
  /// One turn of every stack. @return when the next turn makes sense.
  [[nodiscard]] Instant turn();

  SeededRandom random_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  Link link_;
  IpAddress addresses_[2];
  std::unique_ptr<stack::Stack> hosts_[2];
  std::function<Instant(Instant)> application_;
};

/// An association with SAs in both directions between the two hosts, keys from the world's seed.
struct Protection {
  AssociationId of_host[2];
};
[[nodiscard]] Protection protect(World& world, EspSuite suite = EspSuite::kAesGcm128);

/// A connected pair with its objects, one at each host.
struct Endpoint {
  verbs::PdId pd;
  verbs::CqId cq;
  Qpn qpn;
  verbs::SrqId srq;  // 0: the QP has its own receive queue
};
struct PairOptions {
  verbs::QpType type = verbs::QpType::kRc;  // or kUc
  std::uint16_t path_mtu = 1024;
  std::uint32_t queue_depth = 64;
  verbs::Access access =
      verbs::Access::kRemoteRead | verbs::Access::kRemoteWrite | verbs::Access::kRemoteAtomic;
  std::uint8_t timeout = 8;  // 4.096 µs × 2^8 ≈ 1 ms
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t rd_atomic = 4;
  bool shared_receives = false;     // from an SRQ
  bool end_to_end_credits = false;  // ACKs tell of receives
  std::uint32_t max_inline = 0;
  Psn first_psn[2];  // of host 0's and host 1's requests
};
struct Pair {
  Endpoint of_host[2];
};
[[nodiscard]] Pair connect_pair(World& world, const PairOptions& options,
                                const Protection& protection = {});
[[nodiscard]] inline Pair connect_rc(World& world, const PairOptions& options,
                                     const Protection& protection = {}) {
  return connect_pair(world, options, protection);
}

}  // namespace h4a::sim
