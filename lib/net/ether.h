// Ethernet II header with up to two VLAN tags. Spec: IEEE 802.3 §3.2.6, IEEE 802.1Q §9.
//
// A frame shorter than 60 bytes travels with pad behind the packet; only the IP header tells where
// the packet ends, so rest() may hold pad.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace h4a::net {

/// What follows the link header. Values not listed are valid too; below 0x600 it is an 802.3
/// length.
enum class EtherType : std::uint16_t {
  kIpv4 = 0x0800,
  kArp = 0x0806,
  kVlan = 0x8100,  // 802.1Q customer tag
  kIpv6 = 0x86dd,
  kServiceVlan = 0x88a8,  // 802.1ad service tag
  kRocev1 = 0x8915,       // IBA annex A16; not spoken, but told apart in captures
};

/// One tag: its protocol identifier (kVlan or kServiceVlan) and its control information.
struct VlanTag {
  EtherType tpid = EtherType::kVlan;
  std::uint8_t priority = 0;  // 0..7
  bool drop_eligible = false;
  std::uint16_t id = 0;  // 0..4095; 0: priority tag only

  friend constexpr bool operator==(const VlanTag&, const VlanTag&) noexcept = default;
};

/// `p` has the 4 bytes of a tag.
[[nodiscard]] constexpr VlanTag load_vlan_tag(const std::uint8_t* p) noexcept {
  return {static_cast<EtherType>(load_be16(p)), static_cast<std::uint8_t>(p[2] >> 5),
          (p[2] & 0x10) != 0, static_cast<std::uint16_t>(load_be16(p + 2) & 0xfff)};
}

struct EtherFields {
  MacAddress destination;
  MacAddress source;
  std::size_t tag_count = 0;      // 0..2
  std::array<VlanTag, 2> tags{};  // outer first
  EtherType type = EtherType::kIpv4;

  friend constexpr bool operator==(const EtherFields&, const EtherFields&) noexcept = default;
};

[[nodiscard]] constexpr bool is_vlan(EtherType t) noexcept {
  return t == EtherType::kVlan || t == EtherType::kServiceVlan;
}

/// Borrows the frame.
class EtherView {
 public:
  static constexpr std::size_t kSize = 14;
  static constexpr std::size_t kTagSize = 4;
  static constexpr std::size_t kTagMax = 2;
  static constexpr std::size_t kSizeMax = kSize + kTagMax * kTagSize;

  /// @return kTruncated if the frame ends within the header, kUnsupported at a third tag.
  [[nodiscard]] static Result<EtherView> parse(Bytes frame) noexcept {
    if (frame.size() < kSize) return failure(Error::kTruncated);
    std::size_t header = kSize;
    while (is_vlan(static_cast<EtherType>(load_be16(frame.data() + header - 2)))) {
      if (header == kSizeMax) return failure(Error::kUnsupported);
      if (frame.size() < header + kTagSize) return failure(Error::kTruncated);
      header += kTagSize;
    }
    return EtherView(frame, header);
  }

  [[nodiscard]] MacAddress destination() const noexcept { return MacAddress::load(frame_.data()); }
  [[nodiscard]] MacAddress source() const noexcept { return MacAddress::load(frame_.data() + 6); }
  [[nodiscard]] std::size_t tag_count() const noexcept { return (header_ - kSize) / kTagSize; }
  /// Tag `i` from the outside, i < tag_count().
  [[nodiscard]] VlanTag tag(std::size_t i) const noexcept {
    return load_vlan_tag(frame_.data() + 12 + i * kTagSize);
  }
  /// The type behind all tags.
  [[nodiscard]] EtherType type() const noexcept {
    return static_cast<EtherType>(load_be16(frame_.data() + header_ - 2));
  }
  /// 14, 18 or 22.
  [[nodiscard]] std::size_t header_size() const noexcept { return header_; }
  /// The packet, and link pad if there is any.
  [[nodiscard]] Bytes rest() const noexcept { return frame_.subspan(header_); }
  [[nodiscard]] EtherFields fields() const noexcept;

 private:
  EtherView(Bytes frame, std::size_t header) noexcept : frame_(frame), header_(header) {}
  Bytes frame_;
  std::size_t header_;
};

/// 14, 18 or 22.
[[nodiscard]] constexpr std::size_t header_size(const EtherFields& f) noexcept {
  return EtherView::kSize + f.tag_count * EtherView::kTagSize;
}
/// Writes header_size(f) bytes at `p`.
void build(std::uint8_t* p, const EtherFields& f) noexcept;

/// Where packets to the multicast group `ip` go. Spec: RFC 1112 §6.4 (v4), RFC 2464 §7 (v6).
[[nodiscard]] MacAddress multicast_mac(const IpAddress& ip) noexcept;

/// The IPv6 link-local address that a MAC address stands for, which is GID 0 of a NIC.
/// Spec: RFC 4291 §2.5.6 and appendix A.
[[nodiscard]] IpAddress link_local_address(const MacAddress& mac) noexcept;

[[nodiscard]] std::string to_string(const EtherView& v);

}  // namespace h4a::net
