// How many sessions one client may have half open: offered and answered, but not yet confirmed by a
// protected packet (DESIGN §6.8). Pure; each costs a QP, an SA and buffers until it expires after 5 s. A
// session that was confirmed, or ended, leaves its place: clients that keep their word are not limited.
//
// A client is known by its source, an IPv4 address or an IPv6 /64, since whoever has one address of a /64 has
// all of it; and by the credentials it shows, if any, so that one who has many addresses is one all the same.
// Both limits hold. Credentials that nobody has verified can only make it tighter.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/time.h"

namespace h4a::edge {

/// The address, or the /64 prefix of an IPv6 address.
[[nodiscard]] IpAddress source_key(const IpAddress& address) noexcept;

/// Who a client says it is: by the subject of its verified certificate, else its Authorization, else its
/// Cookie. A digest of it, since a credential is not ours to keep; empty without any.
[[nodiscard]] std::string identity_key(std::string_view client_subject,
                                       std::string_view authorization, std::string_view cookie);

struct HalfOpenLimits {
  std::size_t per_source = 16;
  std::size_t per_identity = 16;
  std::size_t total = 1024;
  Duration expiry = Duration::s(5);
};

/// The place of one offer that was admitted.
class HalfOpenPlace {
 public:
  /// Not half open any more. Any thread; once is enough.
  void leave() noexcept { left_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool left() const noexcept { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> left_{false};
};

/// Thread: one.
class HalfOpenLimiter {
 public:
  explicit HalfOpenLimiter(const HalfOpenLimits& limits) noexcept : limits_(limits) {}

  /// Counts one more offer of `source` and, unless it is empty, of `identity`, for `expiry` from `now` or until
  /// it leaves its place.
  /// @return nullptr if that would be too many: nothing is counted then.
  [[nodiscard]] std::shared_ptr<HalfOpenPlace> admit(const IpAddress& source,
                                                     const std::string& identity, Instant now);
  [[nodiscard]] std::size_t size() const noexcept { return admitted_.size(); }

 private:
  struct Admitted {
    IpAddress source;
    std::string identity;
    Instant until;
    std::shared_ptr<HalfOpenPlace> place;
  };
  void expire(Instant now);
  [[nodiscard]] bool has_room(const IpAddress& source, const std::string& identity) const noexcept;

  HalfOpenLimits limits_;
  std::deque<Admitted> admitted_;
  boost::unordered_flat_map<IpAddress, std::size_t, std::hash<IpAddress>> by_source_;
  boost::unordered_flat_map<std::string, std::size_t> by_identity_;
};

}  // namespace h4a::edge
