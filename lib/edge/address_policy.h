// Which of a server's candidate addresses a client may send to (DESIGN §6.7). Pure.
//
// An Answer is authentic, yet its sender is only whom the certificate names: it must not make a client probe
// the client's own network. So an address is used if the authority's name resolves to it, or if it is of the
// same scope as one of those. One exception: a name that resolves to loopback is a server on this very
// machine, which may name any of its own addresses (trials and demos do: HTTPS on 127.0.0.1, packets on
// 10.99.0.1).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/address.h"

namespace h4a::edge {

enum class AddressScope : std::uint8_t {
  kNone,       // unspecified, multicast, broadcast: never a destination
  kLoopback,   // 127.0.0.0/8, ::1
  kLinkLocal,  // 169.254.0.0/16, fe80::/10
  kPrivate,    // RFC 1918, RFC 6598 (100.64.0.0/10), RFC 4193 (fc00::/7)
  kGlobal,
};

[[nodiscard]] AddressScope scope_of(const IpAddress& address) noexcept;
[[nodiscard]] std::string_view to_string(AddressScope scope) noexcept;

/// @param resolved what the authority's name resolved to; for an address literal, that address.
[[nodiscard]] bool address_allowed(const IpAddress& candidate,
                                   std::span<const IpAddress> resolved) noexcept;

}  // namespace h4a::edge
