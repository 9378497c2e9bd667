// Sieve: one burst on its way through the passes. Each pass rejects some items; the others keep
// their order.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/assert.h"
#include "base/drop.h"
#include "base/limits.h"
#include "packet/frame.h"

namespace h4a::ipsec {

/// `Item` has a member `packet::Frame* frame` and is trivially copied.
template <class Item>
class Sieve {
 public:
  explicit Sieve(std::span<packet::Frame*> frames) noexcept : size_(frames.size()) {
    H4A_ASSERT(frames.size() <= kBurstMax);
    for (std::size_t i = 0; i < size_; ++i) items_[i].frame = frames[i];
  }

  [[nodiscard]] std::span<Item> good() noexcept { return {items_.data(), size_}; }

  /// Calls verdict(item, index) for each good item: Drop::kNone keeps it. The index is the item's
  /// place before this pass.
  template <class Verdict>
  void pass(Verdict&& verdict) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      Item item = items_[i];
      const Drop drop = verdict(item, i);
      if (drop == Drop::kNone) {
        items_[kept++] = item;
      } else {
        item.frame->drop = drop;
        rejected_[rejected_count_++] = item.frame;
      }
    }
    size_ = kept;
  }

  /// Writes good frames, then rejected ones. @return count of good.
  std::size_t finish(std::span<packet::Frame*> frames) const noexcept {
    std::size_t n = 0;
    for (std::size_t i = 0; i < size_; ++i) frames[n++] = items_[i].frame;
    for (std::size_t i = 0; i < rejected_count_; ++i) frames[n++] = rejected_[i];
    return size_;
  }

 private:
  std::array<Item, kBurstMax> items_;
  std::array<packet::Frame*, kBurstMax> rejected_;
  std::size_t size_;
  std::size_t rejected_count_ = 0;
};

}  // namespace h4a::ipsec
