// Instants and durations in nanoseconds. Protocol code never reads a clock: `now` is handed down.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace h4a {

class Duration {
 public:
  constexpr Duration() noexcept = default;
  static constexpr Duration ns(std::int64_t v) noexcept { return Duration(v); }
  static constexpr Duration us(std::int64_t v) noexcept { return Duration(v * 1000); }
  static constexpr Duration ms(std::int64_t v) noexcept { return Duration(v * 1'000'000); }
  static constexpr Duration s(std::int64_t v) noexcept { return Duration(v * 1'000'000'000); }
  [[nodiscard]] constexpr std::int64_t count_ns() const noexcept { return ns_; }
  [[nodiscard]] constexpr double seconds() const noexcept {
    return static_cast<double>(ns_) * 1e-9;
  }
  constexpr Duration operator+(Duration d) const noexcept { return Duration(ns_ + d.ns_); }
  constexpr Duration operator-(Duration d) const noexcept { return Duration(ns_ - d.ns_); }
  constexpr Duration operator*(std::int64_t k) const noexcept { return Duration(ns_ * k); }
  constexpr Duration operator/(std::int64_t k) const noexcept { return Duration(ns_ / k); }
  friend constexpr auto operator<=>(Duration, Duration) noexcept = default;

 private:
  explicit constexpr Duration(std::int64_t v) noexcept : ns_(v) {}
  std::int64_t ns_ = 0;
};

/// A point on some monotonic clock. `never()` is later than every other instant.
class Instant {
 public:
  constexpr Instant() noexcept = default;
  static constexpr Instant from_ns(std::int64_t v) noexcept { return Instant(v); }
  static constexpr Instant never() noexcept {
    return Instant(std::numeric_limits<std::int64_t>::max());
  }
  [[nodiscard]] constexpr std::int64_t count_ns() const noexcept { return ns_; }
  [[nodiscard]] constexpr bool is_never() const noexcept { return *this == never(); }
  constexpr Instant operator+(Duration d) const noexcept { return Instant(ns_ + d.count_ns()); }
  constexpr Instant operator-(Duration d) const noexcept { return Instant(ns_ - d.count_ns()); }
  constexpr Duration operator-(Instant o) const noexcept { return Duration::ns(ns_ - o.ns_); }
  friend constexpr auto operator<=>(Instant, Instant) noexcept = default;

 private:
  explicit constexpr Instant(std::int64_t v) noexcept : ns_(v) {}
  std::int64_t ns_ = 0;
};

/// The machine's monotonic clock. For `main` and the edge only.
[[nodiscard]] Instant steady_now() noexcept;

/// Nanoseconds since 1970, for time stamps of captures and certificates. For `main` and the edge
/// only.
[[nodiscard]] std::int64_t wall_now_ns() noexcept;

}  // namespace h4a
