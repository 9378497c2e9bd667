// Paths: how packets leave: addresses, next hop, protection. A connected QP in RTR or later holds one, and
// so does each address handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.h"
#include "base/ids.h"
#include "base/result.h"
#include "stack/neighbours.h"

namespace h4a::stack {

struct Path {
  IpAddress local;
  IpAddress remote;
  AssociationId association;
  Neighbours::Index next_hop = 0;  // not of a multicast group: its MAC address is known
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t priority = 0;  // 802.1Q; 0: no tag
  bool used = false;
};

class Paths {
 public:
  /// Takes memory for `capacity` paths at once.
  explicit Paths(std::size_t capacity) : paths_(capacity) {
    free_.reserve(capacity);
    for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  }
  /// @return kNoMemory.
  [[nodiscard]] Result<PathId> add(const Path& path) noexcept {
    if (free_.empty()) return failure(Error::kNoMemory);
    const std::uint32_t i = free_.back();
    free_.pop_back();
    paths_[i] = path;
    paths_[i].used = true;
    return PathId(i);
  }
  void remove(PathId id) noexcept {
    H4A_ASSERT(paths_[id.value()].used);
    paths_[id.value()].used = false;
    free_.push_back(id.value());
  }
  [[nodiscard]] const Path& operator[](PathId id) const noexcept { return paths_[id.value()]; }

 private:
  std::vector<Path> paths_;
  std::vector<std::uint32_t> free_;
};

}  // namespace h4a::stack
