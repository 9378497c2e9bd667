// Control and work calls of the engine: each checks its arguments and the QP's state, then hands
// on. Spec: IBA vol. 1 chapters 10 and 11.
#include "roce/engine.h"

#include <algorithm>
#include <new>

#include "roce/datagram.h"
#include "roce/engine_impl.h"
#include "roce/qp_state.h"
#include "roce/requester.h"

namespace h4a::roce {
namespace {

using verbs::QpState;

/// As after create_qp. Completions that were written stay in their queues.
void reset(Core& core, Qp& qp) noexcept {
  core.timers.remove(qp);
  core.memory.invalidate_all(qp.qpn);
  if (qp.is_linked()) core.active.erase(core.active.iterator_to(qp));
  qp.requester.queue.clear();
  qp.responder.queue.clear();
  qp.requester = RequesterState(std::move(qp.requester.queue));
  qp.responder = ResponderState(std::move(qp.responder.queue));
  qp.association = kClear;
  qp.overran = false;
  qp.heard_peer = false;
}

void flush_one(Core& core, Qp& qp, Cq& cq, std::uint64_t wr_id) noexcept {
  verbs::Completion c;
  c.wr_id = wr_id;
  c.status = verbs::CompletionStatus::kFlushed;
  core.complete(qp, cq, c);
}

}  // namespace

Engine::Engine(const EngineOptions& options, Random& random)
    : impl_(std::make_unique<Impl>(options, random)) {}
Engine::~Engine() = default;

// ---- memory ----

Result<verbs::PdId> Engine::alloc_pd() noexcept {
  return impl_->core.memory.alloc_pd();
}
Result<void> Engine::dealloc_pd(verbs::PdId pd) noexcept {
  return impl_->core.memory.dealloc_pd(pd);
}
Result<verbs::MemoryRegion> Engine::register_memory(verbs::PdId pd, void* address,
                                                    std::size_t length, verbs::Access access,
                                                    AssociationId association) noexcept {
  return impl_->core.memory.register_memory(pd, address, length, access, association);
}
Result<void> Engine::deregister_memory(verbs::MrId region) noexcept {
  return impl_->core.memory.deregister_memory(region);
}
Result<verbs::MemoryRegion> Engine::alloc_fast_region(verbs::PdId pd,
                                                      AssociationId association) noexcept {
  return impl_->core.memory.alloc_fast_region(pd, association);
}
Result<verbs::MemoryWindow> Engine::alloc_type1_window(verbs::PdId pd) noexcept {
  return impl_->core.memory.alloc_window(pd, true);
}
Result<verbs::MemoryWindow> Engine::alloc_window(verbs::PdId pd) noexcept {
  return impl_->core.memory.alloc_window(pd);
}
Result<void> Engine::dealloc_window(verbs::MwId window) noexcept {
  return impl_->core.memory.dealloc_window(window);
}
Result<Rkey> Engine::fresh_rkey(verbs::MwId window) noexcept {
  return impl_->core.memory.fresh_rkey(window);
}
Result<void> Engine::retire_window(verbs::MwId window) noexcept {
  return impl_->core.memory.retire_window(window);
}
Result<verbs::WindowStatus> Engine::window_status(verbs::MwId window) const noexcept {
  return impl_->core.memory.window_status(window);
}

// ---- completion queues ----

Result<verbs::CqId> Engine::create_cq(std::uint32_t depth) noexcept {
  if (!is_depth(depth)) return failure(Error::kInvalidArgument);
  verbs::CqId id;
  auto* slot = impl_->cqs.allocate(id);
  if (slot == nullptr) return failure(Error::kNoMemory);
  try {
    *slot = std::make_unique<Cq>(depth);
  } catch (const std::bad_alloc&) {
    impl_->cqs.release(id);
    return failure(Error::kNoMemory);
  }
  (*slot)->id = id;
  return id;
}

Result<void> Engine::destroy_cq(verbs::CqId id) noexcept {
  Cq* cq = impl_->find(id);
  if (cq == nullptr) return failure(Error::kNotFound);
  if (cq->users > 0) return failure(Error::kBusy);
  if (cq->is_linked()) impl_->core.notified.erase(impl_->core.notified.iterator_to(*cq));
  impl_->cqs.find(id)->reset();
  impl_->cqs.release(id);
  return {};
}

std::size_t Engine::poll_cq(verbs::CqId id, std::span<verbs::Completion> out) noexcept {
  Cq* cq = impl_->find(id);
  return cq == nullptr ? 0 : cq->ring.pop(out);
}

Result<void> Engine::req_notify_cq(verbs::CqId id, bool solicited_only) noexcept {
  Cq* cq = impl_->find(id);
  if (cq == nullptr) return failure(Error::kNotFound);
  if (!solicited_only || cq->armed == Armed::kAny)
    cq->armed = Armed::kAny;
  else
    cq->armed = Armed::kSolicited;
  return {};
}

std::size_t Engine::poll_cq_events(std::span<verbs::CqId> out) noexcept {
  auto& notified = impl_->core.notified;
  std::size_t n = 0;
  for (; n < out.size() && !notified.empty(); notified.pop_front()) out[n++] = notified.front().id;
  return n;
}

std::size_t Engine::poll_events(std::span<verbs::AsyncEvent> out) noexcept {
  return impl_->core.events.pop(out);
}

// ---- queue pairs ----

Qpn Engine::Impl::random_qpn() noexcept {
  for (;;) {  // 0 and 1 are the management QPs, 0xffffff is multicast
    const Qpn qpn(static_cast<std::uint32_t>(core.random.below(Psn::kMask - 2) + 2));
    if (find(qpn) == nullptr) return qpn;
  }
}

Result<Qpn> Engine::create_qp(const verbs::QpOptions& o) noexcept {
  const bool gsi = o.type == verbs::QpType::kGsi;
  const bool shares = o.srq != verbs::SrqId();
  if (!is_depth(o.max_send_wr) || (!shares && !is_depth(o.max_recv_wr)) ||
      o.max_inline > verbs::kInlineMax)
    return failure(Error::kInvalidArgument);
  if (shares && o.type != verbs::QpType::kRc) return failure(Error::kUnsupported);
  Cq* send = impl_->find(o.send_cq);
  Cq* recv = impl_->find(o.recv_cq);
  Srq* srq = impl_->find(o.srq);
  if (send == nullptr || recv == nullptr || (shares && srq == nullptr))
    return failure(Error::kNotFound);
  if (gsi && impl_->find(verbs::kGsiQpn) != nullptr) return failure(Error::kExists);
  if (impl_->qps.size() >= impl_->core.options.qp_max) return failure(Error::kNoMemory);
  std::unique_ptr<Qp> qp;
  try {
    qp = std::make_unique<Qp>(o, *send, *recv, srq);
  } catch (const std::bad_alloc&) {
    return failure(Error::kNoMemory);
  }
  if (const auto held = impl_->core.memory.hold_pd(o.pd); !held) return failure(held.error());
  qp->qpn = gsi ? verbs::kGsiQpn : impl_->random_qpn();
  ++send->users;
  ++recv->users;
  if (srq != nullptr) ++srq->users;
  const Qpn qpn = qp->qpn;
  impl_->qps.emplace(qpn.value(), std::move(qp));
  return qpn;
}

Result<void> Engine::destroy_qp(Qpn qpn) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  reset(impl_->core, *qp);
  std::erase_if(impl_->memberships, [&](const auto& m) { return m.qpn == qpn; });
  --qp->send_cq->users;
  --qp->recv_cq->users;
  if (qp->srq != nullptr) --qp->srq->users;
  impl_->core.memory.drop_pd(qp->pd);
  impl_->qps.erase(qpn.value());
  return {};
}

