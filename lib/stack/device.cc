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
constexpr std::uint8_t kPriorityMax = 7;
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

Result<verbs::MemoryRegion> Stack::alloc_fast_region(verbs::PdId pd,
                                                     AssociationId association) noexcept {
  if (association != kClear && associations_.find(association) == nullptr)
    return failure(Error::kNotFound);
  return engine_.alloc_fast_region(pd, association);
}

Result<verbs::MemoryWindow> Stack::alloc_type1_window(verbs::PdId pd) noexcept {
  return engine_.alloc_type1_window(pd);
}

Result<Rkey> Stack::bind_window(Qpn qpn, const verbs::WindowBind& bind) noexcept {
  return engine_.bind_window(qpn, bind);
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

Result<void> Stack::req_notify_cq(verbs::CqId cq, bool solicited_only) noexcept {
  return engine_.req_notify_cq(cq, solicited_only);
}

std::size_t Stack::poll_cq_events(std::span<verbs::CqId> out) noexcept {
  return engine_.poll_cq_events(out);
}

Result<verbs::SrqId> Stack::create_srq(const verbs::SrqOptions& o) noexcept {
  return engine_.create_srq(o);
}

Result<void> Stack::modify_srq(verbs::SrqId srq, std::uint32_t limit) noexcept {
  return engine_.modify_srq(srq, limit);
}

Result<verbs::SrqStatus> Stack::srq_status(verbs::SrqId srq) const noexcept {
  return engine_.srq_status(srq);
}

Result<void> Stack::destroy_srq(verbs::SrqId srq) noexcept {
  return engine_.destroy_srq(srq);
}

Result<void> Stack::post_srq_recv(verbs::SrqId srq, std::span<const verbs::RecvWr> wrs) noexcept {
  return engine_.post_srq_recv(srq, wrs);
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
  const auto status = engine_.qp_status(qpn);
  if (!status) return failure(status.error());
  if (verbs::is_datagram(status->type)) return to_rtr_datagram(qpn, a);
  if (a.remote_address.is_multicast() ||
      a.path_mtu > max_path_mtu(a.association != kClear, !a.local_address.is_v4()))
    return failure(Error::kInvalidArgument);
  const auto id = add_path({.local_address = a.local_address,
                            .remote_address = a.remote_address,
                            .hop_limit = a.hop_limit,
                            .traffic_class = a.traffic_class,
                            .priority = a.priority,
                            .association = a.association});
  if (!id) return failure(id.error());
  auto done = engine_.to_rtr(qpn, a, *id);
  if (!done) {
    remove_path(*id);
    return done;
  }
  forget_path(qpn);  // of an earlier life of this QP
  path_of_qp_[qpn.value()] = *id;
  return {};
}

// A datagram QP has no path of its own: address handles have them.
Result<void> Stack::to_rtr_datagram(Qpn qpn, const verbs::RtrAttributes& a) noexcept {
  if (a.association != kClear && associations_.find(a.association) == nullptr)
    return failure(Error::kNotFound);
  if (a.path_mtu > max_path_mtu(a.association != kClear, false))
    return failure(Error::kInvalidArgument);
  return engine_.to_rtr(qpn, a, PathId());
}

Result<verbs::AhId> Stack::create_ah(verbs::PdId pd, const verbs::AhAttributes& a) noexcept {
  const auto path = add_path(a);
  if (!path) return failure(path.error());
  auto ah = engine_.create_ah(pd, a, *path);
  if (!ah) remove_path(*path);
  return ah;
}

Result<void> Stack::destroy_ah(verbs::AhId ah) noexcept {
  const auto path = engine_.destroy_ah(ah);
  if (!path) return failure(path.error());
  remove_path(*path);
  return {};
}

Result<void> Stack::attach_multicast(Qpn qpn, const IpAddress& group) noexcept {
  return engine_.attach_multicast(qpn, group);
}

Result<void> Stack::detach_multicast(Qpn qpn, const IpAddress& group) noexcept {
  return engine_.detach_multicast(qpn, group);
}

Result<PathId> Stack::add_path(const verbs::AhAttributes& a) noexcept {
  const auto path = resolve_path(a);
  if (!path) return failure(path.error());
  auto id = paths_.add(*path);
  if (!id && !path->remote.is_multicast()) neighbours_.release(path->next_hop);
  return id;
}

Result<Path> Stack::resolve_path(const verbs::AhAttributes& a) noexcept {
  if (!is_ours(a.local_address) || is_ours(a.remote_address) ||
      a.local_address.is_v4() != a.remote_address.is_v4() || a.remote_address.is_unspecified() ||
      a.priority > kPriorityMax)
    return failure(Error::kInvalidArgument);
  if (a.association != kClear) {
    const auto* association = associations_.find(a.association);
    if (association == nullptr) return failure(Error::kNotFound);
    if (association->options.local_address != a.local_address ||
        association->options.remote_address != a.remote_address)
      return failure(Error::kInvalidArgument);
  }
  Path path;
  path.local = a.local_address;
  path.remote = a.remote_address;
  path.association = a.association;
  path.traffic_class = a.traffic_class;
  path.hop_limit = a.hop_limit;
  path.priority = a.priority;
  if (path.remote.is_multicast()) return path;
  const auto next_hop = next_hop_to(path.remote);
  if (!next_hop) return failure(next_hop.error());
  if (!neighbours_.acquire(*next_hop, path.next_hop)) return failure(Error::kNoMemory);
  return path;
}

Result<IpAddress> Stack::next_hop_to(const IpAddress& destination) const noexcept {
  if (interface_for(destination) != nullptr) return destination;
  for (const IpAddress& g : gateways_)
    if (g.is_v4() == destination.is_v4() && interface_for(g) != nullptr) return g;
  return failure(Error::kInvalidArgument);
}

void Stack::remove_path(PathId id) noexcept {
  if (!paths_[id].remote.is_multicast()) neighbours_.release(paths_[id].next_hop);
  paths_.remove(id);
}

void Stack::forget_path(Qpn qpn) noexcept {
  const auto it = path_of_qp_.find(qpn.value());
  if (it == path_of_qp_.end()) return;
  remove_path(it->second);
  path_of_qp_.erase(it);
}

Result<void> Stack::to_rts(Qpn qpn, const verbs::RtsAttributes& a) noexcept {
  return engine_.to_rts(qpn, a);
}

Result<void> Stack::to_sqd(Qpn qpn) noexcept {
  return engine_.to_sqd(qpn);
}

Result<void> Stack::modify_qp(Qpn qpn, const verbs::QpUpdate& update) noexcept {
  return engine_.modify_qp(qpn, update);
}

Result<verbs::QpAttributes> Stack::qp_attributes(Qpn qpn) const noexcept {
  return engine_.qp_attributes(qpn);
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

// After a burst went through open_burst, whatever became of its frames: those of one association follow one
// another. Its older SAs, kept while keys change, have limits of their own.
void Stack::report_inbound_limits(Frames opened) noexcept {
  AssociationId last = kClear;
  for (const packet::Frame* f : opened) {
    if (f->association == last) continue;
    last = f->association;
    Associations::Association* const a = associations_.find(last);
    if (a == nullptr) continue;
    for (Associations::Inbound& in : a->inbound)
      report_limits(last, in.sa->soft_limit_reached(), in.sa->exhausted(), in.reported);
  }
}

void Stack::report_limits(AssociationId id, bool soft, bool hard,
                          LimitsReported& reported) noexcept {
  using Type = verbs::AsyncEvent::Type;
  if (soft && !reported.soft) reported.soft = raise(Type::kSaSoftLimit, id);
  if (hard && !reported.hard) reported.hard = raise(Type::kSaHardLimit, id);
}

bool Stack::raise(verbs::AsyncEvent::Type type, AssociationId id) noexcept {
  if (events_.size() == kEventMax) return false;
  verbs::AsyncEvent event;
  event.type = type;
  event.association = id;
  events_.push_back(event);
  return true;
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

verbs::DeviceLimits Stack::limits() const noexcept {
  return engine_.limits();
}

verbs::DeviceCounters Stack::counters() const noexcept {
  verbs::DeviceCounters all = engine_.counters();
  all.drops += drops_;
  all.drops += port_.counters().drops;
  return all;
}

}  // namespace h4a::stack
