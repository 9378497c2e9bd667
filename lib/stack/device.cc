// The verbs of the in-process home: memory, queues and work go to the transport engine; this file adds
// what needs more than the transport: paths for connected QPs, associations, limits and events.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "ipsec/esp.h"
#include "stack/stack.h"

namespace h4a::stack {
namespace {

// Headers of the largest RDMA packet that carries payload: UDP, BTH, RETH, immediate, and the ICRC.
constexpr std::size_t kRoceOverhead = 8 + 12 + 16 + 4 + 4;
constexpr std::uint16_t kPathMtus[] = {4096, 2048, 1024, 512, 256};

}  // namespace

Result<verbs::PdId> Stack::alloc_pd() noexcept {
  return engine_.alloc_pd();
}

Result<void> Stack::dealloc_pd(verbs::PdId pd) noexcept {
  return engine_.dealloc_pd(pd);
}

Result<verbs::MemoryRegion> Stack::register_memory(verbs::PdId pd, void* address,
                                                   std::size_t length, verbs::Access access,
                                                   AssociationId association) noexcept {
  if (association != kClear && associations_.find(association) == nullptr)
    return failure(Error::kNotFound);
  return engine_.register_memory(pd, address, length, access, association);
}

Result<void> Stack::deregister_memory(verbs::MrId region) noexcept {
  return engine_.deregister_memory(region);
}

Result<verbs::MemoryWindow> Stack::alloc_window(verbs::PdId pd) noexcept {
  return engine_.alloc_window(pd);
}

Result<void> Stack::dealloc_window(verbs::MwId window) noexcept {
  return engine_.dealloc_window(window);
}

Result<Rkey> Stack::fresh_rkey(verbs::MwId window) noexcept {
  return engine_.fresh_rkey(window);
}

Result<void> Stack::retire_window(verbs::MwId window) noexcept {
  return engine_.retire_window(window);
}

Result<verbs::WindowStatus> Stack::window_status(verbs::MwId window) const noexcept {
  return engine_.window_status(window);
}

Result<verbs::CqId> Stack::create_cq(std::uint32_t depth) noexcept {
  return engine_.create_cq(depth);
}

Result<void> Stack::destroy_cq(verbs::CqId cq) noexcept {
  return engine_.destroy_cq(cq);
}

Result<Qpn> Stack::create_qp(const verbs::QpOptions& options) noexcept {
  return engine_.create_qp(options);
}

Result<void> Stack::destroy_qp(Qpn qpn) noexcept {
  auto done = engine_.destroy_qp(qpn);
  if (done) forget_path(qpn);
  return done;
}

Result<void> Stack::to_init(Qpn qpn, const verbs::InitAttributes& a) noexcept {
  return engine_.to_init(qpn, a);
}

Result<void> Stack::to_rtr(Qpn qpn, const verbs::RtrAttributes& a) noexcept {
  auto path = resolve_path(a);
  if (!path) return failure(path.error());
  auto id = paths_.add(*path);
  if (!id) {
    neighbours_.release(path->next_hop);
    return failure(id.error());
  }
  auto done = engine_.to_rtr(qpn, a, *id);
  if (!done) {
    paths_.remove(*id);
    neighbours_.release(path->next_hop);
    return done;
  }
  forget_path(qpn);  // of an earlier life of this QP
  path_of_qp_[qpn.value()] = *id;
  return {};
}

Result<Path> Stack::resolve_path(const verbs::RtrAttributes& a) noexcept {
  const auto ours = [&](const IpAddress& ip) { return is_ours(ip); };
  const bool v6 = !a.local_address.is_v4();
  if (!ours(a.local_address) || ours(a.remote_address) ||
      a.local_address.is_v4() != a.remote_address.is_v4() || a.remote_address.is_unspecified() ||
      a.remote_address.is_multicast() || a.path_mtu > max_path_mtu(a.association != kClear, v6))
    return failure(Error::kInvalidArgument);
  if (a.association != kClear) {
    const auto* association = associations_.find(a.association);
    if (association == nullptr) return failure(Error::kNotFound);
    if (association->options.local_address != a.local_address ||
        association->options.remote_address != a.remote_address)
      return failure(Error::kInvalidArgument);
  }
  IpAddress next_hop = a.remote_address;
  if (interface_for(next_hop) == nullptr) {
    const auto gateway = std::find_if(gateways_.begin(), gateways_.end(), [&](const IpAddress& g) {
      return g.is_v4() == next_hop.is_v4() && interface_for(g) != nullptr;
    });
    if (gateway == gateways_.end()) return failure(Error::kInvalidArgument);
    next_hop = *gateway;
  }
  Path path;
  path.local = a.local_address;
  path.remote = a.remote_address;
  path.association = a.association;
  path.traffic_class = a.traffic_class;
  path.hop_limit = a.hop_limit;
  if (!neighbours_.acquire(next_hop, path.next_hop)) return failure(Error::kNoMemory);
  return path;
}

void Stack::forget_path(Qpn qpn) noexcept {
  const auto it = path_of_qp_.find(qpn.value());
  if (it == path_of_qp_.end()) return;
  neighbours_.release(paths_[it->second].next_hop);
  paths_.remove(it->second);
  path_of_qp_.erase(it);
}

Result<void> Stack::to_rts(Qpn qpn, const verbs::RtsAttributes& a) noexcept {
  return engine_.to_rts(qpn, a);
}

Result<void> Stack::to_error(Qpn qpn) noexcept {
  return engine_.to_error(qpn);
}

Result<void> Stack::to_reset(Qpn qpn) noexcept {
  auto done = engine_.to_reset(qpn);
  if (done) forget_path(qpn);
  return done;
}

Result<verbs::QpStatus> Stack::qp_status(Qpn qpn) const noexcept {
  return engine_.qp_status(qpn);
}

Result<void> Stack::post_send(Qpn qpn, std::span<const verbs::SendWr> wrs) noexcept {
  return engine_.post_send(qpn, wrs);
}

Result<void> Stack::post_recv(Qpn qpn, std::span<const verbs::RecvWr> wrs) noexcept {
  return engine_.post_recv(qpn, wrs);
}

std::size_t Stack::poll_cq(verbs::CqId cq, std::span<verbs::Completion> out) noexcept {
  return engine_.poll_cq(cq, out);
}

std::size_t Stack::poll_events(std::span<verbs::AsyncEvent> out) noexcept {
  const std::size_t own = std::min(out.size(), events_.size());
  std::copy_n(events_.begin(), own, out.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(own));
  return own + engine_.poll_events(out.subspan(own));
}

void Stack::raise(const verbs::AsyncEvent& event) noexcept {
  if (events_.size() < kEventMax) events_.push_back(event);
}

Result<AssociationId> Stack::create_association(const verbs::AssociationOptions& options) noexcept {
  if (!is_ours(options.local_address)) return failure(Error::kInvalidArgument);
  return associations_.create(options);
}

Result<void> Stack::destroy_association(AssociationId association) noexcept {
  auto done = associations_.destroy(association);
  if (done) engine_.fail_association(association);
  return done;
}

Result<Spi> Stack::allocate_spi() noexcept {
  return associations_.allocate_spi();
}

Result<void> Stack::install_sa(AssociationId association, verbs::SaOptions&& sa) noexcept {
  return associations_.install(association, std::move(sa));
}

Result<void> Stack::remove_sa(AssociationId association, verbs::SaDirection direction,
                              Spi spi) noexcept {
  return associations_.remove(association, direction, spi);
}

std::span<const IpInterface> Stack::addresses() const noexcept {
  return addresses_;
}

std::uint16_t Stack::max_path_mtu(bool with_esp, bool ipv6) const noexcept {
  const std::size_t overhead =
      (ipv6 ? 40U : 20U) + kRoceOverhead + (with_esp ? ipsec::kEspOverheadMax : 0);
  for (const std::uint16_t mtu : kPathMtus)
    if (mtu + overhead <= port_.mtu()) return mtu;
  return 0;
}

verbs::DeviceCounters Stack::counters() const noexcept {
  verbs::DeviceCounters all = engine_.counters();
  all.drops += drops_;
  all.drops += port_.counters().drops;
  return all;
}

}  // namespace h4a::stack
