// Management datagrams: the common header and what tells one kind from another.
// Spec: IBA vol. 1 §13.4.3 (common MAD header), §13.4.4 (methods), §13.4.7 (status), §16.7
// (communication management class).
//
// A MAD is always 256 bytes: 24 of header, 232 of what its class and attribute say. It travels as the
// payload of one UD SEND ONLY to QP 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace h4a::net {

inline constexpr std::size_t kMadSize = 256;
using MadBytes = std::array<std::uint8_t, kMadSize>;

inline constexpr std::uint8_t kMadBaseVersion = 1;
/// Communication management. Spec: IBA vol. 1 §16.7.1.
inline constexpr std::uint8_t kMadClassCm = 0x07;
inline constexpr std::uint8_t kCmClassVersion = 2;
/// The only method of the class. Spec: IBA vol. 1 §16.7.1.1.
inline constexpr std::uint8_t kMadMethodSend = 0x03;

/// Common MAD header, 24 bytes, network order. Spec: IBA vol. 1 §13.4.3.
struct MadHeader {
  static constexpr std::size_t kSize = 24;
  std::uint8_t base_version = kMadBaseVersion;
  std::uint8_t management_class = kMadClassCm;
  std::uint8_t class_version = kCmClassVersion;
  std::uint8_t method = kMadMethodSend;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;  // an answer repeats the one that it answers
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;

  /// `p` has kSize bytes. The reserved bytes 18 and 19 are ignored.
  [[nodiscard]] static MadHeader load(const std::uint8_t* p) noexcept {
    return {p[0],
            p[1],
            p[2],
            p[3],
            load_be16(p + 4),
            load_be16(p + 6),
            load_be64(p + 8),
            load_be16(p + 16),
            load_be32(p + 20)};
  }
  void build(std::uint8_t* p) const noexcept {
    p[0] = base_version;
    p[1] = management_class;
    p[2] = class_version;
    p[3] = method;
    store_be<2>(p + 4, status);
    store_be<2>(p + 6, class_specific);
    store_be<8>(p + 8, transaction_id);
    store_be<2>(p + 16, attribute_id);
    store_be<2>(p + 18, 0);
    store_be<4>(p + 20, attribute_modifier);
  }
  friend bool operator==(const MadHeader&, const MadHeader&) noexcept = default;
};

inline constexpr std::size_t kMadDataSize = kMadSize - MadHeader::kSize;
static_assert(kMadDataSize == 232);

}  // namespace h4a::net
