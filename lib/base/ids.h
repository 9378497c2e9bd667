// Distinct types for numbers that are all integers on the wire, so that mixing two does not compile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace h4a {

/// A number with a name. `Tag` tells types apart; `value()` is the only way back to the integer.
template <class Tag, class Integer>
class StrongId {
 public:
  using integer_type = Integer;
  constexpr StrongId() noexcept = default;
  explicit constexpr StrongId(Integer v) noexcept : value_(v) {}
  [[nodiscard]] constexpr Integer value() const noexcept { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) noexcept = default;

 private:
  Integer value_ = 0;
};

using Qpn = StrongId<struct QpnTag, std::uint32_t>;    // queue pair number, 24 bits
using Lkey = StrongId<struct LkeyTag, std::uint32_t>;  // local memory key
using Rkey = StrongId<struct RkeyTag, std::uint32_t>;  // remote memory key
using Spi = StrongId<struct SpiTag, std::uint32_t>;    // ESP security parameters index

/// The lineage of SAs a packet came through or must leave through (DESIGN D3).
/// `kClear` (0) means: no ESP at all.
using AssociationId = StrongId<struct AssociationTag, std::uint32_t>;
inline constexpr AssociationId kClear{};

/// Index of a path (addresses, next hop, SA) that the stack resolved for a QP.
using PathId = StrongId<struct PathTag, std::uint32_t>;

}  // namespace h4a

template <class Tag, class Integer>
struct std::hash<h4a::StrongId<Tag, Integer>> {
  std::size_t operator()(h4a::StrongId<Tag, Integer> id) const noexcept {
    return std::hash<Integer>{}(id.value());
  }
};
