// Bytes for tests: from hex, and from a seed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace h4a::ipsec::test {

using ByteVector = std::vector<std::uint8_t>;

inline std::uint8_t hex_digit(char c) {
  return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
}

/// Lower-case hex of even length.
inline ByteVector from_hex(std::string_view hex) {
  ByteVector out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(hex_digit(hex[i]) << 4 | hex_digit(hex[i + 1])));
  return out;
}

inline ByteVector random_bytes(Random& random, std::size_t n) {
  ByteVector out(n);
  random.fill(out);
  return out;
}

inline bool is_zero(Bytes b) {
  for (const std::uint8_t byte : b)
    if (byte != 0) return false;
  return true;
}

}  // namespace h4a::ipsec::test
