// Requester and completer: cuts send work requests into packets, and completes them as they are
// acknowledged, or of UC and UD as they are sent. Spec: IBA vol. 1 §9.7.3 (requester), §9.7.5 (acknowledgements), §9.7.6
// (retries).
//
// A cursor walks over the send queue. An entry gets its PSNs when the cursor reaches it, so what a
// PSN carries is arithmetic: entry, then packet of the entry. Retransmission is go-back-N: the
// cursor returns to the oldest unacknowledged PSN and packets are built anew from the application's
// memory.
//
// requester.cc builds packets, completer.cc takes in acknowledgements, responses to READs
// and atomics, and time-outs.
#pragma once

#include "base/time.h"
#include "net/bth.h"
#include "packet/frame.h"
#include "roce/core.h"

namespace h4a::roce::requester {

/// Takes in a work request. @return kInvalidArgument if it is malformed; nothing happened then.
[[nodiscard]] Result<void> validate(const Core& core, const Qp& qp,
                                    const verbs::SendWr& wr) noexcept;
void post(Qp& qp, const verbs::SendWr& wr) noexcept;

/// What an atomic works on.
inline constexpr std::uint32_t kAtomicBytes = 8;
[[nodiscard]] constexpr bool is_atomic(verbs::WrOpcode opcode) noexcept {
  return opcode == verbs::WrOpcode::kCompareSwap || opcode == verbs::WrOpcode::kFetchAdd;
}
/// An acknowledgement does not complete it: data must come back.
[[nodiscard]] inline bool awaits_response(const SendEntry& e) noexcept {
  return e.wr.opcode == verbs::WrOpcode::kRdmaRead || is_atomic(e.wr.opcode);
}

/// True if build() would make a packet or execute a local operation.
[[nodiscard]] bool can_send(const Core& core, const Qp& qp) noexcept;
/// Executes local operations that are due, and builds one packet if there is one.
/// @return false if `frame` was not used.
[[nodiscard]] bool build(Core& core, Qp& qp, packet::Frame& frame, Instant now) noexcept;

/// Takes in an acknowledgement or response whose structure and QP are proven. Sets
/// `frame.drop` through the core if nothing waits for it.
void receive(Core& core, Qp& qp, const net::TransportPacket& packet, packet::Frame& frame,
             Instant now) noexcept;
/// The QP's timer fired: a time-out, or the end of an RNR wait.
void on_timer(Core& core, Qp& qp, Instant now) noexcept;

/// Completes the oldest entry with `status`, then everything else as flushed. The QP is in ERROR; an
/// unreliable one is in SQE and its receive queue goes on.
void fail(Core& core, Qp& qp, verbs::CompletionStatus status) noexcept;
/// Completes local operations at the front of the queue that were executed, and an entry that
/// failed.
void complete_executed(Core& core, Qp& qp) noexcept;
/// Takes the oldest entry out, with a completion if one is due.
void complete_front(Core& core, Qp& qp, verbs::CompletionStatus status) noexcept;

}  // namespace h4a::roce::requester
