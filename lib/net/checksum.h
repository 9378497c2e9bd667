// The Internet checksum: 16-bit one's complement of the one's complement sum. Spec: RFC 1071, and
// RFC 1624 for incremental update.
//
// The sum does not depend on byte order (RFC 1071 §2 B), so bytes are added in the machine's cheap
// order, eight at a time, and the folded sum is swapped once at the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "base/bytes.h"

namespace h4a::net {

/// A running sum. Cost: about one cycle for eight bytes.
class Checksum {
 public:
  /// Adds `b` as 16-bit words in network order, an odd last byte padded with zero. Every call but
  /// the last needs an even number of bytes; at most 2^32 bytes in all.
  constexpr Checksum& add(Bytes b) noexcept {
    const std::uint8_t* p = b.data();
    std::size_t n = b.size();
    for (; n >= 8; p += 8, n -= 8) add_word(load_le<8>(p));
    if (n >= 4) {
      sum_ += load_le<4>(p);
      p += 4;
      n -= 4;
    }
    if (n >= 2) {
      sum_ += load_le<2>(p);
      p += 2;
      n -= 2;
    }
    if (n == 1) sum_ += *p;
    return *this;
  }
  /// Adds a number as it stands in the packet in network order.
  constexpr Checksum& add16(std::uint16_t v) noexcept {
    sum_ += static_cast<std::uint16_t>(v << 8 | v >> 8);
    return *this;
  }
  /// Adds the pseudo header: addresses, zero, upper-layer protocol and length. Both families in one
  /// form, as the sums of RFC 9293 §3.1 (v4) and RFC 8200 §8.1 (v6) agree for lengths below 2^16.
  /// `source` and `destination` are of one family.
  Checksum& add_pseudo_header(const IpAddress& source, const IpAddress& destination,
                              std::uint8_t protocol, std::size_t length) noexcept {
    add(source.wire_bytes()).add(destination.wire_bytes()).add16(protocol);
    return add16(static_cast<std::uint16_t>(length >> 16))
        .add16(static_cast<std::uint16_t>(length));
  }

  /// What goes into the checksum field, if the field itself was added as zero.
  [[nodiscard]] constexpr std::uint16_t value() const noexcept {
    return static_cast<std::uint16_t>(~folded());
  }
  /// True if the bytes added so far, checksum field included, sum up to all ones (RFC 1071 §1 (3)).
  [[nodiscard]] constexpr bool ok() const noexcept { return folded() == 0xffff; }

 private:
  constexpr void add_word(std::uint64_t v) noexcept { sum_ += (v & 0xffff'ffff) + (v >> 32); }
  [[nodiscard]] constexpr std::uint16_t folded() const noexcept {
    std::uint64_t s = (sum_ & 0xffff'ffff) + (sum_ >> 32);
    s = (s & 0xffff) + (s >> 16 & 0xffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    return static_cast<std::uint16_t>((s & 0xff) << 8 | s >> 8);
  }

  std::uint64_t sum_ = 0;  // of little-endian words; 64 bits take 2^31 steps without overflow
};

/// The checksum after one aligned 16-bit field changed. Spec: RFC 1624 §3, equation 3. At least one of the
/// words that are summed is not zero, before and after (so in any IP header).
[[nodiscard]] constexpr std::uint16_t update_checksum(std::uint16_t checksum, std::uint16_t before,
                                                      std::uint16_t after) noexcept {
  std::uint32_t s = static_cast<std::uint16_t>(~checksum);
  s += static_cast<std::uint16_t>(~before);
  s += after;
  s = (s & 0xffff) + (s >> 16);
  s = (s & 0xffff) + (s >> 16);
  return static_cast<std::uint16_t>(~s);
}

}  // namespace h4a::net
