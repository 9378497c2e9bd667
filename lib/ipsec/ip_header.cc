#include "ipsec/ip_header.h"

#include "base/assert.h"
#include "net/ipv4.h"
#include "net/ipv6.h"

namespace h4a::ipsec {
namespace {

using net::IpProtocol;

constexpr std::size_t kV6Size = net::Ipv6View::kSize;

/// Hop-by-hop, routing, destination options: all of one shape. Spec: RFC 8200 §4.3, §4.4, §4.6.
bool is_extension(std::uint8_t next_header) noexcept {
  const auto kind = static_cast<IpProtocol>(next_header);
  return kind == IpProtocol::kHopByHop || kind == IpProtocol::kRouting ||
         kind == IpProtocol::kDestinationOptions;
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

}  // namespace

std::uint8_t* IpHeader::v6_protocol() noexcept {
  const bool is_v6 = bytes_.size() >= kV6Size && bytes_[0] >> 4 == 6;
  return is_v6 ? last_next_header(bytes_) : nullptr;
}

void IpHeader::rewrite(IpProtocol value, std::size_t payload_bytes) noexcept {
  std::uint8_t* const next = protocol();
  H4A_ASSERT(next != nullptr);
  const std::size_t total = bytes_.size() + payload_bytes;
  if (is_v4()) {
    net::rewrite_ipv4(bytes_.data(), static_cast<std::uint16_t>(total), value);
  } else {
    *next = static_cast<std::uint8_t>(value);
    store_be<2>(&bytes_[4], total - kV6Size);
  }
}

}  // namespace h4a::ipsec
