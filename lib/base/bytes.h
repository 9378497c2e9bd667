// Byte spans, and loads and stores in a stated byte order. No pointer to bytes is ever cast to a struct.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace h4a {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// The four below are written without loops: GCC at -O2 keeps a loop of bytes as it stands, but merges a
// written-out expression into one load or store with a byte swap.

/// Loads N bytes, most significant first (network order). `p` has at least N readable bytes.
template <std::size_t N>
[[nodiscard]] constexpr std::uint64_t load_be(const std::uint8_t* p) noexcept {
  static_assert(N >= 1 && N <= 8);
  return [p]<std::size_t... I>(std::index_sequence<I...>) {
    return ((std::uint64_t{p[I]} << (8 * (N - 1 - I))) | ...);
  }
  (std::make_index_sequence<N>{});
}

/// Stores the low N bytes of `v`, most significant first. `p` has at least N writable bytes.
template <std::size_t N>
constexpr void store_be(std::uint8_t* p, std::uint64_t v) noexcept {
  static_assert(N >= 1 && N <= 8);
  [ p, v ]<std::size_t... I>(std::index_sequence<I...>) {
    ((p[I] = static_cast<std::uint8_t>(v >> (8 * (N - 1 - I)))), ...);
  }
  (std::make_index_sequence<N>{});
}

/// Loads N bytes, least significant first.
template <std::size_t N>
[[nodiscard]] constexpr std::uint64_t load_le(const std::uint8_t* p) noexcept {
  static_assert(N >= 1 && N <= 8);
  return [p]<std::size_t... I>(std::index_sequence<I...>) {
    return ((std::uint64_t{p[I]} << (8 * I)) | ...);
  }
  (std::make_index_sequence<N>{});
}

/// Stores the low N bytes of `v`, least significant first.
template <std::size_t N>
constexpr void store_le(std::uint8_t* p, std::uint64_t v) noexcept {
  static_assert(N >= 1 && N <= 8);
  [ p, v ]<std::size_t... I>(std::index_sequence<I...>) {
    ((p[I] = static_cast<std::uint8_t>(v >> (8 * I))), ...);
  }
  (std::make_index_sequence<N>{});
}

/// Copies N bytes in pieces as wide as the CPU has. (A loop of bytes is not merged at -O2, and a wide load that
/// follows narrow stores waits until they have left the store buffer.)
template <std::size_t N>
constexpr void copy_bytes(std::uint8_t* to, const std::uint8_t* from) noexcept {
  if (std::is_constant_evaluated()) {
    for (std::size_t i = 0; i < N; ++i) to[i] = from[i];
  } else {
    std::memcpy(to, from, N);
  }
}

[[nodiscard]] constexpr std::uint16_t load_be16(const std::uint8_t* p) noexcept {
  return static_cast<std::uint16_t>(load_be<2>(p));
}
[[nodiscard]] constexpr std::uint32_t load_be24(const std::uint8_t* p) noexcept {
  return static_cast<std::uint32_t>(load_be<3>(p));
}
[[nodiscard]] constexpr std::uint32_t load_be32(const std::uint8_t* p) noexcept {
  return static_cast<std::uint32_t>(load_be<4>(p));
}
[[nodiscard]] constexpr std::uint64_t load_be64(const std::uint8_t* p) noexcept {
  return load_be<8>(p);
}

}  // namespace h4a
