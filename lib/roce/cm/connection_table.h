// ConnectionTable: a fixed number of connections, found by handle, by our communication ID, by the
// peer's, or by the peer's queue pair. Communication IDs are random in all 32 bits, so they are not
// indices: each kind of key has an array of its own, which a look-up runs through (8 bytes an entry).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "roce/cm/connection.h"

namespace h4a::roce::cm {

class ConnectionTable {
 public:
  /// @param capacity 1..2^16. All memory is taken here.
  ConnectionTable(std::size_t capacity, Random& random)
      : random_(random), slots_(capacity), local_(capacity), remote_(capacity), qpn_(capacity) {
    free_.reserve(capacity);
    generations_.resize(capacity);
    for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size() - free_.size(); }
  [[nodiscard]] bool full() const noexcept { return free_.empty(); }

  /// A connection as new, with a random local communication ID. nullptr if the table is full.
  [[nodiscard]] Connection* allocate() noexcept;
  /// It must be in no list and no timer heap.
  void release(Connection& c) noexcept;

  [[nodiscard]] Connection* find(verbs::CmId id) noexcept;
  /// The one that has this ID of ours. SIDR request IDs of ours are found here too.
  [[nodiscard]] Connection* find_local(std::uint32_t comm_id) noexcept;
  /// The one that `peer` knows by this ID of its own.
  [[nodiscard]] Connection* find_remote(const Peer& peer, std::uint32_t comm_id, bool ud) noexcept;
  /// The one with this queue pair of `peer`, unless it is in time-wait or closed.
  [[nodiscard]] Connection* find_qpn(const Peer& peer, Qpn qpn) noexcept;

  /// To be called when remote_comm_id or remote_qpn of `c` were set.
  void index_remote(const Connection& c) noexcept;
  /// Its IDs and queue pair are nobody's any more; the handle still works.
  void forget_keys(const Connection& c) noexcept;

  /// Calls f(Connection&) for each.
  template <class F>
  void for_each(F&& f) {
    for (Connection& c : slots_)
      if (c.id.value() != 0) f(c);
  }

 private:
  static constexpr std::uint32_t kIndexBits = 16;
  static constexpr std::uint32_t kGenerationMask = 0xffff;
  [[nodiscard]] static std::size_t index_of(const Connection& c) noexcept {
    return c.id.value() & ((1U << kIndexBits) - 1);
  }
  /// Never 0, which stands for "no key".
  [[nodiscard]] static std::uint64_t key_of(const Peer& peer, std::uint32_t number) noexcept {
    const std::uint64_t h =
        std::hash<IpAddress>{}(peer.remote) ^ (std::uint64_t{number} * 0x9e37'79b9'7f4a'7c15ULL);
    return h | 1;
  }
  template <class Keys, class Match>
  [[nodiscard]] Connection* search(const Keys& keys, typename Keys::value_type key,
                                   Match&& matches) noexcept {
    for (auto at = keys.begin(); (at = std::find(at, keys.end(), key)) != keys.end(); ++at) {
      Connection& c = slots_[static_cast<std::size_t>(at - keys.begin())];
      if (matches(c)) return &c;
    }
    return nullptr;
  }

  Random& random_;
  std::vector<Connection> slots_;
  std::vector<std::uint32_t> local_;
  std::vector<std::uint64_t> remote_;
  std::vector<std::uint64_t> qpn_;
  std::vector<std::uint16_t> generations_;
  std::vector<std::uint32_t> free_;
};

}  // namespace h4a::roce::cm
