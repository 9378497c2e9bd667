#include "ipsec/ip_header.h"

#include "base/assert.h"

namespace h4a::ipsec {
namespace {

constexpr std::size_t kV4Min = 20;
constexpr std::size_t kV6Size = 40;

/// Hop-by-hop, routing, destination options: all of one shape. Spec: RFC 8200 §4.3, §4.4, §4.6.
bool is_extension(std::uint8_t next_header) noexcept {
  return next_header == 0 || next_header == 43 || next_header == 60;
}

std::uint8_t* last_next_header(MutableBytes b) noexcept {
  std::uint8_t* next = &b[6];
  std::size_t offset = kV6Size;
  while (offset < b.size()) {
    if (!is_extension(*next) || b.size() - offset < 8) return nullptr;
    next = &b[offset];
    offset += (std::size_t{b[offset + 1]} + 1) * 8;
  }
  return offset == b.size() ? next : nullptr;
}

/// Spec: RFC 1071. The sum of 60 bytes at most fits 32 bits with ease.
std::uint16_t checksum(Bytes b) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < b.size(); i += 2) sum += load_be16(&b[i]);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

std::uint8_t* IpHeader::protocol() noexcept {
  if (is_v4()) {
    const bool fits = bytes_.size() >= kV4Min && (bytes_[0] & 0x0fU) * 4 == bytes_.size();
    return fits ? &bytes_[9] : nullptr;
  }
  const bool is_v6 = bytes_.size() >= kV6Size && bytes_[0] >> 4 == 6;
  return is_v6 ? last_next_header(bytes_) : nullptr;
}

void IpHeader::rewrite(std::uint8_t value, std::size_t payload_bytes) noexcept {
  std::uint8_t* const next = protocol();
  H4A_ASSERT(next != nullptr);
  *next = value;
  if (is_v4()) {
    store_be<2>(&bytes_[2], bytes_.size() + payload_bytes);
    store_be<2>(&bytes_[10], 0);
    store_be<2>(&bytes_[10], checksum(bytes_));
  } else {
    store_be<2>(&bytes_[4], bytes_.size() - kV6Size + payload_bytes);
  }
}

}  // namespace h4a::ipsec
