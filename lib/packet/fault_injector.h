// FaultInjector: a middleware port that loses, duplicates, reorders and corrupts frames of the port
// below it, at given rates, from one seed. The same seed and the same calls give the same faults.
//
// Each direction is a line of frames: what goes in is lost, or comes out one or more times, at once
// or after a few later frames have overtaken it. Nothing stays on the line for ever: when no
// traffic pushes them out, frames that are held back leave after `hold_polls` calls.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "packet/port.h"

namespace h4a::packet {

/// Probabilities, 0 to 1, for each frame.
struct FaultRates {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;
  double corruption = 0;  // one bit flips, anywhere in the frame
};

struct FaultOptions {
  std::uint64_t seed = 1;
  FaultRates receive;
  FaultRates transmit;
  /// A frame that is held back is overtaken by 1 to this many frames.
  std::uint32_t reorder_depth = 8;
  /// Calls without any frame after which held frames leave nevertheless.
  std::uint32_t hold_polls = 64;
};

struct FaultCounters {
  std::uint64_t frames = 0;  // that went in
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
};

/// One direction. Owns the frames on it.
class FaultLine {
 public:
  static constexpr std::size_t kHeldMax = 64;
  /// Room for a burst whose frames are all duplicated, twice, and for all that were held.
  static constexpr std::size_t kReadyMax = 4 * kBurstMax + kHeldMax;

  FaultLine(const FaultRates& rates, const FaultOptions& options, FramePool& pool,
            std::uint64_t seed) noexcept;
  ~FaultLine();
  FaultLine(const FaultLine&) = delete;
  FaultLine& operator=(const FaultLine&) = delete;

  /// True if a burst of kBurstMax frames may be pushed.
  [[nodiscard]] bool has_room() const noexcept { return ready_count_ <= kBurstMax; }
  /// Takes one frame, with all that may happen to it. Only while has_room() held before the burst.
  void push(Frame* frame) noexcept;
  /// Tells the line that a call brought no frame.
  void idle() noexcept;

  /// Frames that have come out, oldest first; pop(n) hands the first n to the caller.
  [[nodiscard]] std::span<Frame* const> ready() const noexcept { return {ready_, ready_count_}; }
  void pop(std::size_t n) noexcept;
  [[nodiscard]] const FaultCounters& counters() const noexcept { return counters_; }

 private:
  struct Held {
    Frame* frame;
    std::uint32_t overtakers;  // frames that still have to pass
  };

  [[nodiscard]] bool happens(double probability) noexcept;
  void corrupt(Frame& frame) noexcept;
  void duplicate(const Frame& frame) noexcept;
  void emit(Frame* frame) noexcept;
  void release_due_frames() noexcept;

  FaultRates rates_;
  std::uint32_t reorder_depth_;
  std::uint32_t hold_polls_;
  FramePool& pool_;
  SeededRandom random_;
  std::uint32_t idle_polls_ = 0;
  std::size_t held_count_ = 0;
  std::size_t ready_count_ = 0;
  Held held_[kHeldMax] = {};
  Frame* ready_[kReadyMax] = {};
  FaultCounters counters_;
};

/// Thread: the one that uses the port.
class FaultInjector final : public Port {
 public:
  /// Borrows `below`.
  FaultInjector(Port& below, const FaultOptions& options);

  [[nodiscard]] std::size_t receive(std::span<Frame*> out) noexcept override;
  /// Takes frames as long as its line has room; what the port below refuses waits on the line, and
  /// is offered again in each call of receive() and transmit().
  [[nodiscard]] std::size_t transmit(std::span<Frame* const> frames) noexcept override;
  [[nodiscard]] FramePool& pool() noexcept override { return below_.pool(); }
  [[nodiscard]] MacAddress mac() const noexcept override { return below_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const noexcept override { return below_.mtu(); }
  /// Those of the port below, with Drop::kInjected for what was lost here.
  [[nodiscard]] const PortCounters& counters() const noexcept override;
  /// -1: frames may wait on a line while the port below has none.
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }

  [[nodiscard]] const FaultCounters& received() const noexcept { return receive_.counters(); }
  [[nodiscard]] const FaultCounters& transmitted() const noexcept { return transmit_.counters(); }

 private:
  void drain() noexcept;

  Port& below_;
  FaultLine receive_;
  FaultLine transmit_;
  mutable PortCounters counters_;
};

}  // namespace h4a::packet
