// WorkQueue<T>: work requests that stay where they are until they complete. A fixed ring with
// absolute 32-bit indices: front() is the oldest, end_index() the next to be posted, and a cursor
// in between can name an entry by its index.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace h4a::roce {

template <class T>
class WorkQueue {
 public:
  /// @param capacity 1..2^20 entries; memory is taken here.
  explicit WorkQueue(std::uint32_t capacity)
      : capacity_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        slots_(std::make_unique<T[]>(std::size_t{mask_} + 1)) {}

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] std::uint32_t room() const noexcept { return capacity_ - size(); }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  /// Where the entry of an index lies, 0..slots() - 1; entries in the queue lie apart.
  [[nodiscard]] std::uint32_t slot(std::uint32_t index) const noexcept { return index & mask_; }
  [[nodiscard]] std::uint32_t slots() const noexcept { return mask_ + 1; }
  [[nodiscard]] std::uint32_t begin_index() const noexcept { return begin_; }
  [[nodiscard]] std::uint32_t end_index() const noexcept { return end_; }
  /// `index` is in [begin_index(), end_index()).
  [[nodiscard]] T& at(std::uint32_t index) noexcept { return slots_[index & mask_]; }
  [[nodiscard]] const T& at(std::uint32_t index) const noexcept { return slots_[index & mask_]; }
  [[nodiscard]] T& front() noexcept { return at(begin_); }
  [[nodiscard]] const T& front() const noexcept { return at(begin_); }
  /// room() > 0.
  void push(const T& entry) noexcept { slots_[end_++ & mask_] = entry; }
  /// Not empty().
  void pop() noexcept { ++begin_; }
  void clear() noexcept { begin_ = end_; }

 private:
  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
  std::unique_ptr<T[]> slots_;
};

}  // namespace h4a::roce
