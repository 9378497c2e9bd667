#include "roce/scatter.h"

#include <algorithm>
#include <cstring>

namespace h4a::roce {

bool scatter(const LocalMemory& memory, std::span<const verbs::Sge> sges, std::uint64_t offset,
             Bytes data) noexcept {
  for (std::size_t i = 0; i < sges.size() && !data.empty(); ++i) {
    const verbs::Sge& sge = sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto n = std::min<std::uint64_t>(data.size(), sge.length - offset);
    std::uint8_t* to = memory.table.local(memory.ref, memory.pd, sge.lkey, sge.address + offset, n,
                                          verbs::Access::kLocalWrite);
    if (to == nullptr) return false;
    std::memcpy(to, data.data(), n);
    data = data.subspan(n);
    offset = 0;
  }
  return data.empty();
}

std::uint64_t capacity(const verbs::RecvWr& wr) noexcept {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < wr.sge_count; ++i) n += wr.sges[i].length;
  return n;
}

}  // namespace h4a::roce
