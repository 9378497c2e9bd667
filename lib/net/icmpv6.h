// ICMPv6: echo, destination unreachable, packet too big. Spec: RFC 4443. Neighbour discovery is in
// ndp.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace h4a::net {

/// Values not listed are valid too; below 128 they are errors.
enum class Icmpv6Type : std::uint8_t {
  kUnreachable = 1,
  kPacketTooBig = 2,
  kTimeExceeded = 3,
  kParameterProblem = 4,
  kEchoRequest = 128,
  kEchoReply = 129,
  kRouterSolicitation = 133,
  kRouterAdvertisement = 134,
  kNeighbourSolicitation = 135,
  kNeighbourAdvertisement = 136,
};

/// Codes of kUnreachable.
inline constexpr std::uint8_t kIcmpv6AddressUnreachable = 3;
inline constexpr std::uint8_t kIcmpv6PortUnreachable = 4;

struct Icmpv6Fields {
  Icmpv6Type type = Icmpv6Type::kEchoRequest;
  std::uint8_t code = 0;
  std::uint32_t word = 0;  // echo: identifier and sequence number; packet too big: MTU

  friend constexpr bool operator==(const Icmpv6Fields&, const Icmpv6Fields&) noexcept = default;
};

/// Borrows the message: what follows the extension headers.
class Icmpv6View {
 public:
  static constexpr std::size_t kSize = 8;

  /// @return kTruncated. Every message that we know has at least 8 bytes (RFC 4443 §3, §4; RFC 4861
  /// §4). The checksum is a question of its own: checksum_ok().
  [[nodiscard]] static Result<Icmpv6View> parse(Bytes message) noexcept {
    if (message.size() < kSize) return failure(Error::kTruncated);
    return Icmpv6View(message);
  }

  [[nodiscard]] Icmpv6Type type() const noexcept {
    return static_cast<Icmpv6Type>(bytes_.data()[0]);
  }
  [[nodiscard]] std::uint8_t code() const noexcept { return bytes_.data()[1]; }
  /// Types below 128; an error is never answered with an error (RFC 4443 §2.4 (e)).
  [[nodiscard]] bool is_error() const noexcept { return bytes_.data()[0] < 128; }
  [[nodiscard]] std::uint16_t checksum() const noexcept { return load_be16(bytes_.data() + 2); }
  /// Of an echo message.
  [[nodiscard]] std::uint16_t identifier() const noexcept { return load_be16(bytes_.data() + 4); }
  /// Of an echo message.
  [[nodiscard]] std::uint16_t sequence() const noexcept { return load_be16(bytes_.data() + 6); }
  /// Of packet too big. Not authenticated: only a hint, to be clamped (RFC 8201 §4: never below
  /// 1280) and believed only if quoted() names a packet that we sent.
  [[nodiscard]] std::uint32_t mtu() const noexcept { return load_be32(bytes_.data() + 4); }
  /// Echo data; or in an error, the start of the packet that caused it (for
  /// Ipv6View::parse_quoted).
  [[nodiscard]] Bytes rest() const noexcept { return bytes_.subspan(kSize); }
  [[nodiscard]] Bytes quoted() const noexcept { return rest(); }
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }
  /// Checksum over pseudo header and the whole message (RFC 4443 §2.3).
  [[nodiscard]] bool checksum_ok(const IpAddress& source,
                                 const IpAddress& destination) const noexcept;
  [[nodiscard]] Icmpv6Fields fields() const noexcept { return {type(), code(), mtu()}; }

 private:
  explicit Icmpv6View(Bytes bytes) noexcept : bytes_(bytes) {}
  Bytes bytes_;
};

/// The checksum for `message`, whatever its checksum field holds now. `message.size()` is at least
/// kSize.
[[nodiscard]] std::uint16_t icmpv6_checksum(Bytes message, const IpAddress& source,
                                            const IpAddress& destination) noexcept;

/// Writes the header of a message whose rest is in place already, and the checksum over all.
/// `message.size()` is at least kSize.
void build(MutableBytes message, const Icmpv6Fields& f, const IpAddress& source,
           const IpAddress& destination) noexcept;

/// Turns an echo request into its reply in place. The checksum is mended for the type alone: right
/// if the reply travels between the same two addresses; otherwise use build(). RFC 4443 §4.2.
/// @param message was proven by Icmpv6View::parse and is an echo request.
void make_echo_reply_v6(MutableBytes message) noexcept;

/// Most bytes of an ICMPv6 error message: its packet fits the minimum MTU of 1280 (RFC 4443 §2.4
/// (c)).
inline constexpr std::size_t kIcmpv6ErrorSizeMax = 1280 - 40;

/// Writes an error message about `offending` (from its IPv6 header on), quoting as much of it as
/// fits. Whether an error may be sent at all (RFC 4443 §2.4 (e)) and how often (f) is for the
/// caller.
/// @param out at least kSize bytes; at most kIcmpv6ErrorSizeMax of them are used; disjoint from
/// `offending`.
/// @return bytes of the message.
[[nodiscard]] std::size_t build_error(MutableBytes out, const Icmpv6Fields& f, Bytes offending,
                                      const IpAddress& source,
                                      const IpAddress& destination) noexcept;

[[nodiscard]] std::string to_string(const Icmpv6View& v);

}  // namespace h4a::net
