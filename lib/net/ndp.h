// Neighbour discovery: solicitations and advertisements of neighbours and routers, with their
// options. Spec: RFC 4861 §4 (formats), §6.1 and §7.1 (what a host must silently discard).
//
// parse() proves the message and walks its options once, noting where the ones we use lie;
// acceptable() holds the rules that need the IP header. The ICMPv6 checksum is Icmpv6View's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "net/icmpv6.h"

namespace h4a::net {

/// Every NDP packet is sent with this hop limit, so that none can come from beyond a router.
inline constexpr std::uint8_t kNdpHopLimit = 255;

/// Prefix Information option. Spec: RFC 4861 §4.6.2.
struct NdpPrefix {
  IpAddress prefix;
  std::uint8_t prefix_bits = 0;  // 0..128
  bool on_link = false;
  bool autonomous = false;
  std::uint32_t valid_lifetime_s = 0;  // ffffffff: for ever
  std::uint32_t preferred_lifetime_s = 0;

  friend constexpr bool operator==(const NdpPrefix&, const NdpPrefix&) noexcept = default;
};

/// Borrows the ICMPv6 message.
class NdpView {
 public:
  /// Prefixes of one router advertisement that are kept; more are ignored.
  static constexpr std::size_t kPrefixMax = 4;

  /// @return kUnsupported if the type is not 133..136; kTruncated if its fixed part does not fit;
  /// kMalformed if the code is not 0, an option has length 0, ends behind the message or has
  /// another length than its type says, a link address is zero or a group's, a target is a
  /// multicast address or IPv4-mapped, or a prefix is longer than 128 bits.
  [[nodiscard]] static Result<NdpView> parse(Bytes message) noexcept;

  /// The rules of §6.1 and §7.1 about the packet around the message: hop limit 255; a solicitation
  /// from the unspecified address goes to a solicited-node group and names no link address; an
  /// advertisement to a group is not "solicited"; a router advertises from a link-local address.
  [[nodiscard]] bool acceptable(const IpAddress& source, const IpAddress& destination,
                                std::uint8_t hop_limit) const noexcept;

  [[nodiscard]] Icmpv6Type type() const noexcept {
    return static_cast<Icmpv6Type>(message_.data()[0]);
  }
  [[nodiscard]] bool is_neighbour() const noexcept {
    return type() == Icmpv6Type::kNeighbourSolicitation ||
           type() == Icmpv6Type::kNeighbourAdvertisement;
  }
  /// `::` unless is_neighbour().
  [[nodiscard]] IpAddress target() const noexcept {
    return is_neighbour() ? IpAddress::load_v6(message_.data() + 8) : IpAddress{};
  }
  /// The three flags of a neighbour advertisement; without meaning in other messages.
  [[nodiscard]] bool is_router() const noexcept { return (message_.data()[4] & 0x80) != 0; }
  [[nodiscard]] bool is_solicited() const noexcept { return (message_.data()[4] & 0x40) != 0; }
  [[nodiscard]] bool is_override() const noexcept { return (message_.data()[4] & 0x20) != 0; }
  /// Of a router advertisement: the hop limit that hosts should use, 0: unspecified.
  [[nodiscard]] std::uint8_t current_hop_limit() const noexcept { return message_.data()[4]; }
  /// Of a router advertisement: 0 if it is no default router.
  [[nodiscard]] std::uint16_t router_lifetime_s() const noexcept {
    return load_be16(message_.data() + 6);
  }

  [[nodiscard]] std::optional<MacAddress> source_link_address() const noexcept {
    return mac_at(source_link_);
  }
  [[nodiscard]] std::optional<MacAddress> target_link_address() const noexcept {
    return mac_at(target_link_);
  }
  /// MTU option (§4.6.4); to be clamped to 1280 and the port's MTU by whoever uses it.
  [[nodiscard]] std::optional<std::uint32_t> mtu() const noexcept {
    if (mtu_ == 0) return std::nullopt;
    return load_be32(message_.data() + mtu_ + 4);
  }
  [[nodiscard]] std::size_t prefix_count() const noexcept { return prefix_count_; }
  /// `i` < prefix_count().
  [[nodiscard]] NdpPrefix prefix(std::size_t i) const noexcept;

 private:
  explicit NdpView(Bytes message) noexcept : message_(message) {}
  Result<void> walk_options(std::size_t offset) noexcept;
  Result<void> note_option(std::size_t offset, std::size_t size) noexcept;
  [[nodiscard]] std::optional<MacAddress> mac_at(std::uint32_t option) const noexcept {
    if (option == 0) return std::nullopt;
    return MacAddress::load(message_.data() + option + 2);
  }

  Bytes message_;
  // Offsets of the first option of each kind; 0: there is none.
  std::uint32_t source_link_ = 0;
  std::uint32_t target_link_ = 0;
  std::uint32_t mtu_ = 0;
  std::array<std::uint32_t, kPrefixMax> prefixes_{};
  std::size_t prefix_count_ = 0;
};

/// Most bytes that either builder below writes: 24 and one link address option.
inline constexpr std::size_t kNeighbourMessageSizeMax = 32;

/// Writes a neighbour solicitation (§4.3) with its checksum at `p`.
/// @param link_address our own; none when probing for duplicates from `::`.
/// @return its size, 24 or 32.
std::size_t build_neighbour_solicitation(std::uint8_t* p, const IpAddress& target,
                                         const std::optional<MacAddress>& link_address,
                                         const IpAddress& source,
                                         const IpAddress& destination) noexcept;

struct NeighbourAdvertisement {
  IpAddress target;
  bool is_router = false;
  bool is_solicited = true;
  bool is_override = true;
  std::optional<MacAddress> link_address;
};

/// Writes a neighbour advertisement (§4.4) with its checksum at `p`. @return its size, 24 or 32.
std::size_t build_neighbour_advertisement(std::uint8_t* p, const NeighbourAdvertisement& a,
                                          const IpAddress& source,
                                          const IpAddress& destination) noexcept;

/// The group ff02::1:ffXX:XXXX that the owner of `target` listens to. Spec: RFC 4291 §2.7.1.
[[nodiscard]] IpAddress solicited_node_group(const IpAddress& target) noexcept;

/// The group of all nodes, ff02::1.
[[nodiscard]] IpAddress all_nodes_group() noexcept;

[[nodiscard]] std::string to_string(const NdpView& v);

}  // namespace h4a::net