Result<void> Engine::to_init(Qpn qpn, const verbs::InitAttributes& a) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  const auto to = next_state(qp->state, QpEvent::kToInit);
  if (!to) return failure(Error::kInvalidState);
  if (!is_valid_pkey(a.pkey)) return failure(Error::kInvalidArgument);
  qp->init = a;
  if (qp->type == verbs::QpType::kGsi) qp->init.qkey = verbs::kGsiQkey;
  qp->state = *to;
  return {};
}

Result<void> Engine::to_rtr(Qpn qpn, const verbs::RtrAttributes& a, PathId path) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  const auto to = next_state(qp->state, QpEvent::kToRtr);
  if (!to) return failure(Error::kInvalidState);
  if (!is_valid(a)) return failure(Error::kInvalidArgument);
  qp->responder.attributes = a;
  qp->responder.expected = a.rq_psn;
  qp->mtu = a.path_mtu;
  qp->remote_qpn = a.remote_qpn;
  qp->remote_address = a.remote_address;
  qp->association = a.association;
  qp->path = path;
  // One port a QP, in the range that RoCEv2 uses for entropy (annex A17.9.1).
  qp->udp_source_port = static_cast<std::uint16_t>(0xc000 | (impl_->core.random.u32() & 0x3fff));
  qp->state = *to;
  return {};
}

Result<void> Engine::to_rts(Qpn qpn, const verbs::RtsAttributes& a) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  const auto to = next_state(qp->state, QpEvent::kToRts);
  if (!to) return failure(Error::kInvalidState);
  if (!is_valid(a)) return failure(Error::kInvalidArgument);
  RequesterState& r = qp->requester;
  const Psn first = qp->state == QpState::kRtr ? a.sq_psn : r.attributes.sq_psn;
  r.attributes = a;
  r.attributes.sq_psn = first;
  // Out of SQE and SQD the peer's PSN has not changed, so ours goes on.
  if (qp->state == QpState::kRtr) r.next = r.una = r.sent_end = first;
  r.retries_left = a.retry_count;
  r.rnr_retries_left = a.rnr_retry;
  r.drained = false;
  qp->state = *to;
  impl_->core.update_active(*qp);
  return {};
}

