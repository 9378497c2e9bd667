// MAC and IP addresses as values. An IPv4 address is kept IPv4-mapped (::ffff:a.b.c.d), which is also
// its GID in RoCEv2 (IBA vol. 1 annex A17.4.4).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace h4a {

class MacAddress {
 public:
  static constexpr std::size_t kSize = 6;
  constexpr MacAddress() noexcept = default;
  explicit constexpr MacAddress(std::array<std::uint8_t, kSize> b) noexcept : bytes_(b) {}
  /// `p` has at least 6 readable bytes.
  static constexpr MacAddress load(const std::uint8_t* p) noexcept {
    MacAddress a;
    copy_bytes<kSize>(a.bytes_.data(), p);
    return a;
  }
  constexpr void store(std::uint8_t* p) const noexcept { copy_bytes<kSize>(p, bytes_.data()); }
  static constexpr MacAddress broadcast() noexcept {
    return MacAddress({0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  }
  [[nodiscard]] constexpr bool is_multicast() const noexcept { return (bytes_[0] & 1) != 0; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return *this == MacAddress{}; }
  [[nodiscard]] constexpr const std::array<std::uint8_t, kSize>& bytes() const noexcept {
    return bytes_;
  }
  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) noexcept = default;

 private:
  std::array<std::uint8_t, kSize> bytes_{};
};

class IpAddress {
 public:
  static constexpr std::size_t kSize = 16;
  /// The unspecified IPv6 address, `::`.
  constexpr IpAddress() noexcept = default;
  /// `p` has at least 4 readable bytes, network order.
  static constexpr IpAddress load_v4(const std::uint8_t* p) noexcept {
    IpAddress a;
    a.bytes_ = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, p[0], p[1], p[2], p[3]};
    return a;
  }
  static constexpr IpAddress v4(std::uint8_t a, std::uint8_t b, std::uint8_t c,
                                std::uint8_t d) noexcept {
    const std::array<std::uint8_t, 4> bytes{a, b, c, d};
    return load_v4(bytes.data());
  }
  /// `p` has at least 16 readable bytes, network order. Also loads a GID.
  static constexpr IpAddress load_v6(const std::uint8_t* p) noexcept {
    IpAddress a;
    copy_bytes<kSize>(a.bytes_.data(), p);
    return a;
  }
  /// Parses "10.0.0.1" or "fd77::1". @return kMalformed.
  [[nodiscard]] static Result<IpAddress> parse(std::string_view text) noexcept;

  [[nodiscard]] constexpr bool is_v4() const noexcept {
    return load_be<8>(bytes_.data()) == 0 && load_be<4>(bytes_.data() + 8) == 0xffff;
  }
  [[nodiscard]] constexpr bool is_multicast() const noexcept {
    return is_v4() ? (bytes_[12] & 0xf0) == 0xe0 : bytes_[0] == 0xff;
  }
  [[nodiscard]] constexpr bool is_unspecified() const noexcept {
    return *this == IpAddress{} || *this == IpAddress::v4(0, 0, 0, 0);
  }
  [[nodiscard]] constexpr bool is_link_local() const noexcept {
    return is_v4() ? bytes_[12] == 169 && bytes_[13] == 254
                   : bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
  }
  /// The 16 bytes of the GID.
  [[nodiscard]] constexpr const std::array<std::uint8_t, kSize>& bytes() const noexcept {
    return bytes_;
  }
  /// The 4 or 16 bytes as they stand in an IP header.
  [[nodiscard]] Bytes wire_bytes() const noexcept {
    return is_v4() ? Bytes(bytes_).subspan(12) : Bytes(bytes_);
  }
  /// True if the first `prefix_bits` bits (of 32 or 128) of both are equal and of one family.
  [[nodiscard]] bool same_prefix(const IpAddress& other, unsigned prefix_bits) const noexcept;

  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) noexcept = default;
  /// Two words, not a call of memcmp: every packet asks.
  friend constexpr bool operator==(const IpAddress& a, const IpAddress& b) noexcept {
    return ((load_le<8>(a.bytes_.data()) ^ load_le<8>(b.bytes_.data())) |
            (load_le<8>(a.bytes_.data() + 8) ^ load_le<8>(b.bytes_.data() + 8))) == 0;
  }

 private:
  std::array<std::uint8_t, kSize> bytes_{};
};

/// An address and the length of its on-link prefix, as in "10.0.0.1/24".
struct IpInterface {
  IpAddress address;
  std::uint8_t prefix_bits = 0;

  /// @return kMalformed if there is no "/N" or N is beyond 32 or 128.
  [[nodiscard]] static Result<IpInterface> parse(std::string_view text) noexcept;
};

/// @return kMalformed unless `text` is six hex octets with colons.
[[nodiscard]] Result<MacAddress> parse_mac(std::string_view text) noexcept;

[[nodiscard]] std::string to_string(const MacAddress& mac);
[[nodiscard]] std::string to_string(const IpAddress& ip);

}  // namespace h4a

template <>
struct std::hash<h4a::IpAddress> {
  std::size_t operator()(const h4a::IpAddress& ip) const noexcept {
    const auto* p = ip.bytes().data();
    std::uint64_t h = h4a::load_le<8>(p) * 0x9e37'79b9'7f4a'7c15ULL;
    h = (h ^ (h >> 32) ^ h4a::load_le<8>(p + 8)) * 0x9e37'79b9'7f4a'7c15ULL;
    return static_cast<std::size_t>(h ^ (h >> 29));
  }
};
