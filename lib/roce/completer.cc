// Completer of RC: acknowledgements, READ responses and time-outs move the oldest unacknowledged
// PSN forward and complete work requests, or send the cursor back to it. Spec: IBA vol. 1 §9.7.5.1
// and §9.7.5.2 (acknowledgements), §9.7.6 (retries), §9.9.2 (errors).
//
// An acknowledgement covers all PSNs up to its own, except READs and atomics: their responses must
// have come. One that covers a READ or atomic without response is an implied NAK of it (§9.7.5.1.2).
#include <algorithm>
#include <optional>

#include "roce/packet_builder.h"
#include "roce/qp_state.h"
#include "roce/requester.h"
#include "roce/scatter.h"

namespace h4a::roce::requester {
namespace {

using net::AckKind;
using verbs::CompletionOpcode;
using verbs::CompletionStatus;
using verbs::WrOpcode;

constexpr std::uint8_t kRnrRetryForever = 7;

bool is_read(const SendEntry& e) noexcept {
  return e.wr.opcode == WrOpcode::kRdmaRead;
}

std::uint32_t packet_index(const SendEntry& e, Psn psn) noexcept {
  return (psn.value() - e.first_psn.value()) & Psn::kMask;
}

CompletionOpcode completion_opcode(WrOpcode opcode) noexcept {
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kSendWithInvalidate:
      return CompletionOpcode::kSend;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return CompletionOpcode::kRdmaWrite;
    case WrOpcode::kRdmaRead:
      return CompletionOpcode::kRdmaRead;
    case WrOpcode::kBindWindow:
      return CompletionOpcode::kBindWindow;
    case WrOpcode::kLocalInvalidate:
      return CompletionOpcode::kLocalInvalidate;
    case WrOpcode::kCompareSwap:
      return CompletionOpcode::kCompareSwap;
    case WrOpcode::kFetchAdd:
      return CompletionOpcode::kFetchAdd;
    case WrOpcode::kFastRegister:
      return CompletionOpcode::kFastRegister;
  }
  return CompletionOpcode::kSend;
}

/// The cursor may lag behind what is acknowledged, after it went back.
void catch_up(RequesterState& r) noexcept {
  if (r.una.since(r.next) > 0) r.next = r.una;
}

void restart_timer(Core& core, Qp& qp, Instant now) noexcept {
  const RequesterState& r = qp.requester;
  if (r.una == r.sent_end || r.attributes.timeout == 0)
    core.timers.disarm(qp);
  else
    core.timers.arm(qp, now + ack_timeout(r.attributes.timeout));
}

/// The only place where retry counters are reset. Spec: IBA vol. 1 §9.7.6.1.2.
void note_progress(Core& core, Qp& qp, Instant now) noexcept {
  RequesterState& r = qp.requester;
  r.retries_left = r.attributes.retry_count;
  r.rnr_retries_left = r.attributes.rnr_retry;
  r.went_back = false;
  r.waits_rnr = false;
  restart_timer(core, qp, now);
}

void move_una(Core& core, Qp& qp, SendEntry& e, std::uint32_t count) noexcept {
  RequesterState& r = qp.requester;
  const bool whole = count == e.packets - packet_index(e, r.una);
  r.una = r.una + count;
  if (whole) complete_front(core, qp, CompletionStatus::kSuccess);
  catch_up(r);
  if (whole) complete_executed(core, qp);
}

/// Acknowledges the `count` oldest PSNs in flight. @return false if it stopped at a READ or atomic,
/// or failed.
bool acknowledge(Core& core, Qp& qp, std::uint32_t count, Instant now) noexcept {
  RequesterState& r = qp.requester;
  const std::uint32_t wanted = count;
  while (count > 0) {
    SendEntry& e = r.queue.front();
    if (awaits_response(e)) break;
    const std::uint32_t n = std::min(count, e.packets - packet_index(e, r.una));
    count -= n;
    move_una(core, qp, e, n);
    if (!sends_requests(qp.state)) return false;
  }
  if (count < wanted) note_progress(core, qp, now);
  return count == 0;
}

void go_back(RequesterState& r) noexcept {
  r.cursor = r.queue.begin_index();
  r.next = r.una;
  r.reads_in_flight = 0;
  r.since_ack_request = 0;
}

/// Go-back-N for the price of one retry. @return false if there was none left.
bool retry(Core& core, Qp& qp) noexcept {
  RequesterState& r = qp.requester;
  if (r.retries_left == 0) {
    fail(core, qp, CompletionStatus::kRetryExceeded);
    return false;
  }
  --r.retries_left;
  go_back(r);
  return true;
}

/// A NAK of `una`, said or implied. Repeats of it change nothing until `una` moves or a time-out.
void negative(Core& core, Qp& qp) noexcept {
  RequesterState& r = qp.requester;
  if (r.went_back || r.waits_rnr || r.next == r.una) return;
  if (retry(core, qp)) r.went_back = true;
}

void receiver_not_ready(Core& core, Qp& qp, std::uint8_t timer_code, Instant now) noexcept {
  RequesterState& r = qp.requester;
  ++core.counters.rnr_naks_received;
  if (r.waits_rnr) return;
  if (r.attributes.rnr_retry != kRnrRetryForever) {
    if (r.rnr_retries_left == 0) return fail(core, qp, CompletionStatus::kRnrRetryExceeded);
    --r.rnr_retries_left;
  }
  go_back(r);
  r.waits_rnr = true;
  core.timers.arm(qp, now + net::rnr_timer(timer_code));
}

CompletionStatus status_of(AckKind nak) noexcept {
  switch (nak) {
    case AckKind::kNakInvalidRequest:
      return CompletionStatus::kRemoteInvalidRequest;
    case AckKind::kNakRemoteAccess:
      return CompletionStatus::kRemoteAccess;
    case AckKind::kNakRemoteOperation:
      return CompletionStatus::kRemoteOperation;
    default:
      return CompletionStatus::kBadResponse;
  }
}

/// PSNs between `una` and `psn`, or nothing if `psn` is not in flight: a ghost or a duplicate.
std::optional<std::uint32_t> distance_in_flight(const RequesterState& r, Psn psn) noexcept {
  const std::int32_t d = psn.since(r.una);
  if (d < 0 || d >= r.sent_end.since(r.una)) return std::nullopt;
  return static_cast<std::uint32_t>(d);
}

void receive_nak(Core& core, Qp& qp, const net::Aeth& aeth, std::uint32_t before,
                 Instant now) noexcept {
  if (!acknowledge(core, qp, before, now)) return negative(core, qp);
  switch (aeth.kind()) {
    case AckKind::kNakSequence:
      return negative(core, qp);
    case AckKind::kRnrNak:
      return receiver_not_ready(core, qp, aeth.code(), now);
    default:
      return fail(core, qp, status_of(aeth.kind()));
  }
}

/// What an ACK says about the peer's receive queue. Spec: IBA vol. 1 §9.7.7.2.
void note_credits(RequesterState& r, const net::Aeth& aeth) noexcept {
  const bool counted = aeth.syndrome != net::Aeth::kAckUnlimited;
  const Msn limit = counted ? aeth.msn + net::credits_of(aeth.code()) : Msn();
  // Acknowledgements can overtake one another: a limit that was granted stays.
  if (counted && (!r.credits_counted || limit.since(r.credit_limit) > 0)) r.credit_limit = limit;
  r.credits_counted = counted;
}

/// An ACK of what is acknowledged already, sent since receives were posted again.
bool brings_credits(const RequesterState& r, const net::Aeth& aeth, Psn psn) noexcept {
  return aeth.kind() == AckKind::kAck && aeth.syndrome != net::Aeth::kAckUnlimited &&
         psn == r.una - 1;
}

void receive_acknowledge(Core& core, Qp& qp, const net::TransportPacket& packet,
                         packet::Frame& frame, Instant now) noexcept {
  const net::Aeth aeth = packet.aeth();
  if (aeth.kind() == AckKind::kReserved) return core.drop(frame, Drop::kBadSyndrome);
  const auto distance = distance_in_flight(qp.requester, packet.bth().psn());
  if (!distance) {
    if (!brings_credits(qp.requester, aeth, packet.bth().psn()))
      return core.drop(frame, Drop::kUnexpectedAck);
    return note_credits(qp.requester, aeth);
  }
  if (aeth.kind() == AckKind::kAck) {
    note_credits(qp.requester, aeth);
    if (!acknowledge(core, qp, *distance + 1, now)) negative(core, qp);
    return;
  }
  ++core.counters.naks_received;
  receive_nak(core, qp, aeth, *distance, now);
}

/// Whether a response is the `index`th of this READ. FIRST and MIDDLE depend on where the READ was
/// asked for again, so only the end is told apart.
bool response_fits(const Qp& qp, const SendEntry& e, std::uint32_t index,
                   const net::TransportPacket& packet) noexcept {
  const bool ends = index + 1 == e.packets;
  const std::uint64_t left = e.length - std::uint64_t{index} * qp.mtu;
  return packet.row().ends() == ends && packet.payload().size() == (ends ? left : qp.mtu);
}

void place_response(Core& core, Qp& qp, const net::TransportPacket& packet, Instant now) noexcept {
  RequesterState& r = qp.requester;
  SendEntry& e = r.queue.front();
  const std::uint32_t index = packet_index(e, r.una);
  if (!response_fits(qp, e, index, packet)) return fail(core, qp, CompletionStatus::kBadResponse);
  if (!scatter({core.memory, r.local, qp.pd}, {e.wr.sges, e.wr.sge_count},
               std::uint64_t{index} * qp.mtu, packet.payload()))
    return fail(core, qp, CompletionStatus::kLocalProtection);
  core.counters.rx_payload_bytes += packet.payload().size();
  move_una(core, qp, e, 1);
  if (sends_requests(qp.state)) note_progress(core, qp, now);
}

/// The value that an atomic found, as a number in host order.
void place_original(Core& core, Qp& qp, const net::TransportPacket& packet, Instant now) noexcept {
  RequesterState& r = qp.requester;
  SendEntry& e = r.queue.front();
  const std::uint64_t original = packet.atomic_ack_eth().original;
  std::uint8_t bytes[kAtomicBytes];
  std::memcpy(bytes, &original, sizeof bytes);
  if (!scatter({core.memory, r.local, qp.pd}, {e.wr.sges, e.wr.sge_count}, 0, bytes))
    return fail(core, qp, CompletionStatus::kLocalProtection);
  move_una(core, qp, e, 1);
  if (sends_requests(qp.state)) note_progress(core, qp, now);
}

/// A response to a READ, or to an atomic.
void receive_response(Core& core, Qp& qp, const net::TransportPacket& packet, packet::Frame& frame,
                      Instant now) noexcept {
  RequesterState& r = qp.requester;
  if (packet.row().has(net::Header::kAeth) && packet.aeth().kind() != AckKind::kAck)
    return core.drop(frame, Drop::kBadSyndrome);
  const auto distance = distance_in_flight(r, packet.bth().psn());
  if (!distance) return core.drop(frame, Drop::kUnexpectedAck);
  if (packet.row().has(net::Header::kAeth)) note_credits(r, packet.aeth());
  // A response acknowledges what precedes its request; a hole among responses is an implied NAK.
  if (!acknowledge(core, qp, *distance, now)) {
    core.drop(frame, Drop::kUnexpectedAck);
    return negative(core, qp);
  }
  const SendEntry& e = r.queue.front();
  const bool of_atomic = packet.row().operation == net::Operation::kAtomicAcknowledge;
  if (!(of_atomic ? is_atomic(e.wr.opcode) : is_read(e)))
    return core.drop(frame, Drop::kUnexpectedAck);
  of_atomic ? place_original(core, qp, packet, now) : place_response(core, qp, packet, now);
}

}  // namespace

