// How many sessions one source may have half open: offered and answered, but not yet confirmed by a
// protected packet (DESIGN §6.8). Pure; each costs a QP, an SA and buffers until it expires after 5 s.
//
// A source is an IPv4 address or an IPv6 /64, since whoever has one address of a /64 has all of it.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <deque>

#include "base/address.h"
#include "base/time.h"

namespace h4a::edge {

/// The address, or the /64 prefix of an IPv6 address.
[[nodiscard]] IpAddress source_key(const IpAddress& address) noexcept;

struct HalfOpenLimits {
  std::size_t per_source = 16;
  std::size_t total = 1024;
  Duration expiry = Duration::s(5);
};

/// Thread: one.
class HalfOpenLimiter {
 public:
  explicit HalfOpenLimiter(const HalfOpenLimits& limits) noexcept : limits_(limits) {}

  /// Counts one more offer of `source`, for `expiry` from `now`. @return false if that would be too many:
  /// nothing is counted then. Calls come with `now` never going back.
  [[nodiscard]] bool admit(const IpAddress& source, Instant now);
  [[nodiscard]] std::size_t size() const noexcept { return admitted_.size(); }

 private:
  struct Admitted {
    IpAddress source;
    Instant until;
  };
  void expire(Instant now);

  HalfOpenLimits limits_;
  std::deque<Admitted> admitted_;  // oldest first
  boost::unordered_flat_map<IpAddress, std::size_t, std::hash<IpAddress>> by_source_;
};

}  // namespace h4a::edge
