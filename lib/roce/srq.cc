// Shared receive queues as calls of the engine. What a QP does with one is in responder.cc, the events
// are in core.cc. Spec: IBA vol. 1 §10.2.9, §11.2.6 (SRQ verbs), §11.6.3.
#include <new>

#include "roce/engine.h"
#include "roce/engine_impl.h"

namespace h4a::roce {

Result<verbs::SrqId> Engine::create_srq(const verbs::SrqOptions& o) noexcept {
  if (!is_depth(o.max_wr) || o.limit > o.max_wr) return failure(Error::kInvalidArgument);
  if (const auto held = impl_->core.memory.hold_pd(o.pd); !held) return failure(held.error());
  verbs::SrqId id;
  auto* slot = impl_->srqs.allocate(id);
  if (slot != nullptr) {
    try {
      *slot = std::make_unique<Srq>(o);
      (*slot)->id = id;
      return id;
    } catch (const std::bad_alloc&) {
      impl_->srqs.release(id);
    }
  }
  impl_->core.memory.drop_pd(o.pd);
  return failure(Error::kNoMemory);
}

Result<void> Engine::modify_srq(verbs::SrqId id, std::uint32_t limit) noexcept {
  Srq* srq = impl_->find(id);
  if (srq == nullptr) return failure(Error::kNotFound);
  if (limit > srq->queue.capacity()) return failure(Error::kInvalidArgument);
  srq->limit = limit;
  impl_->core.check_limit(*srq);
  return {};
}

Result<verbs::SrqStatus> Engine::srq_status(verbs::SrqId id) const noexcept {
  const Srq* srq = impl_->find(id);
  if (srq == nullptr) return failure(Error::kNotFound);
  return verbs::SrqStatus{srq->queue.capacity(), srq->limit, srq->queue.size()};
}

Result<void> Engine::destroy_srq(verbs::SrqId id) noexcept {
  const Srq* srq = impl_->find(id);
  if (srq == nullptr) return failure(Error::kNotFound);
  if (srq->users > 0) return failure(Error::kBusy);
  impl_->core.memory.drop_pd(srq->pd);
  impl_->srqs.find(id)->reset();
  impl_->srqs.release(id);
  return {};
}

Result<void> Engine::post_srq_recv(verbs::SrqId id, std::span<const verbs::RecvWr> wrs) noexcept {
  Srq* srq = impl_->find(id);
  if (srq == nullptr) return failure(Error::kNotFound);
  for (const verbs::RecvWr& wr : wrs)
    if (wr.sge_count > kSgeMax) return failure(Error::kInvalidArgument);
  if (wrs.size() > srq->queue.room()) return failure(Error::kFull);
  for (const verbs::RecvWr& wr : wrs) srq->queue.push(wr);
  return {};
}

}  // namespace h4a::roce
