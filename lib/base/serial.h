// Serial numbers that wrap: 24-bit PSN and MSN. Spec: IBA vol. 1 §9.7.1 (PSN windows of 2^23).
//
// Order between two PSNs exists only as a signed distance; there is no operator<, so that a plain
// compare across the wrap does not compile.
#pragma once

#include <cstdint>

namespace h4a {

class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xff'ffff;
  constexpr Psn() noexcept = default;
  explicit constexpr Psn(std::uint32_t v) noexcept : value_(v & kMask) {}
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  /// Signed distance `this - other`, in [-2^23, 2^23).
  [[nodiscard]] constexpr std::int32_t since(Psn other) const noexcept {
    const std::uint32_t d = (value_ - other.value_) & kMask;
    return d < 0x80'0000 ? static_cast<std::int32_t>(d) : static_cast<std::int32_t>(d) - 0x100'0000;
  }
  [[nodiscard]] constexpr Psn operator+(std::uint32_t n) const noexcept { return Psn(value_ + n); }
  [[nodiscard]] constexpr Psn operator-(std::uint32_t n) const noexcept { return Psn(value_ - n); }
  constexpr Psn& operator++() noexcept { return *this = Psn(value_ + 1); }
  friend constexpr bool operator==(Psn, Psn) noexcept = default;

 private:
  std::uint32_t value_ = 0;
};

/// Message sequence number of the AETH: same 24-bit arithmetic.
using Msn = Psn;

}  // namespace h4a
