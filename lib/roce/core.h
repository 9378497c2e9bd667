// Core: what requester, completer and responder share: memory, counters, timers, the list of QPs
// that have packets to send, completions and events.
#pragma once

#include <boost/intrusive/list.hpp>
#include <vector>

#include "base/prefetch.h"
#include "base/random.h"
#include "base/timer_heap.h"
#include "packet/frame.h"
#include "roce/engine.h"
#include "roce/memory_table.h"
#include "roce/qp.h"
#include "roce/slot_table.h"
#include "verbs/device.h"
#include "verbs/ring.h"

namespace h4a::roce {

/// Who moved a QP to ERROR.
enum class ErrorCause : std::uint8_t {
  kCall,       // to_error(), the association died
  kRequester,  // a send work request completed in error
  kResponder,  // a request broke the rules: its NAK still goes out, and there is an AsyncEvent
};

/// What a datagram's address handle stands for.
struct AddressHandle {
  verbs::PdId pd;
  PathId path;
  AssociationId association;
};

struct Core {
  Core(const EngineOptions& o, Random& r)
      : options(o),
        random(r),
        memory(o.pd_max, o.mr_max, o.mw_max, r),
        address_handles(o.ah_max),
        timers(o.qp_max),
        held_since(o.qp_max + o.ah_max),
        events(kEventsMax) {}

  static constexpr std::uint32_t kEventsMax = 256;

  EngineOptions options;
  Random& random;
  MemoryTable memory;
  SlotTable<AddressHandle, verbs::AhId> address_handles;
  verbs::DeviceCounters counters;
  TimerHeap timers;
  /// A QP is in one of these lists or none; it may be erased from either by its iterator.
  using QpList = boost::intrusive::list<Qp, boost::intrusive::constant_time_size<false>>;
  QpList active;
  QpList held;                            // those that would send, but their path is held
  std::vector<std::uint32_t> held_since;  // by path: the round of holding in which it was held
  std::uint32_t holding_round = 1;
  /// Completion queues that were armed and got what they wait for.
  boost::intrusive::list<Cq> notified;
  verbs::Ring<verbs::AsyncEvent> events;

  /// A datagram QP has many paths, so none holds it.
  [[nodiscard]] bool is_held(const Qp& qp) const noexcept {
    return !verbs::is_datagram(qp.type) && qp.path.value() < held_since.size() &&
           held_since[qp.path.value()] == holding_round;
  }
  /// Asks the CPU for the part of a QP that any packet of it needs. With one QP it is there anyway.
  static void prefetch(const Qp& qp) noexcept {
    constexpr std::size_t kHotBytes = 640;
    h4a::prefetch({reinterpret_cast<std::uintptr_t>(&qp), kHotBytes});
  }
  /// Puts the QP in line for transmit(), if it has something to send.
  void update_active(Qp& qp) noexcept;
  /// Writes a completion. If the queue is full: an event once, and the QP is marked to fail.
  void complete(Qp& qp, Cq& cq, verbs::Completion completion) noexcept;
  /// Moves the QP to ERROR and flushes its queues. Spec: IBA vol. 1 §10.3.1.
  void enter_error(Qp& qp, ErrorCause cause) noexcept;
  /// A send work request of an unreliable QP failed: the send queue is flushed, receiving goes on.
  void enter_send_queue_error(Qp& qp) noexcept;
  /// Completes everything outstanding with kFlushed.
  void flush(Qp& qp) noexcept;
  void flush_send_queue(Qp& qp) noexcept;
  /// To be called when the handling of a packet, timer or call ends: fails a QP that overran its
  /// CQ, and tells when a QP in SQD has drained.
  void settle(Qp& qp) noexcept {
    if (qp.overran && qp.state != verbs::QpState::kError) enter_error(qp, ErrorCause::kRequester);
    if (qp.state == verbs::QpState::kSqd && !qp.requester.drained) check_drained(qp);
  }
  void check_drained(Qp& qp) noexcept;
  /// In RTR the application does not know yet that its peer can send. Spec: IBA vol. 1 §11.6.3.1.
  void note_first_packet(Qp& qp) noexcept {
    qp.heard_peer = true;
    if (qp.state == verbs::QpState::kRtr)
      post_event({.type = verbs::AsyncEvent::Type::kCommEstablished, .qpn = qp.qpn});
  }
  /// @return false if it was lost, since the application reads no events; the QP's state still tells.
  bool post_event(const verbs::AsyncEvent& event) noexcept { return events.push(event); }
  /// Raises the limit event if it is due.
  void check_limit(Srq& srq) noexcept;
  void drop(packet::Frame& frame, Drop reason) noexcept {
    frame.drop = reason;
    counters.drops.add(reason);
  }
};

}  // namespace h4a::roce
