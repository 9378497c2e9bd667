// Neighbours: which MAC address is behind an on-link IP address. ARP and NDP keep it alike.
// Spec: RFC 826, RFC 4861 §7 (timers and retries; reachability confirmation is simplified: an entry is
// used while it is younger than kLifetime and asked for again, while still used, after that).
//
// Frames whose next hop is not known yet wait in the entry, at most kPendingMax; beyond that the oldest
// waits on and the newest is dropped. When the tries are used up, what waits is dropped.
//
// The table holds no sockets and sends nothing: the stack asks it which solicitations are due.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/drop.h"
#include "base/time.h"
#include "packet/frame.h"
#include "packet/frame_pool.h"

namespace h4a::stack {

class Neighbours {
 public:
  using Index = std::uint32_t;
  static constexpr std::size_t kPendingMax = 64;
  /// Asked for at 0, 10, 30, 70, 150 and 310 ms; given up at 630 ms. Sooner than RFC 4861 §10 says
  /// (1 s apart), since a lost question must not use up the transport's retries.
  static constexpr unsigned kTriesMax = 6;
  static constexpr Duration kFirstRetransmit = Duration::ms(10);
  /// How long a neighbour that did not answer is not asked again.
  static constexpr Duration kFailedFor = Duration::ms(320);
  static constexpr Duration kLifetime = Duration::s(30);

  /// Takes memory for `capacity` neighbours at once.
  explicit Neighbours(std::size_t capacity);

  /// The entry of `ip`, made if there is none. Entries that a path uses are never evicted; when the
  /// table is full one that is not used goes. @return false if all are in use.
  [[nodiscard]] bool acquire(const IpAddress& ip, Index& out) noexcept;
  void release(Index i) noexcept;

  /// The MAC address, or nullptr if it is not known (yet); then the stack will be told to ask.
  [[nodiscard]] const MacAddress* resolve(Index i, Instant now) noexcept;
  /// True once the tries are used up and until the next one: sending is hopeless for now.
  [[nodiscard]] bool unreachable(Index i) const noexcept;

  /// Keeps `frame` until the address is known. @return false if it cannot wait; it stays the caller's.
  [[nodiscard]] bool hold(Index i, packet::Frame* frame) noexcept;
  /// Moves what waits for a now known neighbour to `out`. @return how many.
  [[nodiscard]] std::size_t take_ready(std::span<packet::Frame*> out,
                                       std::span<MacAddress> macs) noexcept;
  /// Moves what waited in vain to `out`, for the caller to count and release.
  [[nodiscard]] std::size_t take_expired(std::span<packet::Frame*> out) noexcept;

  /// Moves whatever waits to `out`: for the end of the stack.
  [[nodiscard]] std::size_t take_all(std::span<packet::Frame*> out) noexcept;

  /// A neighbour told its address. `may_create`: it asked for us, so we will answer it soon.
  void learn(const IpAddress& ip, const MacAddress& mac, Instant now, bool may_create) noexcept;

  /// Addresses to ask for now; and again later, each time after twice as long. @return how many.
  [[nodiscard]] std::size_t due_solicitations(std::span<IpAddress> out, Instant now) noexcept;
  /// When the next solicitation is due, or a neighbour's fate; at once if frames wait in vain or are ready.
  [[nodiscard]] Instant next_deadline() const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return by_ip_.size(); }

 private:
  enum class State : std::uint8_t { kFree, kIncomplete, kReachable, kFailed };
  struct Entry {
    IpAddress ip;
    MacAddress mac;
    State state = State::kFree;
    bool busy = false;  // listed in busy_
    std::uint8_t tries = 0;
    std::uint32_t users = 0;
    Instant expires;   // kReachable: ask again after this
    Instant next_try;  // when the next solicitation is due; never() if none
    std::uint32_t pending_count = 0;
    std::array<packet::Frame*, kPendingMax> pending{};
  };

  [[nodiscard]] bool insert(const IpAddress& ip, Index& out) noexcept;
  void start_asking(Entry& e, Instant now) noexcept;
  void list_busy(Entry& e) noexcept;
  /// Takes entries that have nothing to do any more out of busy_.
  void sweep() noexcept;
  [[nodiscard]] std::size_t take_pending(Entry& e, std::span<packet::Frame*> out) noexcept;

  std::vector<Entry> entries_;
  std::vector<Index> free_;
  boost::unordered_flat_map<IpAddress, Index, std::hash<IpAddress>> by_ip_;
  std::vector<Index> busy_;  // entries that ask or hold frames: a turn looks at these alone
};

}  // namespace h4a::stack
