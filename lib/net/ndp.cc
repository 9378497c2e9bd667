#include "net/ndp.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::net {
namespace {

constexpr std::size_t kTargetOffset = 8;
constexpr std::size_t kNeighbourSize = 24;
constexpr std::size_t kLinkOptionSize = 8;
constexpr std::size_t kMtuOptionSize = 8;
constexpr std::size_t kPrefixOptionSize = 32;

enum OptionType : std::uint8_t {
  kSourceLinkOption = 1,
  kTargetLinkOption = 2,
  kPrefixOption = 3,
  kMtuOption = 5,
};

/// Bytes before the options, 0 if it is none of ours.
std::size_t fixed_size(Icmpv6Type type) noexcept {
  switch (type) {
    case Icmpv6Type::kRouterSolicitation:
      return 8;
    case Icmpv6Type::kRouterAdvertisement:
      return 16;
    case Icmpv6Type::kNeighbourSolicitation:
    case Icmpv6Type::kNeighbourAdvertisement:
      return kNeighbourSize;
    default:
      return 0;
  }
}

/// Appends a link address option behind a neighbour message; returns the size of both.
std::size_t finish(std::uint8_t* p, OptionType option,
                   const std::optional<MacAddress>& link_address) noexcept {
  if (!link_address) return kNeighbourSize;
  p[kNeighbourSize] = option;
  p[kNeighbourSize + 1] = kLinkOptionSize / 8;
  link_address->store(p + kNeighbourSize + 2);
  return kNeighbourSize + kLinkOptionSize;
}

bool is_solicited_node_group(const IpAddress& ip) noexcept {
  return ip == solicited_node_group(ip);
}

}  // namespace

Result<NdpView> NdpView::parse(Bytes message) noexcept {
  if (message.empty()) return failure(Error::kTruncated);
  NdpView v(message);
  const std::size_t fixed = fixed_size(v.type());
  if (fixed == 0) return failure(Error::kUnsupported);
  if (message.size() < fixed) return failure(Error::kTruncated);
  if (message[1] != 0) return failure(Error::kMalformed);
  if (v.is_neighbour() && (v.target().is_multicast() || v.target().is_v4()))
    return failure(Error::kMalformed);
  if (const auto ok = v.walk_options(fixed); !ok) return failure(ok.error());
  return v;
}

/// Options are type, length in units of 8 bytes, data. RFC 4861 §4.6.
Result<void> NdpView::walk_options(std::size_t offset) noexcept {
  while (offset < message_.size()) {
    const std::size_t left = message_.size() - offset;
    if (left < 8) return failure(Error::kMalformed);
    const std::size_t size = std::size_t{message_[offset + 1]} * 8;
    if (size == 0 || size > left) return failure(Error::kMalformed);
    if (const auto ok = note_option(offset, size); !ok) return ok;
    offset += size;
  }
  return {};
}

Result<void> NdpView::note_option(std::size_t offset, std::size_t size) noexcept {
  const auto at = static_cast<std::uint32_t>(offset);
  switch (message_[offset]) {
    case kSourceLinkOption:
    case kTargetLinkOption: {
      if (size != kLinkOptionSize) return failure(Error::kMalformed);
      // As with ARP: a group's address is nobody's, and would make us flood the link.
      const MacAddress mac = MacAddress::load(message_.data() + offset + 2);
      if (mac.is_multicast() || mac.is_zero()) return failure(Error::kMalformed);
      std::uint32_t& noted = message_[offset] == kSourceLinkOption ? source_link_ : target_link_;
      if (noted == 0) noted = at;
      return {};
    }
    case kMtuOption:
      if (size != kMtuOptionSize) return failure(Error::kMalformed);
      if (mtu_ == 0) mtu_ = at;
      return {};
    case kPrefixOption:
      if (size != kPrefixOptionSize || message_[offset + 2] > 128)
        return failure(Error::kMalformed);
      if (prefix_count_ < kPrefixMax) prefixes_[prefix_count_++] = at;
      return {};
    default:
      return {};  // §6.1, §7.1: options that are not known are ignored
  }
}