void receive(Core& core, Qp& qp, const net::TransportPacket& packet, packet::Frame& frame,
             Instant now) noexcept {
  switch (packet.row().operation) {
    case net::Operation::kAcknowledge:
      return receive_acknowledge(core, qp, packet, frame, now);
    case net::Operation::kReadResponse:
    case net::Operation::kAtomicAcknowledge:
      return receive_response(core, qp, packet, frame, now);
    default:
      return core.drop(frame, Drop::kUnexpectedAck);
  }
}

void on_timer(Core& core, Qp& qp, Instant now) noexcept {
  RequesterState& r = qp.requester;
  if (!sends_requests(qp.state)) return;
  if (r.waits_rnr) {
    r.waits_rnr = false;
    return;
  }
  if (r.next != r.una) {  // else: it went back already and found no frames; that is no loss
    ++core.counters.timeouts;
    if (!retry(core, qp)) return;
  }
  r.went_back = false;
  restart_timer(core, qp, now);
}

void fail(Core& core, Qp& qp, CompletionStatus status) noexcept {
  if (!qp.requester.queue.empty()) complete_front(core, qp, status);
  if (is_reliable(qp))
    core.enter_error(qp, ErrorCause::kRequester);
  else
    core.enter_send_queue_error(qp);
}

void complete_executed(Core& core, Qp& qp) noexcept {
  RequesterState& r = qp.requester;
  while (!r.queue.empty() && sends_requests(qp.state)) {
    const SendEntry& e = r.queue.front();
    if (e.status != CompletionStatus::kSuccess) return fail(core, qp, e.status);
    if (e.packets > 0 || !e.started) return;
    complete_front(core, qp, CompletionStatus::kSuccess);
  }
}

void complete_front(Core& core, Qp& qp, CompletionStatus status) noexcept {
  RequesterState& r = qp.requester;
  const SendEntry& e = r.queue.front();
  const bool cursor_passed = static_cast<std::int32_t>(r.cursor - r.queue.begin_index()) > 0;
  if (awaits_response(e) && cursor_passed) --r.reads_in_flight;
  verbs::Completion c;
  c.wr_id = e.wr.wr_id;
  c.status = status;
  c.opcode = completion_opcode(e.wr.opcode);
  c.byte_len = awaits_response(e) ? e.length : 0;
  const bool wanted = e.wr.signaled || status != CompletionStatus::kSuccess;
  r.queue.pop();
  if (!cursor_passed) r.cursor = r.queue.begin_index();
  if (wanted) core.complete(qp, *qp.send_cq, c);
}

}  // namespace h4a::roce::requester
