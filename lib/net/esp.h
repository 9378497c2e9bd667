// ESP header, and what a datagram on UDP port 4500 is. Spec: RFC 4303 §2, RFC 3948 §2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace h4a::net {

struct EspFields {
  Spi spi;
  std::uint32_t sequence = 0;  // low 32 bits if the SA uses extended numbers

  friend constexpr bool operator==(const EspFields&, const EspFields&) noexcept = default;
};

/// The clear part in front; borrows the packet.
class EspView {
 public:
  static constexpr std::size_t kSize = 8;

  /// @return kTruncated. SPI 0 is a question of meaning and left to the caller (RFC 4303 §2.1).
  [[nodiscard]] static Result<EspView> parse(Bytes b) noexcept {
    if (b.size() < kSize) return failure(Error::kTruncated);
    return EspView(b);
  }
  [[nodiscard]] Spi spi() const noexcept { return Spi(load_be32(bytes_.data())); }
  [[nodiscard]] std::uint32_t sequence() const noexcept { return load_be32(bytes_.data() + 4); }
  /// IV, ciphertext and ICV.
  [[nodiscard]] Bytes rest() const noexcept { return bytes_.subspan(kSize); }
  [[nodiscard]] EspFields fields() const noexcept { return {spi(), sequence()}; }

 private:
  explicit EspView(Bytes bytes) noexcept : bytes_(bytes) {}
  Bytes bytes_;
};

/// Writes kSize bytes at `p`.
void build(std::uint8_t* p, const EspFields& f) noexcept;

[[nodiscard]] std::string to_string(const EspView& v);

enum class UdpEncap : std::uint8_t {
  kKeepalive,  // one byte ff: dropped without any effect (RFC 3948 §2.3, §4)
  kIke,        // IKE behind four zero bytes, kNonEspMarkerSize (§2.2)
  kEsp,        // an ESP header is there, SPI not 0 (§2.1)
  kBad,        // too short for any of them
};

inline constexpr std::size_t kNonEspMarkerSize = 4;

/// What the payload of a datagram on port 4500 is. RFC 3948 §2.1–2.3. Never reads behind its end.
[[nodiscard]] constexpr UdpEncap classify_udp_encap(Bytes payload) noexcept {
  if (payload.size() == 1 && payload[0] == 0xff) return UdpEncap::kKeepalive;
  if (payload.size() <= kNonEspMarkerSize) return UdpEncap::kBad;
  if (load_be32(payload.data()) == 0) return UdpEncap::kIke;
  return payload.size() < EspView::kSize ? UdpEncap::kBad : UdpEncap::kEsp;
}

[[nodiscard]] std::string_view to_string(UdpEncap kind) noexcept;

}  // namespace h4a::net
