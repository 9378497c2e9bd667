// IPv6 header and the walk over its extension headers. Spec: RFC 8200 §3, §4.
//
// The walk goes from header to header, each at least 8 bytes, and stops at the first that is none
// of hop-by-hop, routing, destination options. It is bounded in headers and in bytes, as RFC 8504
// §5.3 allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "net/ip_protocol.h"

namespace h4a::net {

struct Ipv6Fields {
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      // 20 bits
  std::uint16_t payload_length = 0;  // extension headers and payload
  IpProtocol next_header = IpProtocol::kUdp;
  std::uint8_t hop_limit = 64;
  IpAddress source;
  IpAddress destination;

  friend constexpr bool operator==(const Ipv6Fields&, const Ipv6Fields&) noexcept = default;
};

/// Where the extension headers end.
struct Ipv6Transport {
  IpProtocol protocol = IpProtocol::kNoNextHeader;
  std::size_t offset = 0;  // of the transport header, from the IPv6 header
  bool fragment =
      false;  // a fragment header is there: `protocol` is kFragment, `offset` leads to it
};

/// Borrows the packet.
class Ipv6View {
 public:
  static constexpr std::size_t kSize = 40;
  /// Most extension headers, and most bytes of them, that are walked. With the longest link header
  /// the transport offset then still fits 8 bits.
  static constexpr std::size_t kExtensionsMax = 8;
  static constexpr std::size_t kExtensionBytesMax = 192;

  /// Proves the header and the payload length against `packet`; what lies behind (link pad) is cut.
  /// A jumbogram (RFC 2675) has length 0 here and so no payload.
  /// @return kTruncated if `packet` is shorter than the lengths claim, kBadVersion.
  [[nodiscard]] static Result<Ipv6View> parse(Bytes packet) noexcept {
    if (packet.size() < kSize) return failure(Error::kTruncated);
    if (packet[0] >> 4 != 6) return failure(Error::kBadVersion);
    const std::size_t length = load_be16(packet.data() + 4);
    if (length > packet.size() - kSize) return failure(Error::kTruncated);
    return Ipv6View(packet.first(kSize + length));
  }
  /// For the start of a packet inside an ICMPv6 error: the payload may be cut anywhere (RFC 4443
  /// §3).
  [[nodiscard]] static Result<Ipv6View> parse_quoted(Bytes packet) noexcept {
    if (packet.size() < kSize) return failure(Error::kTruncated);
    if (packet[0] >> 4 != 6) return failure(Error::kBadVersion);
    const std::size_t total = kSize + load_be16(packet.data() + 4);
    return Ipv6View(packet.first(total < packet.size() ? total : packet.size()));
  }

  [[nodiscard]] std::uint8_t traffic_class() const noexcept {
    return static_cast<std::uint8_t>(load_be16(packet_.data()) >> 4 & 0xff);
  }
  [[nodiscard]] Ecn ecn() const noexcept { return static_cast<Ecn>(traffic_class() & 3); }
  [[nodiscard]] std::uint32_t flow_label() const noexcept {
    return load_be32(packet_.data()) & 0xf'ffff;
  }
  [[nodiscard]] std::uint16_t payload_length() const noexcept {
    return load_be16(packet_.data() + 4);
  }
  [[nodiscard]] IpProtocol next_header() const noexcept {
    return static_cast<IpProtocol>(packet_.data()[6]);
  }
  [[nodiscard]] std::uint8_t hop_limit() const noexcept { return packet_.data()[7]; }
  [[nodiscard]] IpAddress source() const noexcept { return IpAddress::load_v6(packet_.data() + 8); }
  [[nodiscard]] IpAddress destination() const noexcept {
    return IpAddress::load_v6(packet_.data() + 24);
  }
  /// Extension headers and what follows them; payload_length() bytes unless parse_quoted() cut it.
  [[nodiscard]] Bytes payload() const noexcept { return packet_.subspan(kSize); }
  /// Header and payload.
  [[nodiscard]] Bytes packet() const noexcept { return packet_; }

  /// Walks the extension headers. An option or routing header that asks a host to discard the
  /// packet (unknown option with action bits 01, 10, 11: RFC 8200 §4.2; segments left: §4.4;
  /// hop-by-hop not first: §4.1) makes it kMalformed, chains beyond the bounds above kUnsupported,
  /// and a header that ends behind the packet kTruncated.
  [[nodiscard]] Result<Ipv6Transport> transport() const noexcept {
    const IpProtocol next = next_header();
    if (next == IpProtocol::kUdp || next == IpProtocol::kEsp)  // the common case, inlined
      return Ipv6Transport{next, kSize, false};
    return walk_extensions();
  }
  [[nodiscard]] Ipv6Fields fields() const noexcept;

 private:
  explicit Ipv6View(Bytes packet) noexcept : packet_(packet) {}
  [[nodiscard]] Result<Ipv6Transport> walk_extensions() const noexcept;
  Bytes packet_;
};

/// Writes kSize bytes at `p`.
void build(std::uint8_t* p, const Ipv6Fields& f) noexcept;

[[nodiscard]] std::string to_string(const Ipv6View& v);

}  // namespace h4a::net
