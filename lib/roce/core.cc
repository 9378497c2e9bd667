#include "roce/core.h"

#include "roce/qp_state.h"
#include "roce/requester.h"
#include "roce/responder.h"

namespace h4a::roce {

void Core::update_active(Qp& qp) noexcept {
  if (qp.is_linked()) return;
  if (responder::has_output(qp) || requester::can_send(*this, qp)) active.push_back(qp);
}

void Core::complete(Qp& qp, Cq& cq, verbs::Completion completion) noexcept {
  completion.qpn = qp.qpn;
  const bool wanted =
      cq.armed == Armed::kAny ||
      (cq.armed == Armed::kSolicited &&
       (completion.solicited || completion.status != verbs::CompletionStatus::kSuccess));
  if (wanted) {  // once
    cq.armed = Armed::kNot;
    if (!cq.is_linked()) notified.push_back(cq);
  }
  if (!cq.overrun && cq.ring.push(completion)) return;
  if (!cq.overrun)
    post_event({.type = verbs::AsyncEvent::Type::kCqOverrun, .qpn = qp.qpn, .cq = cq.id});
  cq.overrun = true;
  qp.overran = true;
}

void Core::enter_error(Qp& qp, ErrorCause cause) noexcept {
  if (!next_state(qp.state, QpEvent::kFailure)) return;
  qp.state = verbs::QpState::kError;
  timers.disarm(qp);
  if (cause == ErrorCause::kResponder)
    post_event({.type = verbs::AsyncEvent::Type::kQpFatal, .qpn = qp.qpn});
  else
    responder::discard_output(qp);
  flush(qp);
  if (qp.is_linked() && !responder::has_output(qp)) active.erase(active.iterator_to(qp));
}

void Core::enter_send_queue_error(Qp& qp) noexcept {
  const auto to = next_state(qp.state, QpEvent::kSendFailure);
  if (!to) return;
  qp.state = *to;
  timers.disarm(qp);
  flush_send_queue(qp);
}

void Core::flush_send_queue(Qp& qp) noexcept {
  verbs::Completion flushed;
  flushed.status = verbs::CompletionStatus::kFlushed;
  for (auto& queue = qp.requester.queue; !queue.empty(); queue.pop()) {
    flushed.wr_id = queue.front().wr.wr_id;
    complete(qp, *qp.send_cq, flushed);
  }
  qp.requester.cursor = qp.requester.queue.begin_index();
}

void Core::flush(Qp& qp) noexcept {
  flush_send_queue(qp);
  verbs::Completion flushed;
  flushed.status = verbs::CompletionStatus::kFlushed;
  if (qp.responder.holds) {
    flushed.wr_id = qp.responder.held.wr_id;
    complete(qp, *qp.recv_cq, flushed);
    qp.responder.holds = false;
  }
  for (auto& queue = qp.responder.queue; !queue.empty(); queue.pop()) {
    flushed.wr_id = queue.front().wr_id;
    complete(qp, *qp.recv_cq, flushed);
  }
  // What the shared queue holds is not this QP's to flush; it says that it takes no more of it.
  // Spec: IBA vol. 1 §11.6.3.3 (last WQE reached).
  if (qp.srq != nullptr)
    post_event(
        {.type = verbs::AsyncEvent::Type::kLastWqeReached, .qpn = qp.qpn, .srq = qp.srq->id});
}

void Core::check_drained(Qp& qp) noexcept {
  const auto& queue = qp.requester.queue;
  if (!queue.empty() && queue.front().started) return;
  qp.requester.drained = post_event({.type = verbs::AsyncEvent::Type::kSqDrained, .qpn = qp.qpn});
}

void Core::check_limit(Srq& srq) noexcept {
  if (srq.limit == 0 || srq.queue.size() >= srq.limit) return;
  // Once; while it cannot be told it stays due.
  if (post_event({.type = verbs::AsyncEvent::Type::kSrqLimitReached, .srq = srq.id})) srq.limit = 0;
}

}  // namespace h4a::roce
