// SlotTable<T>: a fixed number of objects under handles. A handle holds the slot's index and its
// generation, so a stale handle finds nothing, and lookup is one array access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace h4a::roce {

/// @tparam Id a StrongId over uint32_t. The value 0 is no object's.
template <class T, class Id>
class SlotTable {
  static constexpr std::uint32_t kIndexBits = 18;
  static constexpr std::uint32_t kGenerationMask = (1U << (32 - kIndexBits)) - 1;

 public:
  /// @param capacity 0..2^18. All memory is taken here; objects stay where they are.
  explicit SlotTable(std::size_t capacity) : slots_(capacity) {
    free_.reserve(capacity);
    for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  }

  /// Takes a slot; its object is as the last user left it, for the caller to set up.
  /// @return nullptr if the table is full. `id` is set otherwise.
  [[nodiscard]] T* allocate(Id& id) noexcept {
    if (free_.empty()) return nullptr;
    const std::uint32_t i = free_.back();
    free_.pop_back();
    Slot& slot = slots_[i];
    slot.generation = slot.generation % kGenerationMask + 1;
    slot.used = true;
    id = Id(slot.generation << kIndexBits | i);
    return &slot.object;
  }
  [[nodiscard]] T* find(Id id) noexcept {
    Slot* slot = slot_of(id);
    return slot == nullptr ? nullptr : &slot->object;
  }
  [[nodiscard]] const T* find(Id id) const noexcept {
    return const_cast<SlotTable*>(this)->find(id);
  }
  /// `id` must be that of an object.
  void release(Id id) noexcept {
    slot_of(id)->used = false;
    free_.push_back(id.value() & ((1U << kIndexBits) - 1));
  }
  /// Calls f(T&) for each object.
  template <class F>
  void for_each(F&& f) {
    for (Slot& slot : slots_)
      if (slot.used) f(slot.object);
  }

 private:
  struct Slot {
    T object{};
    std::uint32_t generation = 0;
    bool used = false;
  };
  [[nodiscard]] Slot* slot_of(Id id) noexcept {
    const std::uint32_t i = id.value() & ((1U << kIndexBits) - 1);
    if (i >= slots_.size()) return nullptr;
    Slot& slot = slots_[i];
    return slot.used && slot.generation == id.value() >> kIndexBits ? &slot : nullptr;
  }

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace h4a::roce
