// Link: a simulated cable between two ports, with a rate, a delay and faults, all from one seed.
//
// What goes in at one end is copied, takes its time to serialise and to travel, and may be lost,
// duplicated, delayed past others or changed in one bit. Nothing here reads a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "packet/port.h"

namespace h4a::sim {

/// Probabilities are 0..1, each frame and each fault drawn on its own.
struct LinkOptions {
  Duration delay = Duration::us(10);
  std::uint64_t bits_per_second = 10'000'000'000;
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  // held back by up to `reorder_delay`
  Duration reorder_delay = Duration::us(200);
  double corrupt = 0;  // one random bit flipped
  std::uint16_t mtu = 9000;
  std::size_t queue_frames = 1024;  // at the receiving end; beyond it frames are lost
};

struct LinkCounters {
  std::uint64_t sent = 0;
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
};

/// Sees every frame that a port puts on the link, before faults.
using LinkTap = std::function<void(std::size_t from, Bytes frame, Instant now)>;

class Link {
 public:
  Link(const LinkOptions& options, Random& random, std::size_t frames_per_pool = 4096);
  ~Link();

  /// End 0 or 1.
  [[nodiscard]] packet::Port& port(std::size_t end) noexcept;
  /// What the ports take for the time.
  void set_now(Instant now) noexcept { now_ = now; }
  /// Faults from now on; rate, delay and MTU stay.
  void set_faults(double loss, double duplicate, double reorder, double corrupt) noexcept;
  /// Unplugs (everything is lost) or plugs in again.
  void set_up(bool up) noexcept { up_ = up; }
  void set_tap(LinkTap tap) { tap_ = std::move(tap); }
  /// When the next frame arrives; never() if none is on its way.
  [[nodiscard]] Instant next_arrival() const noexcept;
  [[nodiscard]] const LinkCounters& counters() const noexcept { return counters_; }
  /// True if both pools have all their frames and nothing is on its way.
  [[nodiscard]] bool all_frames_home() const noexcept;

 private:
  class End;
  using Packet = std::vector<std::uint8_t>;

  void carry(std::size_t from, Bytes frame);
  void schedule(std::size_t to, Bytes frame, Instant arrival);
  [[nodiscard]] bool chance(double p) noexcept;

  LinkOptions options_;
  Random& random_;
  LinkTap tap_;
  LinkCounters counters_;
  Instant now_;
  bool up_ = true;
  Instant free_at_[2];                           // when each direction's sender is idle again
  std::multimap<Instant, Packet> in_flight_[2];  // to end 0, to end 1
  std::unique_ptr<End> ends_[2];
};

}  // namespace h4a::sim