Result<void> Engine::to_error(Qpn qpn) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  if (!next_state(qp->state, QpEvent::kToError)) return failure(Error::kInvalidState);
  impl_->core.enter_error(*qp, ErrorCause::kCall);
  return {};
}

Result<void> Engine::to_reset(Qpn qpn) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  const auto to = next_state(qp->state, QpEvent::kToReset);
  if (!to) return failure(Error::kInvalidState);
  reset(impl_->core, *qp);
  qp->state = *to;
  return {};
}

Result<verbs::QpStatus> Engine::qp_status(Qpn qpn) const noexcept {
  const Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  return verbs::QpStatus{qp->type, qp->state, qp->retransmitted_packets, qp->requester.queue.size(),
                         qp->responder.queue.size()};
}

void Engine::fail_association(AssociationId association) noexcept {
  for (auto& [number, qp] : impl_->qps)
    if (association != kClear && qp->association == association)
      impl_->core.enter_error(*qp, ErrorCause::kCall);
}

// ---- datagrams ----

Result<verbs::AhId> Engine::create_ah(verbs::PdId pd, const verbs::AhAttributes& a,
                                      PathId path) noexcept {
  verbs::AhId id;
  if (const auto held = impl_->core.memory.hold_pd(pd); !held) return failure(held.error());
  AddressHandle* handle = impl_->core.address_handles.allocate(id);
  if (handle == nullptr) {
    impl_->core.memory.drop_pd(pd);
    return failure(Error::kNoMemory);
  }
  *handle = {pd, path, a.association};
  return id;
}

Result<PathId> Engine::destroy_ah(verbs::AhId id) noexcept {
  const AddressHandle* handle = impl_->core.address_handles.find(id);
  if (handle == nullptr) return failure(Error::kNotFound);
  const PathId path = handle->path;
  impl_->core.memory.drop_pd(handle->pd);
  impl_->core.address_handles.release(id);
  return path;
}

Result<void> Engine::attach_multicast(Qpn qpn, const IpAddress& group) noexcept {
  const Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  if (qp->type != verbs::QpType::kUd || !group.is_multicast())
    return failure(Error::kInvalidArgument);
  auto& all = impl_->memberships;
  if (std::find(all.begin(), all.end(), Impl::Membership{group, qpn}) != all.end())
    return failure(Error::kExists);
  if (all.size() == impl_->core.options.multicast_max) return failure(Error::kNoMemory);
  all.push_back({group, qpn});
  return {};
}

Result<void> Engine::detach_multicast(Qpn qpn, const IpAddress& group) noexcept {
  return std::erase(impl_->memberships, Impl::Membership{group, qpn}) > 0
             ? Result<void>{}
             : failure(Error::kNotFound);
}

bool Engine::hears(const IpAddress& group) const noexcept {
  return std::any_of(impl_->memberships.begin(), impl_->memberships.end(),
                     [&](const auto& m) { return m.group == group; });
}

// ---- work ----

Result<void> Engine::post_send(Qpn qpn, std::span<const verbs::SendWr> wrs) noexcept {
  Core& core = impl_->core;
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  const bool dead = qp->state == QpState::kError || qp->state == QpState::kSqe;
  if (!dead && !sends_requests(qp->state)) return failure(Error::kInvalidState);
  for (const verbs::SendWr& wr : wrs)
    if (const auto ok = requester::validate(core, *qp, wr); !ok) return ok;
  if (!dead && wrs.size() > qp->requester.queue.room()) return failure(Error::kFull);
  for (const verbs::SendWr& wr : wrs) {
    if (dead)
      flush_one(core, *qp, *qp->send_cq, wr.wr_id);
    else
      requester::post(*qp, wr);
  }
  if (!dead) core.update_active(*qp);
  return {};
}

Result<void> Engine::post_recv(Qpn qpn, std::span<const verbs::RecvWr> wrs) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  if (qp->srq != nullptr) return failure(Error::kInvalidArgument);
  if (qp->state == QpState::kReset) return failure(Error::kInvalidState);
  for (const verbs::RecvWr& wr : wrs)
    if (wr.sge_count > kSgeMax) return failure(Error::kInvalidArgument);
  const bool dead = qp->state == QpState::kError;
  if (!dead && wrs.size() > qp->responder.queue.room()) return failure(Error::kFull);
  for (const verbs::RecvWr& wr : wrs) {
    if (dead)
      flush_one(impl_->core, *qp, *qp->recv_cq, wr.wr_id);
    else
      qp->responder.queue.push(wr);
  }
  // The requester that was told of none waits to hear of these. Spec: IBA vol. 1 §9.7.7.2.
  if (!dead && qp->responder.told_no_credit) {
    qp->responder.told_no_credit = false;
    qp->responder.ack_pending = true;
    impl_->core.update_active(*qp);
  }
  return {};
}

const verbs::DeviceCounters& Engine::counters() const noexcept {
  return impl_->core.counters;
}

}  // namespace h4a::roce
