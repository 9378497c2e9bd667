// ARP for IPv4 over Ethernet. Spec: RFC 826; probes and announcements: RFC 5227 §1.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace h4a::net {

enum class ArpOperation : std::uint16_t { kRequest = 1, kReply = 2 };

struct ArpFields {
  ArpOperation operation = ArpOperation::kRequest;
  MacAddress sender_mac;
  IpAddress sender_ip = IpAddress::v4(0, 0, 0, 0);
  MacAddress target_mac;  // zero in a request
  IpAddress target_ip = IpAddress::v4(0, 0, 0, 0);

  friend constexpr bool operator==(const ArpFields&, const ArpFields&) noexcept = default;
};

/// Borrows the packet; link pad behind it is ignored.
class ArpView {
 public:
  static constexpr std::size_t kSize = 28;

  /// @return kTruncated; kUnsupported if hardware, protocol or their address lengths are not
  /// Ethernet and IPv4, or the operation is neither request nor reply; kMalformed if the sender's
  /// MAC address is zero or a group's, which nobody can send from.
  [[nodiscard]] static Result<ArpView> parse(Bytes b) noexcept {
    if (b.size() < kSize) return failure(Error::kTruncated);
    if (load_be64(b.data()) >> 16 != kEthernetAndIpv4) return failure(Error::kUnsupported);
    const std::uint16_t operation = load_be16(b.data() + 6);
    if (operation != 1 && operation != 2) return failure(Error::kUnsupported);
    const MacAddress sender = MacAddress::load(b.data() + 8);
    if (sender.is_multicast() || sender.is_zero()) return failure(Error::kMalformed);
    return ArpView(b.first(kSize));
  }

  [[nodiscard]] ArpOperation operation() const noexcept {
    return static_cast<ArpOperation>(load_be16(bytes_.data() + 6));
  }
  [[nodiscard]] MacAddress sender_mac() const noexcept {
    return MacAddress::load(bytes_.data() + 8);
  }
  /// 0.0.0.0 in a probe (RFC 5227 §1.1): to be answered, never to be learned.
  [[nodiscard]] IpAddress sender_ip() const noexcept {
    return IpAddress::load_v4(bytes_.data() + 14);
  }
  [[nodiscard]] MacAddress target_mac() const noexcept {
    return MacAddress::load(bytes_.data() + 18);
  }
  [[nodiscard]] IpAddress target_ip() const noexcept {
    return IpAddress::load_v4(bytes_.data() + 24);
  }
  [[nodiscard]] ArpFields fields() const noexcept {
    return {operation(), sender_mac(), sender_ip(), target_mac(), target_ip()};
  }

 private:
  static constexpr std::uint64_t kEthernetAndIpv4 = 0x0001'0800'0604;
  explicit ArpView(Bytes bytes) noexcept : bytes_(bytes) {}
  Bytes bytes_;
};

/// Writes kSize bytes at `p`.
void build(std::uint8_t* p, const ArpFields& f) noexcept;

/// The question who has `target`; goes to the broadcast address.
[[nodiscard]] ArpFields arp_request(const MacAddress& mac, const IpAddress& ip,
                                    const IpAddress& target) noexcept;
/// The answer "`mac` has what you asked for"; goes to request.sender_mac().
[[nodiscard]] ArpFields arp_reply(const ArpView& request, const MacAddress& mac) noexcept;

[[nodiscard]] std::string to_string(const ArpView& v);

}  // namespace h4a::net
