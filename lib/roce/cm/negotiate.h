// What two sides agree on by REQ and REP, as pure functions. Spec: IBA vol. 1 §12.6.5, §12.6.8 (the
// fields), §9.7.5.1.3 (local ACK time-out).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace h4a::roce::cm {

/// 4.096 µs × 2^code, how CM messages write times. Codes above 31 do not exist in five bits.
[[nodiscard]] constexpr Duration cm_time(std::uint8_t code) noexcept {
  return Duration::ns(std::int64_t{4096} << (code & 31));
}

/// Path MTU code of a REQ (1..5) to bytes. @return 0 for a reserved code.
[[nodiscard]] constexpr std::uint16_t mtu_bytes(std::uint8_t code) noexcept {
  return code >= 1 && code <= 5 ? static_cast<std::uint16_t>(128U << code) : std::uint16_t{0};
}
/// The reverse for 256, 512, 1024, 2048 and 4096; 0 for anything else.
[[nodiscard]] constexpr std::uint8_t mtu_code(std::uint16_t bytes) noexcept {
  for (std::uint8_t code = 1; code <= 5; ++code)
    if (mtu_bytes(code) == bytes) return code;
  return 0;
}

/// READs at a time: never more than the other side offers, nor than we can.
[[nodiscard]] constexpr std::uint8_t agree_depth(std::uint8_t ours, std::uint8_t theirs) noexcept {
  return std::min(ours, theirs);
}

/// Our ACK time-out towards a peer that needs `target_ack_delay` to acknowledge, over a path with a
/// packet life time of `packet_life` (both codes): twice the life time, plus the delay, in powers of
/// two, rounded up.
[[nodiscard]] constexpr std::uint8_t ack_timeout(std::uint8_t packet_life,
                                                 std::uint8_t target_ack_delay) noexcept {
  const std::uint64_t wanted =
      (std::uint64_t{2} << (packet_life & 31)) + (std::uint64_t{1} << (target_ack_delay & 31));
  std::uint8_t code = 0;
  while (code < 31 && (std::uint64_t{1} << code) < wanted) ++code;
  return code;
}

static_assert(mtu_bytes(1) == 256 && mtu_bytes(5) == 4096 && mtu_bytes(0) == 0 &&
              mtu_bytes(6) == 0);
static_assert(mtu_code(1024) == 3 && mtu_code(1500) == 0);
static_assert(ack_timeout(13, 15) == 16);  // 2^14 + 2^15 ≤ 2^16
static_assert(ack_timeout(31, 31) == 31);

}  // namespace h4a::roce::cm
