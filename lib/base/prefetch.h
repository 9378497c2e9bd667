// Asking the CPU for memory that will be written soon, while it computes something else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h4a {

/// Addresses that may be anything, also nothing of ours: asking for them can neither fault nor change anything.
struct PrefetchRange {
  std::uint64_t address = 0;
  std::size_t size = 0;
};

/// Asks for all of `range`, into the second-level cache: asking for the
/// first one holds fill buffers that the work meanwhile needs.
inline void prefetch(const PrefetchRange& range) noexcept {
  constexpr std::size_t kLine = 64;
  constexpr int kToBeRead = 0, kSecondLevel = 2;
  for (std::size_t i = 0; i < range.size; i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(range.address + i), kToBeRead, kSecondLevel);
}

}  // namespace h4a
