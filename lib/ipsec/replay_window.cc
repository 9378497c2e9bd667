#include "ipsec/replay_window.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace h4a::ipsec {
namespace {

constexpr std::uint64_t kWordBits = 64;

/// Enough for `size` numbers however they lie in words: one word more than they fill.
std::uint64_t ring_words(std::uint32_t size) noexcept {
  return std::bit_ceil((size + kWordBits - 1) / kWordBits + 1);
}

}  // namespace

ReplayWindow::ReplayWindow(std::uint32_t size_packets, std::uint64_t top)
    : top_(top), size_(size_packets), mask_(ring_words(size_packets) - 1) {
  H4A_ASSERT(size_packets >= kSizeMin);
  H4A_ASSERT(size_packets <= kSizeMax);
  words_ = std::make_unique<std::uint64_t[]>(mask_ + 1);
}

ReplayVerdict ReplayWindow::check(std::uint64_t sequence) const noexcept {
  if (sequence > top_) return ReplayVerdict::kNew;
  if (top_ - sequence >= size_) return ReplayVerdict::kTooOld;
  return (word(sequence) & bit(sequence)) != 0 ? ReplayVerdict::kDuplicate : ReplayVerdict::kNew;
}

ReplayVerdict ReplayWindow::commit(std::uint64_t sequence) noexcept {
  const ReplayVerdict verdict = check(sequence);
  if (verdict != ReplayVerdict::kNew) return verdict;
  if (sequence > top_) move_to(sequence);
  word(sequence) |= bit(sequence);
  return verdict;
}

void ReplayWindow::move_to(std::uint64_t sequence) noexcept {
  const std::uint64_t from = top_ >> 6;
  const std::uint64_t steps = std::min((sequence >> 6) - from, mask_ + 1);
  for (std::uint64_t i = 1; i <= steps; ++i) words_[(from + i) & mask_] = 0;
  top_ = sequence;
}

std::uint64_t infer_sequence(std::uint64_t top, std::uint32_t window, std::uint32_t low) noexcept {
  const auto top_low = static_cast<std::uint32_t>(top);
  const auto top_high = static_cast<std::uint32_t>(top >> 32);
  const std::uint32_t bottom = top_low - window + 1;  // modulo 2^32, as the appendix has it
  std::uint32_t high = top_high;
  if (top_low >= window - 1) {  // case A: the window lies within one subspace
    if (low < bottom && top_high != UINT32_MAX) high = top_high + 1;
  } else {  // case B: it spans two
    if (low >= bottom && top_high != 0) high = top_high - 1;
  }
  return std::uint64_t{high} << 32 | low;
}

}  // namespace h4a::ipsec
