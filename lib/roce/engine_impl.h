// What is behind Engine: the shared core, and the tables of queue pairs and completion queues.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <span>
#include <vector>

#include "net/bth.h"
#include "roce/core.h"
#include "roce/engine.h"
#include "roce/placement_predictor.h"
#include "roce/slot_table.h"

namespace h4a::roce {

inline constexpr std::uint32_t kQueueDepthMax = 65536;
[[nodiscard]] constexpr bool is_depth(std::uint32_t n) noexcept {
  return n >= 1 && n <= kQueueDepthMax;
}

/// The ranges of IBA vol. 1 §11.2.5.2.
[[nodiscard]] bool is_valid(const verbs::RtrAttributes& a) noexcept;
[[nodiscard]] bool is_valid(const verbs::RtsAttributes& a) noexcept;
[[nodiscard]] constexpr bool is_valid_pkey(std::uint16_t pkey) noexcept {
  return (pkey & 0x7fff) != 0;
}

struct Engine::Impl {
  Impl(const EngineOptions& options, Random& random)
      : core(options, random), cqs(options.cq_max), srqs(options.srq_max) {
    qps.reserve(options.qp_max);
    memberships.reserve(options.multicast_max);
  }
  ~Impl() {
    core.active.clear();
    core.held.clear();
    core.notified.clear();
  }

  Core core;
  PlacementPredictor placements;
  Qpn expected_qpn;  // of the frame that expect() saw last
  SlotTable<std::unique_ptr<Cq>, verbs::CqId> cqs;
  SlotTable<std::unique_ptr<Srq>, verbs::SrqId> srqs;
  boost::unordered_flat_map<std::uint32_t, std::unique_ptr<Qp>> qps;
  struct Membership {
    IpAddress group;
    Qpn qpn;
    friend bool operator==(const Membership&, const Membership&) = default;
  };
  std::vector<Membership> memberships;  // few: looked through for each multicast datagram

  [[nodiscard]] Qp* find(Qpn qpn) noexcept {
    const auto it = qps.find(qpn.value());
    return it == qps.end() ? nullptr : it->second.get();
  }
  [[nodiscard]] Cq* find(verbs::CqId id) noexcept {
    auto* slot = cqs.find(id);
    return slot == nullptr ? nullptr : slot->get();
  }
  [[nodiscard]] Srq* find(verbs::SrqId id) noexcept {
    auto* slot = srqs.find(id);
    return slot == nullptr ? nullptr : slot->get();
  }
  [[nodiscard]] Qpn random_qpn() noexcept;

  void receive_one(packet::Frame& frame, Instant now) noexcept;
  void receive_multicast(const net::TransportPacket& packet, packet::Frame& frame) noexcept;
};

}  // namespace h4a::roce
