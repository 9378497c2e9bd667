// IPv4 header. Spec: RFC 791 §3.1, RFC 2474 and RFC 3168 for the TOS byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "net/checksum.h"
#include "net/ip_protocol.h"

namespace h4a::net {

/// A header as values. `options` is padded to a multiple of 4 and borrowed.
struct Ipv4Fields {
  std::uint8_t tos = 0;
  std::uint16_t total_length = 20;  // header and payload
  std::uint16_t identification = 0;
  bool dont_fragment = true;  // RoCEv2 and our ESP always set it (IBA vol. 1 annex A17.3.1.1)
  bool more_fragments = false;
  std::uint16_t fragment_offset_bytes = 0;  // multiple of 8, at most 65528
  std::uint8_t ttl = 64;
  IpProtocol protocol = IpProtocol::kUdp;
  IpAddress source = IpAddress::v4(0, 0, 0, 0);
  IpAddress destination = IpAddress::v4(0, 0, 0, 0);
  Bytes options{};  // 0, 4, … 40 bytes
};
[[nodiscard]] bool operator==(const Ipv4Fields& a, const Ipv4Fields& b) noexcept;

/// Borrows the packet.
class Ipv4View {
 public:
  static constexpr std::size_t kSize = 20;
  static constexpr std::size_t kSizeMax = 60;

  /// Proves header and total length against `packet`; what lies behind the total length (link pad)
  /// is cut.
  /// @return kTruncated if `packet` is shorter than the lengths claim, kBadVersion, kMalformed if
  /// IHL or total length is too small. The checksum is a question of its own: checksum_ok().
  [[nodiscard]] static Result<Ipv4View> parse(Bytes packet) noexcept {
    return parse_as<Extent::kWhole>(packet);
  }
  /// For the start of a packet inside an ICMP error: the payload may be cut anywhere (RFC 792).
  [[nodiscard]] static Result<Ipv4View> parse_quoted(Bytes packet) noexcept {
    return parse_as<Extent::kQuoted>(packet);
  }

  [[nodiscard]] std::size_t header_size() const noexcept { return header_; }
  [[nodiscard]] Bytes options() const noexcept { return packet_.subspan(kSize, header_ - kSize); }
  [[nodiscard]] std::uint8_t tos() const noexcept { return at(1); }
  [[nodiscard]] Ecn ecn() const noexcept { return static_cast<Ecn>(at(1) & 3); }
  [[nodiscard]] std::uint16_t total_length() const noexcept { return load_be16(at_ptr(2)); }
  [[nodiscard]] std::uint16_t identification() const noexcept { return load_be16(at_ptr(4)); }
  [[nodiscard]] bool dont_fragment() const noexcept { return (at(6) & 0x40) != 0; }
  [[nodiscard]] bool more_fragments() const noexcept { return (at(6) & 0x20) != 0; }
  [[nodiscard]] std::uint16_t fragment_offset_bytes() const noexcept {
    return static_cast<std::uint16_t>((load_be16(at_ptr(6)) & 0x1fff) << 3);
  }
  /// First, middle or last fragment: there is more to come, or the offset is not 0.
  [[nodiscard]] bool is_fragment() const noexcept { return (load_be16(at_ptr(6)) & 0x3fff) != 0; }
  [[nodiscard]] std::uint8_t ttl() const noexcept { return at(8); }
  [[nodiscard]] IpProtocol protocol() const noexcept { return static_cast<IpProtocol>(at(9)); }
  [[nodiscard]] std::uint16_t checksum() const noexcept { return load_be16(at_ptr(10)); }
  [[nodiscard]] IpAddress source() const noexcept { return IpAddress::load_v4(at_ptr(12)); }
  [[nodiscard]] IpAddress destination() const noexcept { return IpAddress::load_v4(at_ptr(16)); }
  /// Header checksum over the header with its options (RFC 1122 §3.2.1.2: silently discard if
  /// wrong).
  [[nodiscard]] bool checksum_ok() const noexcept {
    return Checksum().add(packet_.first(header_)).ok();
  }
  /// Up to total_length(); shorter only after parse_quoted().
  [[nodiscard]] Bytes payload() const noexcept { return packet_.subspan(header_); }
  /// Header and payload.
  [[nodiscard]] Bytes packet() const noexcept { return packet_; }
  [[nodiscard]] Ipv4Fields fields() const noexcept;

 private:
  Ipv4View(Bytes packet, std::size_t header) noexcept : packet_(packet), header_(header) {}
  enum class Extent { kWhole, kQuoted };
  template <Extent extent>
  static Result<Ipv4View> parse_as(Bytes packet) noexcept {
    if (packet.size() < kSize) return failure(Error::kTruncated);
    if (packet[0] >> 4 != 4) return failure(Error::kBadVersion);
    const std::size_t header = std::size_t{packet[0] & 0xfU} * 4;
    if (header < kSize) return failure(Error::kMalformed);
    if (header > packet.size()) return failure(Error::kTruncated);
    std::size_t total = load_be16(packet.data() + 2);
    if (total < header) return failure(Error::kMalformed);
    if (total > packet.size()) {
      if (extent == Extent::kWhole) return failure(Error::kTruncated);
      total = packet.size();
    }
    return Ipv4View(packet.first(total), header);
  }
  [[nodiscard]] const std::uint8_t* at_ptr(std::size_t i) const noexcept {
    return packet_.data() + i;
  }
  [[nodiscard]] std::uint8_t at(std::size_t i) const noexcept { return packet_.data()[i]; }

  Bytes packet_;
  std::size_t header_;
};

/// 20 to 60.
[[nodiscard]] constexpr std::size_t header_size(const Ipv4Fields& f) noexcept {
  return Ipv4View::kSize + f.options.size();
}
/// Writes header_size(f) bytes at `p`, checksum included. `f.options` does not overlap them.
void build(std::uint8_t* p, const Ipv4Fields& f) noexcept;

/// Sets total length and protocol of a header at `p`, and mends the checksum (RFC 1624): for
/// transforms that grow or shrink the payload. `p` was proven by Ipv4View::parse or written by
/// build.
void rewrite_ipv4(std::uint8_t* p, std::uint16_t total_length, IpProtocol protocol) noexcept;

[[nodiscard]] std::string to_string(const Ipv4View& v);

}  // namespace h4a::net
