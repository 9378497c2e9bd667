// The three fields of an IP header that ESP in transport mode changes: the protocol in front of the
// payload, the length, and the IPv4 checksum. Spec: RFC 4303 §3.1.1, RFC 791 §3.1, RFC 8200 §3, §4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "net/ip_protocol.h"
#include "net/ipv4.h"

namespace h4a::ipsec {

/// An IP header with all that stands before the transport header.
class IpHeader {
 public:
  /// @param bytes from the first byte of the IP header to the transport header, not past it.
  explicit IpHeader(MutableBytes bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] bool is_v4() const noexcept { return !bytes_.empty() && bytes_[0] >> 4 == 4; }
  /// The byte that names the transport header: IPv4's protocol, or the next header of the last IPv6
  /// header. nullptr if the headers do not end where the bytes end.
  [[nodiscard]] std::uint8_t* protocol() noexcept {
    return is_v4() ? v4_protocol() : v6_protocol();
  }
  /// Writes protocol, length and checksum. `protocol()` is not nullptr.
  /// @param payload_bytes behind the header; header and payload together fit 16 bits.
  void rewrite(net::IpProtocol protocol, std::size_t payload_bytes) noexcept;

 private:
  [[nodiscard]] std::uint8_t* v4_protocol() noexcept {
    const bool fits =
        bytes_.size() >= net::Ipv4View::kSize && (bytes_[0] & 0x0fU) * 4 == bytes_.size();
    return fits ? &bytes_[9] : nullptr;
  }
  [[nodiscard]] std::uint8_t* v6_protocol() noexcept;

  MutableBytes bytes_;
};

}  // namespace h4a::ipsec
