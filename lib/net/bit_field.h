// BitField: a number of any width at any bit of a message, most significant bit first, as the tables
// of IBA vol. 1 number them. One list of fields then parses, builds and prints a message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h4a::net {

/// `kBits` bits (1..64) from bit `kBit` (0 is the most significant) of byte `kByte` on.
template <std::size_t kByte, unsigned kBit, unsigned kBits>
struct BitField {
  static_assert(kBits >= 1 && kBits <= 64 && kBit < 8);
  static constexpr std::size_t kFirstBit = kByte * 8 + kBit;
  static constexpr std::size_t kEndBit = kFirstBit + kBits;
  static constexpr unsigned kWidth = kBits;
  static constexpr std::size_t kBytes = (kBit + kBits + 7) / 8;  // that it touches
  static constexpr unsigned kShift = static_cast<unsigned>(kBytes * 8) - kBit - kBits;
  static_assert(kBytes <= 8);
  static constexpr std::uint64_t kMask =
      kBits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (kBits % 64)) - 1;

  /// `p` is the start of the message.
  [[nodiscard]] static constexpr std::uint64_t load(const std::uint8_t* p) noexcept {
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < kBytes; ++i) v = v << 8 | p[kByte + i];
    return v >> kShift & kMask;
  }
  /// Leaves the neighbours in shared bytes as they are. Bits of `value` beyond the width are cut off.
  static constexpr void store(std::uint8_t* p, std::uint64_t value) noexcept {
    const std::uint64_t field = (value & kMask) << kShift;
    const std::uint64_t keep = ~(kMask << kShift);
    for (std::size_t i = 0; i < kBytes; ++i) {
      const unsigned down = static_cast<unsigned>(8 * (kBytes - 1 - i));
      p[kByte + i] = static_cast<std::uint8_t>((p[kByte + i] & (keep >> down)) | field >> down);
    }
  }
};

/// A run of whole bytes.
template <std::size_t kByte, std::size_t kLength>
struct ByteField {
  static constexpr std::size_t kFirstBit = kByte * 8;
  static constexpr std::size_t kEndBit = (kByte + kLength) * 8;
  static constexpr std::size_t kOffset = kByte;
  static constexpr std::size_t kSize = kLength;
};

}  // namespace h4a::net
