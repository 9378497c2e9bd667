// UDP header. Spec: RFC 768; checksum over IPv6: RFC 8200 §8.1, RFC 6935, RFC 6936.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace h4a::net {

/// RoCEv2 (IBA vol. 1 annex A17) and UDP-encapsulated ESP with IKE (RFC 3948).
inline constexpr std::uint16_t kRoceUdpPort = 4791;
inline constexpr std::uint16_t kUdpEncapPort = 4500;

struct UdpFields {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t length = 8;  // header and payload
  std::uint16_t checksum = 0;

  friend constexpr bool operator==(const UdpFields&, const UdpFields&) noexcept = default;
};

/// Borrows the datagram.
class UdpView {
 public:
  static constexpr std::size_t kSize = 8;

  /// `b` is the whole payload of the IP packet. What lies behind the UDP length is cut: it may be
  /// traffic flow confidentiality padding (RFC 4303 §2.7). Length 0 (jumbograms) is not accepted.
  /// @return kTruncated if `b` is shorter than the length claims, kMalformed if the length is
  /// below 8.
  [[nodiscard]] static Result<UdpView> parse(Bytes b) noexcept {
    if (b.size() < kSize) return failure(Error::kTruncated);
    const std::size_t length = load_be16(b.data() + 4);
    if (length < kSize) return failure(Error::kMalformed);
    if (length > b.size()) return failure(Error::kTruncated);
    return UdpView(b.first(length));
  }

  [[nodiscard]] std::uint16_t source_port() const noexcept { return load_be16(bytes_.data()); }
  [[nodiscard]] std::uint16_t destination_port() const noexcept {
    return load_be16(bytes_.data() + 2);
  }
  [[nodiscard]] std::uint16_t length() const noexcept { return load_be16(bytes_.data() + 4); }
  /// 0: the sender computed none.
  [[nodiscard]] std::uint16_t checksum() const noexcept { return load_be16(bytes_.data() + 6); }
  [[nodiscard]] Bytes payload() const noexcept { return bytes_.subspan(kSize); }
  /// Header and payload.
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }
  [[nodiscard]] UdpFields fields() const noexcept {
    return {source_port(), destination_port(), length(), checksum()};
  }

  /// True if the checksum is right or 0. Zero is "none" on IPv4 (RFC 768); on IPv6 it is accepted
  /// too, since RoCEv2 and UDP-encapsulated ESP bring their own integrity check (RFC 6935 §5, RFC
  /// 6936 §4).
  [[nodiscard]] bool checksum_ok(const IpAddress& source,
                                 const IpAddress& destination) const noexcept;

 private:
  explicit UdpView(Bytes bytes) noexcept : bytes_(bytes) {}
  Bytes bytes_;
};

/// Writes kSize bytes at `p`, the checksum as given.
void build(std::uint8_t* p, const UdpFields& f) noexcept;

/// The checksum to send for a whole datagram, whatever its checksum field holds now; never 0 (a sum
/// of 0 goes out as ffff, RFC 768). `datagram.size()` is its length field and at least kSize.
[[nodiscard]] std::uint16_t udp_checksum(Bytes datagram, const IpAddress& source,
                                         const IpAddress& destination) noexcept;

[[nodiscard]] std::string to_string(const UdpView& v);

}  // namespace h4a::net
