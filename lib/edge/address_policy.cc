#include "edge/address_policy.h"

#include <algorithm>

namespace h4a::edge {
namespace {

bool is_private_v4(Bytes b) noexcept {
  return b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16) || (b[0] == 192 && b[1] == 168) ||
         (b[0] == 100 && (b[1] & 0xc0) == 64);
}

bool is_loopback(const IpAddress& a) noexcept {
  static constexpr IpAddress kV6 = IpAddress::load_v6(
      std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}.data());
  return a.is_v4() ? a.wire_bytes()[0] == 127 : a == kV6;
}

}  // namespace

AddressScope scope_of(const IpAddress& a) noexcept {
  const Bytes b = a.wire_bytes();
  // All of 0.0.0.0/8 and 240.0.0.0/4 (with the broadcast address) is nobody's address.
  if (a.is_unspecified() || a.is_multicast() || (a.is_v4() && (b[0] == 0 || b[0] >= 240)))
    return AddressScope::kNone;
  if (is_loopback(a)) return AddressScope::kLoopback;
  if (a.is_link_local()) return AddressScope::kLinkLocal;
  if (a.is_v4() ? is_private_v4(b) : (b[0] & 0xfe) == 0xfc) return AddressScope::kPrivate;
  return AddressScope::kGlobal;
}

std::string_view to_string(AddressScope scope) noexcept {
  switch (scope) {
    case AddressScope::kNone:
      return "unusable";
    case AddressScope::kLoopback:
      return "loopback";
    case AddressScope::kLinkLocal:
      return "link-local";
    case AddressScope::kPrivate:
      return "private";
    case AddressScope::kGlobal:
      return "global";
  }
  return "unknown";
}

bool address_allowed(const IpAddress& candidate, std::span<const IpAddress> resolved) noexcept {
  const AddressScope scope = scope_of(candidate);
  if (scope == AddressScope::kNone) return false;
  return std::any_of(resolved.begin(), resolved.end(), [&](const IpAddress& r) {
    return r == candidate || scope_of(r) == scope || scope_of(r) == AddressScope::kLoopback;
  });
}

}  // namespace h4a::edge
