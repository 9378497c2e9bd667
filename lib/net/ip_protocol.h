// Protocol numbers of IPv4 and next-header values of IPv6. Spec: IANA "Protocol Numbers".
#pragma once

#include <cstdint>

namespace h4a::net {

/// Values not listed are valid too.
enum class IpProtocol : std::uint8_t {
  kHopByHop = 0,  // IPv6 extension header
  kIcmp = 1,
  kTcp = 6,
  kUdp = 17,
  kRouting = 43,   // IPv6 extension header
  kFragment = 44,  // IPv6 extension header
  kEsp = 50,
  kIcmpv6 = 58,
  kNoNextHeader = 59,
  kDestinationOptions = 60,  // IPv6 extension header
};

/// Explicit congestion notification, the low two bits of TOS and traffic class. Spec: RFC 3168 §5.
enum class Ecn : std::uint8_t { kNotCapable = 0, kEct1 = 1, kEct0 = 2, kCongestionExperienced = 3 };

}  // namespace h4a::net