bool NdpView::acceptable(const IpAddress& source, const IpAddress& destination,
                         std::uint8_t hop_limit) const noexcept {
  if (hop_limit != kNdpHopLimit) return false;
  switch (type()) {
    case Icmpv6Type::kNeighbourSolicitation:  // §7.1.1
      return !source.is_unspecified() ||
             (is_solicited_node_group(destination) && source_link_ == 0);
    case Icmpv6Type::kNeighbourAdvertisement:  // §7.1.2
      return !(destination.is_multicast() && is_solicited());
    case Icmpv6Type::kRouterSolicitation:  // §6.1.1
      return !source.is_unspecified() || source_link_ == 0;
    case Icmpv6Type::kRouterAdvertisement:  // §6.1.2
      return !source.is_v4() && source.is_link_local();
    default:
      return false;
  }
}

NdpPrefix NdpView::prefix(std::size_t i) const noexcept {
  const std::uint8_t* p = message_.data() + prefixes_[i];
  return {IpAddress::load_v6(p + 16), p[2],
          (p[3] & 0x80) != 0,         (p[3] & 0x40) != 0,
          load_be32(p + 4),           load_be32(p + 8)};
}

std::size_t build_neighbour_solicitation(std::uint8_t* p, const IpAddress& target,
                                         const std::optional<MacAddress>& link_address,
                                         const IpAddress& source,
                                         const IpAddress& destination) noexcept {
  std::copy_n(target.bytes().data(), IpAddress::kSize, p + kTargetOffset);
  const std::size_t size = finish(p, kSourceLinkOption, link_address);
  build({p, size}, Icmpv6Fields{Icmpv6Type::kNeighbourSolicitation, 0, 0}, source, destination);
  return size;
}

std::size_t build_neighbour_advertisement(std::uint8_t* p, const NeighbourAdvertisement& a,
                                          const IpAddress& source,
                                          const IpAddress& destination) noexcept {
  std::copy_n(a.target.bytes().data(), IpAddress::kSize, p + kTargetOffset);
  const std::size_t size = finish(p, kTargetLinkOption, a.link_address);
  const std::uint32_t flags = (a.is_router ? 0x8000'0000U : 0U) |
                              (a.is_solicited ? 0x4000'0000U : 0U) |
                              (a.is_override ? 0x2000'0000U : 0U);
  build({p, size}, Icmpv6Fields{Icmpv6Type::kNeighbourAdvertisement, 0, flags}, source,
        destination);
  return size;
}

IpAddress solicited_node_group(const IpAddress& target) noexcept {
  std::array<std::uint8_t, IpAddress::kSize> b{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy_n(target.bytes().data() + 13, 3, b.data() + 13);
  return IpAddress::load_v6(b.data());
}

IpAddress all_nodes_group() noexcept {
  constexpr std::array<std::uint8_t, IpAddress::kSize> kBytes{0xff, 2, 0, 0, 0, 0, 0, 0,
                                                              0,    0, 0, 0, 0, 0, 0, 1};
  return IpAddress::load_v6(kBytes.data());
}

std::string to_string(const NdpView& v) {
  std::string s;
  switch (v.type()) {
    case Icmpv6Type::kNeighbourSolicitation:
      s = "ndp who has " + to_string(v.target());
      break;
    case Icmpv6Type::kNeighbourAdvertisement:
      s = fmt::format("ndp {} is here{}{}{}", to_string(v.target()), v.is_router() ? " router" : "",
                      v.is_solicited() ? " solicited" : "", v.is_override() ? " override" : "");
      break;
    case Icmpv6Type::kRouterSolicitation:
      s = "ndp router solicitation";
      break;
    default:
      s = fmt::format("ndp router advertisement lifetime {}", v.router_lifetime_s());
  }
  if (const auto mac = v.source_link_address()) s += " from " + to_string(*mac);
  if (const auto mac = v.target_link_address()) s += " at " + to_string(*mac);
  if (const auto mtu = v.mtu()) s += fmt::format(" mtu {}", *mtu);
  for (std::size_t i = 0; i < v.prefix_count(); ++i)
    s += fmt::format(" prefix {}/{}", to_string(v.prefix(i).prefix), v.prefix(i).prefix_bits);
  return s;
}

}  // namespace h4a::net
