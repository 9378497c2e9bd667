// Ring<T>: a bounded queue of plain records for one producer and one consumer: send queue, receive queue
// and completion queue use it in every home.
//
// Two free-running 32-bit indices, each on its own cache line; head counts what was written, tail what
// was read. The consumer copies a record out before it looks at it, and neither side ever trusts the
// other's index for more than `capacity` records, so the layout can be shared with an application that
// is not trusted.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace h4a::verbs {

template <class T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Room for at least `capacity` records (1..2^20). Memory is taken here, never later.
  explicit Ring(std::uint32_t capacity)
      : capacity_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        slots_(std::make_unique<T[]>(std::size_t{mask_} + 1)) {}

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// Records waiting, as either side sees it; never more than capacity().
  [[nodiscard]] std::uint32_t size() const noexcept {
    const std::uint32_t n =
        head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
    return n <= capacity_ ? n : capacity_;
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// Producer: appends all of `records`, or none if they do not fit.
  [[nodiscard]] bool push(std::span<const T> records) noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (records.size() > capacity_ - size()) return false;
    for (std::size_t i = 0; i < records.size(); ++i)
      slots_[(head + static_cast<std::uint32_t>(i)) & mask_] = records[i];
    head_.store(head + static_cast<std::uint32_t>(records.size()), std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool push(const T& record) noexcept { return push(std::span<const T>(&record, 1)); }

  /// Consumer: moves up to `out.size()` records out, oldest first.
  [[nodiscard]] std::size_t pop(std::span<T> out) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint32_t waiting = size();
    const auto n = static_cast<std::uint32_t>(out.size() < waiting ? out.size() : waiting);
    for (std::uint32_t i = 0; i < n; ++i) out[i] = slots_[(tail + i) & mask_];
    tail_.store(tail + n, std::memory_order_release);
    return n;
  }
  [[nodiscard]] bool pop(T& out) noexcept { return pop(std::span<T>(&out, 1)) == 1; }

 private:
  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::unique_ptr<T[]> slots_;
  alignas(64) std::atomic<std::uint32_t> head_{0};
  alignas(64) std::atomic<std::uint32_t> tail_{0};
};

}  // namespace h4a::verbs
