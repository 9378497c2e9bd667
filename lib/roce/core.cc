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
  if (!cq.overrun && cq.ring.push(completion)) return;
  if (!cq.overrun) post_event(verbs::AsyncEvent::Type::kCqOverrun, qp.qpn, cq.id);
  cq.overrun = true;
  qp.overran = true;
}

void Core::enter_error(Qp& qp, ErrorCause cause) noexcept {
  if (!next_state(qp.state, QpEvent::kFailure)) return;
  qp.state = verbs::QpState::kError;
  timers.disarm(qp);
  if (cause == ErrorCause::kResponder)
    post_event(verbs::AsyncEvent::Type::kQpFatal, qp.qpn, {});
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
  for (auto& queue = qp.responder.queue; !queue.empty(); queue.pop()) {
    flushed.wr_id = queue.front().wr_id;
    complete(qp, *qp.recv_cq, flushed);
  }
}

}  // namespace h4a::roce
