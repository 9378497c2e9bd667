// Faults on two lines of frames. Every decision takes the same amount of randomness, so that one
// rate changes nothing about the others' faults.
#include "packet/fault_injector.h"

#include <algorithm>
#include <cstring>

namespace h4a::packet {

FaultLine::FaultLine(const FaultRates& rates, const FaultOptions& options, FramePool& pool,
                     std::uint64_t seed) noexcept
    : rates_(rates),
      reorder_depth_(std::max(options.reorder_depth, 1U)),
      hold_polls_(options.hold_polls),
      pool_(pool),
      random_(seed) {}

FaultLine::~FaultLine() {
  pool_.release(ready());
  for (const Held& held : std::span(held_, held_count_)) pool_.release_one(held.frame);
}

bool FaultLine::happens(double probability) noexcept {
  constexpr double kScale = 1.0 / 18'446'744'073'709'551'616.0;  // 2^-64
  return static_cast<double>(random_.u64()) * kScale < probability;
}

void FaultLine::push(Frame* frame) noexcept {
  ++counters_.frames;
  idle_polls_ = 0;
  const bool lost = happens(rates_.loss);
  const bool corrupted = happens(rates_.corruption);
  const bool duplicated = happens(rates_.duplication);
  const bool reordered = happens(rates_.reordering);
  const auto overtakers = 1 + static_cast<std::uint32_t>(random_.below(reorder_depth_));
  if (lost) {
    ++counters_.lost;
    pool_.release_one(frame);
    return;
  }
  if (corrupted) corrupt(*frame);
  if (duplicated) duplicate(*frame);
  if (reordered && held_count_ < kHeldMax) {
    ++counters_.reordered;
    held_[held_count_++] = {frame, overtakers};
    return;
  }
  emit(frame);
  release_due_frames();
}

void FaultLine::corrupt(Frame& frame) noexcept {
  if (frame.size() == 0) return;
  ++counters_.corrupted;
  const std::uint64_t bit = random_.below(frame.size() * 8);
  frame.data()[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
}

// An empty pool means no duplicate: the fault must not starve the traffic.
void FaultLine::duplicate(const Frame& frame) noexcept {
  Frame* copy = pool_.allocate_one();
  if (copy == nullptr) return;
  if (copy->tailroom() < frame.size()) {
    pool_.release_one(copy);
    return;
  }
  ++counters_.duplicated;
  std::memcpy(copy->append(frame.size()), frame.data(), frame.size());
  emit(copy);
}

void FaultLine::emit(Frame* frame) noexcept {
  H4A_ASSERT(ready_count_ < kReadyMax);  // has_room() was asked before the burst
  ready_[ready_count_++] = frame;
}

// A frame has passed: each held one has been overtaken once more.
void FaultLine::release_due_frames() noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held_count_; ++i) {
    if (--held_[i].overtakers == 0) {
      emit(held_[i].frame);
    } else {
      held_[kept++] = held_[i];
    }
  }
  held_count_ = kept;
}

void FaultLine::idle() noexcept {
  if (held_count_ == 0 || ++idle_polls_ < hold_polls_) return;
  if (!has_room()) return;
  for (const Held& held : std::span(held_, held_count_)) emit(held.frame);
  held_count_ = 0;
  idle_polls_ = 0;
}

void FaultLine::pop(std::size_t n) noexcept {
  H4A_ASSERT(n <= ready_count_);
  std::copy(ready_ + n, ready_ + ready_count_, ready_);
  ready_count_ -= n;
}

// ---- the port ----

FaultInjector::FaultInjector(Port& below, const FaultOptions& options)
    : below_(below),
      receive_(options.receive, options, below.pool(), options.seed * 2),
      transmit_(options.transmit, options, below.pool(), options.seed * 2 + 1) {}

std::size_t FaultInjector::receive(std::span<Frame*> out) noexcept {
  drain();
  if (receive_.has_room()) {
    Frame* burst[kBurstMax];
    const std::size_t n = below_.receive(std::span(burst).first(std::min(out.size(), kBurstMax)));
    for (std::size_t i = 0; i < n; ++i) receive_.push(burst[i]);
    if (n == 0) receive_.idle();
  }
  const std::size_t n = std::min(out.size(), receive_.ready().size());
  std::copy_n(receive_.ready().begin(), n, out.begin());
  receive_.pop(n);
  return n;
}

std::size_t FaultInjector::transmit(std::span<Frame* const> frames) noexcept {
  drain();
  if (!transmit_.has_room()) return 0;
  const std::size_t n = std::min(frames.size(), kBurstMax);
  for (Frame* f : frames.first(n)) transmit_.push(f);
  drain();
  return n;
}

void FaultInjector::drain() noexcept {
  if (transmit_.ready().empty()) transmit_.idle();
  while (!transmit_.ready().empty()) {
    const auto burst = transmit_.ready().first(std::min(transmit_.ready().size(), kBurstMax));
    const std::size_t taken = below_.transmit(burst);
    if (taken == 0) return;
    transmit_.pop(taken);
  }
}

const PortCounters& FaultInjector::counters() const noexcept {
  counters_ = below_.counters();
  counters_.drops.add(Drop::kInjected, receive_.counters().lost + transmit_.counters().lost);
  return counters_;
}

}  // namespace h4a::packet
