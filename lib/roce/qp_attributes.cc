// What a queue pair may be told after it was connected: draining, changes of attributes, and what it
// answers when it is asked. Spec: IBA vol. 1 §10.3.1.5 (SQD), §11.2.5.2 (modify), §11.2.5.3 (query).
#include "roce/engine.h"
#include "roce/engine_impl.h"
#include "roce/qp_state.h"
#include "roce/requester.h"

namespace h4a::roce {
namespace {

using verbs::QpState;

constexpr std::uint8_t kRetryMax = 7;
constexpr std::uint8_t kTimerCodeMax = 31;

bool is_path_mtu(std::uint16_t mtu) noexcept {
  return mtu == 256 || mtu == 512 || mtu == 1024 || mtu == 2048 || mtu == 4096;
}

bool is_draining(const Qp& qp) noexcept {
  const auto& queue = qp.requester.queue;
  return qp.state == QpState::kSqd && !queue.empty() && queue.front().started;
}

/// Anything that only a drained send queue may see changed.
bool needs_drained(const verbs::QpUpdate& u) noexcept {
  return u.timeout || u.retry_count || u.rnr_retry || u.max_rd_atomic || u.max_dest_rd_atomic ||
         u.pkey;
}

template <class T, class U>
void change(T& value, const std::optional<U>& update) noexcept {
  if (update) value = *update;
}

}  // namespace

bool is_valid(const verbs::RtrAttributes& a) noexcept {
  return is_path_mtu(a.path_mtu) && a.remote_qpn.value() <= Psn::kMask &&
         a.max_dest_rd_atomic <= kResourcesMax && a.min_rnr_timer <= kTimerCodeMax;
}

bool is_valid(const verbs::RtsAttributes& a) noexcept {
  return a.timeout <= kTimerCodeMax && a.retry_count <= kRetryMax && a.rnr_retry <= kRetryMax;
}

Result<void> Engine::to_sqd(Qpn qpn) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  const auto to = next_state(qp->state, QpEvent::kToSqd);
  if (!to) return failure(Error::kInvalidState);
  qp->state = *to;
  qp->requester.drained = false;
  impl_->core.settle(*qp);
  return {};
}

Result<void> Engine::modify_qp(Qpn qpn, const verbs::QpUpdate& u) noexcept {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  if (qp->state != QpState::kRtr && qp->state != QpState::kRts && qp->state != QpState::kSqd)
    return failure(Error::kInvalidState);
  if (needs_drained(u) && (qp->state != QpState::kSqd || is_draining(*qp)))
    return failure(Error::kInvalidState);
  verbs::InitAttributes init = qp->init;
  verbs::RtrAttributes rtr = qp->responder.attributes;
  verbs::RtsAttributes rts = qp->requester.attributes;
  change(init.access, u.access);
  change(init.pkey, u.pkey);
  change(rtr.min_rnr_timer, u.min_rnr_timer);
  change(rtr.max_dest_rd_atomic, u.max_dest_rd_atomic);
  change(rts.timeout, u.timeout);
  change(rts.retry_count, u.retry_count);
  change(rts.rnr_retry, u.rnr_retry);
  change(rts.max_rd_atomic, u.max_rd_atomic);
  if (!is_valid_pkey(init.pkey) || !is_valid(rtr) || !is_valid(rts))
    return failure(Error::kInvalidArgument);
  qp->init = init;
  qp->responder.attributes = rtr;
  qp->requester.attributes = rts;
  qp->requester.retries_left = rts.retry_count;
  qp->requester.rnr_retries_left = rts.rnr_retry;
  return {};
}

Result<verbs::QpAttributes> Engine::qp_attributes(Qpn qpn) const noexcept {
  const Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return failure(Error::kNotFound);
  verbs::QpAttributes a;
  a.state = qp->state;
  a.draining = is_draining(*qp);
  a.options = qp->options;
  a.init = qp->init;
  a.rtr = qp->responder.attributes;
  a.rtr.rq_psn = qp->responder.expected;
  a.rts = qp->requester.attributes;
  a.rts.sq_psn = qp->requester.next;
  return a;
}

Result<Rkey> Engine::bind_window(Qpn qpn, const verbs::WindowBind& b) noexcept {
  const auto rkey = impl_->core.memory.fresh_rkey(b.window, true);
  if (!rkey) return rkey;
  verbs::SendWr wr;
  wr.wr_id = b.wr_id;
  wr.signaled = b.signaled;
  wr.opcode = verbs::WrOpcode::kBindWindow;
  wr.rkey = *rkey;
  wr.window = b.window;
  wr.region = b.region;
  wr.bind_address = b.address;
  wr.bind_length = b.length;
  wr.bind_access = b.access;
  if (const auto posted = post_send(qpn, {&wr, 1}); !posted) return failure(posted.error());
  return rkey;
}

verbs::DeviceLimits Engine::limits() const noexcept {
  const EngineOptions& o = impl_->core.options;
  verbs::DeviceLimits l;
  l.qp_max = static_cast<std::uint32_t>(o.qp_max);
  l.cq_max = static_cast<std::uint32_t>(o.cq_max);
  l.srq_max = static_cast<std::uint32_t>(o.srq_max);
  l.pd_max = static_cast<std::uint32_t>(o.pd_max);
  l.mr_max = static_cast<std::uint32_t>(o.mr_max);
  l.mw_max = static_cast<std::uint32_t>(o.mw_max);
  l.queue_depth_max = kQueueDepthMax;
  l.sge_max = kSgeMax;
  l.inline_max = verbs::kInlineMax;
  l.rd_atomic_max = kResourcesMax;
  return l;
}

}  // namespace h4a::roce
