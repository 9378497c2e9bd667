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

struct Engine::Impl {
  Impl(const EngineOptions& options, Random& random) : core(options, random), cqs(options.cq_max) {
    qps.reserve(options.qp_max);
    memberships.reserve(options.multicast_max);
  }
  ~Impl() {
    core.active.clear();
    core.held.clear();
  }

  Core core;
  PlacementPredictor placements;
  SlotTable<std::unique_ptr<Cq>, verbs::CqId> cqs;
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
  [[nodiscard]] Qpn random_qpn() noexcept;

  void receive_one(packet::Frame& frame, Instant now) noexcept;
  void receive_multicast(const net::TransportPacket& packet, packet::Frame& frame) noexcept;
};

}  // namespace h4a::roce
