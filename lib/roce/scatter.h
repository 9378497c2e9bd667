// Copies received bytes into the memory that a work request names. Its keys are checked anew for each
// packet, since regions may go meanwhile. Spec: IBA vol. 1 §10.6.2 (local access).
#pragma once

#include <span>

#include "base/bytes.h"
#include "roce/memory_table.h"

namespace h4a::roce {

/// Whose memory it is.
struct LocalMemory {
  MemoryTable& table;
  LocalRef& ref;
  verbs::PdId pd;
};

/// Copies `data` to [offset, +data.size()) of what `sges` name, one behind the other.
/// @return false if a region is gone, may not be written, or the list is too short; some of it may be
/// written then.
[[nodiscard]] bool scatter(const LocalMemory& memory, std::span<const verbs::Sge> sges,
                           std::uint64_t offset, Bytes data) noexcept;

/// Bytes that fit a receive work request.
[[nodiscard]] std::uint64_t capacity(const verbs::RecvWr& wr) noexcept;

}  // namespace h4a::roce
