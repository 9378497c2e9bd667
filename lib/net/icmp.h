// ICMP for IPv4: echo, destination unreachable, fragmentation needed. Spec: RFC 792, RFC 1191 §4,
// RFC 1122 §3.2.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace h4a::net {

/// Values not listed are valid too.
enum class IcmpType : std::uint8_t {
  kEchoReply = 0,
  kUnreachable = 3,
  kEchoRequest = 8,
  kTimeExceeded = 11,
};

/// Codes of kUnreachable.
inline constexpr std::uint8_t kIcmpHostUnreachable = 1;
inline constexpr std::uint8_t kIcmpProtocolUnreachable = 2;
inline constexpr std::uint8_t kIcmpPortUnreachable = 3;
inline constexpr std::uint8_t kIcmpFragmentationNeeded = 4;

struct IcmpFields {
  IcmpType type = IcmpType::kEchoRequest;
  std::uint8_t code = 0;
  std::uint16_t word0 = 0;  // echo: identifier
  std::uint16_t word1 = 0;  // echo: sequence number; fragmentation needed: MTU of the next hop

  friend constexpr bool operator==(const IcmpFields&, const IcmpFields&) noexcept = default;
};

/// Borrows the message: the whole payload of the IP packet.
class IcmpView {
 public:
  static constexpr std::size_t kSize = 8;

  /// @return kTruncated. The checksum is a question of its own: checksum_ok().
  [[nodiscard]] static Result<IcmpView> parse(Bytes message) noexcept {
    if (message.size() < kSize) return failure(Error::kTruncated);
    return IcmpView(message);
  }

  [[nodiscard]] IcmpType type() const noexcept { return static_cast<IcmpType>(bytes_.data()[0]); }
  [[nodiscard]] std::uint8_t code() const noexcept { return bytes_.data()[1]; }
  [[nodiscard]] std::uint16_t checksum() const noexcept { return load_be16(bytes_.data() + 2); }
  /// Of an echo message.
  [[nodiscard]] std::uint16_t identifier() const noexcept { return load_be16(bytes_.data() + 4); }
  /// Of an echo message.
  [[nodiscard]] std::uint16_t sequence() const noexcept { return load_be16(bytes_.data() + 6); }
  [[nodiscard]] bool is_fragmentation_needed() const noexcept {
    return type() == IcmpType::kUnreachable && code() == kIcmpFragmentationNeeded;
  }
  /// Of fragmentation needed; 0 from routers older than RFC 1191. Not authenticated: only a hint,
  /// to be clamped and believed only if quoted() names a packet that we sent (RFC 5927 §7).
  [[nodiscard]] std::uint16_t next_hop_mtu() const noexcept { return load_be16(bytes_.data() + 6); }
  /// Echo data; or in an error, the start of the packet that caused it (for
  /// Ipv4View::parse_quoted).
  [[nodiscard]] Bytes rest() const noexcept { return bytes_.subspan(kSize); }
  [[nodiscard]] Bytes quoted() const noexcept { return rest(); }
  /// Checksum over the whole message.
  [[nodiscard]] bool checksum_ok() const noexcept;
  [[nodiscard]] IcmpFields fields() const noexcept {
    return {type(), code(), identifier(), sequence()};
  }

 private:
  explicit IcmpView(Bytes bytes) noexcept : bytes_(bytes) {}
  Bytes bytes_;
};

/// Writes the header of a message whose rest is in place already, and the checksum over all.
/// `message.size()` is at least kSize.
void build(MutableBytes message, const IcmpFields& f) noexcept;

/// Turns an echo request into its reply in place: type and checksum; data stays. RFC 1122 §3.2.2.6.
/// @param message was proven by IcmpView::parse and is an echo request of code 0.
void make_echo_reply(MutableBytes message) noexcept;

/// Most bytes of an ICMP error message, so that its IP packet has at most 576 (RFC 1812 §4.3.2.3).
inline constexpr std::size_t kIcmpErrorSizeMax = 576 - 20;

/// Writes an error message about `offending` (from its IP header on), quoting as much of it as
/// fits. Whether an error may be sent at all (RFC 1122 §3.2.2: not about errors, multicasts,
/// fragments) and how often is for the caller.
/// @param out at least kSize bytes; at most kIcmpErrorSizeMax of them are used; disjoint from
/// `offending`.
/// @return bytes of the message.
[[nodiscard]] std::size_t build_error(MutableBytes out, const IcmpFields& f,
                                      Bytes offending) noexcept;

[[nodiscard]] std::string to_string(const IcmpView& v);

}  // namespace h4a::net
