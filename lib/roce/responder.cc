#include "roce/responder.h"

#include <algorithm>
#include <cstring>

#include "roce/packet_builder.h"
#include "roce/resources.h"
#include "roce/scatter.h"

namespace h4a::roce::responder {
namespace {

using net::Aeth;
using net::Header;
using net::Operation;
using verbs::Access;
using verbs::CompletionStatus;

/// The straight path, then the verdicts that leave it.
enum class Step : std::uint8_t {
  kPsn,
  kOrder,
  kAccess,
  kReceiveSlot,
  kLength,
  kKey,
  kExecute,
  kAcknowledge,
  kDuplicate,
  kOutOfSequence,
  kNotReady,
  kBadRequest,
  kTooLong,
  kBadKey,
  kLocalFault,
  kDone,
};

/// What a verdict that ends a request does. Spec: IBA vol. 1 table 57.
struct Verdict {
  Step step;
  std::uint8_t syndrome;
  /// Of the receive work request of the message; kSuccess: none, it is flushed.
  CompletionStatus status;
  Drop drop;
};
constexpr Verdict kVerdicts[] = {
    {Step::kBadRequest, Aeth::kNakInvalidRequest, CompletionStatus::kSuccess,
     Drop::kInvalidRequest},
    {Step::kTooLong, Aeth::kNakInvalidRequest, CompletionStatus::kLocalLength,
     Drop::kInvalidRequest},
    {Step::kBadKey, Aeth::kNakRemoteAccess, CompletionStatus::kSuccess, Drop::kRemoteAccess},
    {Step::kLocalFault, Aeth::kNakRemoteOperation, CompletionStatus::kLocalProtection,
     Drop::kRemoteOperational},
};

/// One request on its way through the steps.
struct Request {
  Core& core;
  Qp& qp;
  ResponderState& r;
  const net::TransportPacket& packet;
  const net::OpcodeInfo& row;
  packet::Frame& frame;
  Bytes payload;
  std::uint32_t psns = 1;  // that it takes
};

bool is_send(const Request& q) noexcept {
  return q.row.operation == Operation::kSend;
}
bool is_write(const Request& q) noexcept {
  return q.row.operation == Operation::kWrite;
}
bool is_read(const Request& q) noexcept {
  return q.row.operation == Operation::kReadRequest;
}

bool is_atomic(const Request& q) noexcept {
  return q.row.operation == Operation::kCompareSwap || q.row.operation == Operation::kFetchAdd;
}
/// Answered with data of its own, from a responder resource.
bool takes_resource(const Request& q) noexcept {
  return is_read(q) || is_atomic(q);
}

bool is_rnr(std::uint8_t syndrome) noexcept {
  return (syndrome & 0xe0) == Aeth::kRnrNak;
}

/// RETH of the message: of this packet if it starts one, else as it was.
net::Reth target(const Request& q) noexcept {
  if (q.row.has(Header::kReth)) return q.packet.reth();
  return {q.r.address, q.r.remote.rkey, q.r.length};
}
std::uint32_t received_before(const Request& q) noexcept {
  return q.row.starts() ? 0 : q.r.received;
}

/// UC: a gap ends the message in progress, whose receive serves the next one; what starts a message
/// is taken up wherever it stands. Spec: IBA vol. 1 §9.8.2.2.1.
Step resynchronise(Request& q) noexcept {
  const bool gap = q.packet.bth().psn() != q.r.expected;
  q.r.expected = q.packet.bth().psn();
  if (gap || q.row.starts()) q.r.message = InboundMessage::kNone;
  if (q.row.starts()) return Step::kOrder;
  return gap ? Step::kOutOfSequence : Step::kOrder;
}

/// Spec: IBA vol. 1 §9.7.1 and §9.7.4.1.2.
Step check_psn(Request& q) noexcept {
  if (!is_reliable(q.qp)) return resynchronise(q);
  const std::int32_t ahead = q.packet.bth().psn().since(q.r.expected);
  if (ahead < 0) return Step::kDuplicate;
  if (ahead > 0) return Step::kOutOfSequence;
  q.r.gap_reported = false;
  if (q.r.nak_pending && is_rnr(q.r.nak_syndrome)) q.r.nak_pending = false;  // overtaken
  return Step::kOrder;
}

/// Spec: IBA vol. 1 §9.7.4.1.3, table 39 (opcode sequences).
Step check_order(Request& q) noexcept {
  if (q.row.starts())
    return q.r.message == InboundMessage::kNone ? Step::kAccess : Step::kBadRequest;
  const InboundMessage own = is_send(q) ? InboundMessage::kSend : InboundMessage::kWrite;
  return q.r.message == own ? Step::kAccess : Step::kBadRequest;
}

/// What the QP honours at all. Spec: IBA vol. 1 §9.7.4.1.4.
Step check_access(Request& q) noexcept {
  if (is_write(q) && !allows(q.qp.init.access, Access::kRemoteWrite)) return Step::kBadRequest;
  if (is_read(q) && !allows(q.qp.init.access, Access::kRemoteRead)) return Step::kBadRequest;
  if (is_atomic(q) && !allows(q.qp.init.access, Access::kRemoteAtomic)) return Step::kBadRequest;
  if (takes_resource(q) && !resources::has_room(q.r)) return Step::kBadRequest;
  return Step::kReceiveSlot;
}

/// Sees that the message in progress has a receive. A shared one is taken out of its queue at once,
/// so that no other QP can take it; it is flushed if the message fails.
bool hold_receive(Request& q) noexcept {
  Srq* srq = q.qp.srq;
  if (srq == nullptr) return !q.r.queue.empty();
  if (q.r.holds) return true;
  if (srq->queue.empty()) return false;
  q.r.held = srq->queue.front();
  q.r.holds = true;
  srq->queue.pop();
  q.core.check_limit(*srq);
  return true;
}
const verbs::RecvWr& receive_of(const Request& q) noexcept {
  return q.qp.srq == nullptr ? q.r.queue.front() : q.r.held;
}

/// Spec: IBA vol. 1 §9.7.4.1.6 (receive queue), §9.7.5.2.8 (RNR NAK).
Step check_receive_slot(Request& q) noexcept {
  const bool needs = is_send(q) || (is_write(q) && q.row.has(Header::kImmDt));
  return needs && !hold_receive(q) ? Step::kNotReady : Step::kLength;
}

/// FIRST and MIDDLE are full, LAST is not empty, ONLY may be. Spec: IBA vol. 1 §9.7.4.1.7.
bool packet_length_fits(const Request& q) noexcept {
  const std::size_t n = q.payload.size();
  if (!q.row.ends()) return n == q.qp.mtu;
  return n <= q.qp.mtu && (q.row.position == net::Position::kOnly || n > 0);
}

Step check_length(Request& q) noexcept {
  // An atomic has no payload; its eight bytes are aligned to eight. Spec: IBA vol. 1 §9.4.5.
  if (is_atomic(q))
    return q.packet.atomic_eth().virtual_address % 8 == 0 ? Step::kKey : Step::kBadRequest;
  if (is_read(q)) {
    const std::uint32_t length = q.packet.reth().dma_length;
    q.psns = packets_for(length, q.qp.mtu);
    return length <= kMessageMaxBytes ? Step::kKey : Step::kBadRequest;
  }
  if (!packet_length_fits(q)) return Step::kBadRequest;
  const std::uint64_t total = std::uint64_t{received_before(q)} + q.payload.size();
  // A SEND says nowhere how long it will be; a receive request may have room for more than a message.
  if (is_send(q)) {
    const std::uint64_t room = std::min(capacity(receive_of(q)), kMessageMaxBytes);
    return total <= room ? Step::kKey : Step::kTooLong;
  }
  const std::uint32_t announced = target(q).dma_length;
  const bool fits = q.row.ends() ? total == announced : total < announced;
  return fits && announced <= kMessageMaxBytes ? Step::kKey : Step::kBadRequest;
}

/// A retired window (DESIGN D4) lets no atomic through: it would have to be executed to be answered.
Step check_atomic_key(Request& q) noexcept {
  const net::AtomicEth request = q.packet.atomic_eth();
  RemoteRef ref;
  const KeyVerdict verdict =
      q.core.memory.open(ref, q.qp.accessor(), request.rkey, request.virtual_address,
                         sizeof(std::uint64_t), Access::kRemoteAtomic);
  return verdict == KeyVerdict::kAllowed ? Step::kExecute : Step::kBadKey;
}

/// A zero-length access needs no key (C9-88). Spec: IBA vol. 1 §9.7.4.1.5; DESIGN D3.
Step check_key(Request& q) noexcept {
  const Accessor who = q.qp.accessor();
  if (is_send(q)) {
    if (!q.row.has(Header::kIeth)) return Step::kExecute;
    return q.core.memory.can_invalidate(q.packet.ieth().rkey, who) ? Step::kExecute : Step::kBadKey;
  }
  if (is_atomic(q)) return check_atomic_key(q);
  const net::Reth reth = target(q);
  if (reth.dma_length == 0) return Step::kExecute;
  RemoteRef& ref = is_read(q) ? q.r.resource_remote : q.r.remote;
  const std::uint32_t before = is_read(q) ? 0 : received_before(q);
  // In the middle of a WRITE the key is asked again only if it changed meanwhile.
  if (!q.row.starts() && ref.fresh())
    return ref.verdict == KeyVerdict::kDenied ? Step::kBadKey : Step::kExecute;
  const KeyVerdict verdict = q.core.memory.open(
      ref, who, reth.rkey, reth.virtual_address + before, reth.dma_length - before,
      is_read(q) ? Access::kRemoteRead : Access::kRemoteWrite);
  return verdict == KeyVerdict::kDenied ? Step::kBadKey : Step::kExecute;
}

/// Copies a SEND into the receive work request at the front of the queue.
bool place_send(Request& q, std::uint64_t offset) noexcept {
  const verbs::RecvWr& wr = receive_of(q);
  return scatter({q.core.memory, q.r.local, q.qp.receive_pd()}, {wr.sges, wr.sge_count}, offset,
                 q.payload);
}

void place_write(Request& q, std::uint64_t address) noexcept {
  if (q.payload.empty()) return;
  if (q.r.remote.verdict == KeyVerdict::kRetired) {
    q.r.discarded = true;
    q.core.drop(q.frame, Drop::kRetired);
    return;
  }
  std::memcpy(reinterpret_cast<std::uint8_t*>(address), q.payload.data(), q.payload.size());
  note_coverage(*q.r.remote.grant, address, q.payload.size());
}

void complete_receive(Request& q, CompletionStatus status) noexcept {
  verbs::Completion c;
  c.wr_id = receive_of(q).wr_id;
  c.status = status;
  c.opcode =
      is_write(q) ? verbs::CompletionOpcode::kRecvRdmaWithImm : verbs::CompletionOpcode::kRecv;
  c.solicited = q.packet.bth().solicited();
  c.byte_len = q.r.discarded ? 0 : q.r.received;
  if (q.row.has(Header::kImmDt)) {
    c.has_imm = true;
    c.imm = q.packet.imm().value;
  }
  if (q.row.has(Header::kIeth)) {
    c.has_invalidate = true;
    c.invalidated_rkey = q.packet.ieth().rkey;
  }
  if (q.qp.srq == nullptr)
    q.r.queue.pop();
  else
    q.r.holds = false;
  q.core.complete(q.qp, *q.qp.recv_cq, c);
}

void end_message(Request& q) noexcept {
  q.r.message = InboundMessage::kNone;
  q.r.msn = q.r.msn + 1;
  if (q.row.has(Header::kIeth))  // proven to be there by check_key
    static_cast<void>(q.core.memory.invalidate(q.packet.ieth().rkey, q.qp.accessor(), true));
  if (is_send(q) || q.row.has(Header::kImmDt)) complete_receive(q, CompletionStatus::kSuccess);
}

Step execute_read(Request& q) noexcept {
  resources::add_read(q.r, q.packet.reth(), q.psns);
  q.r.msn = q.r.msn + 1;
  q.r.expected = q.r.expected + q.psns;
  return Step::kDone;
}

/// Atomic towards every QP and also towards the CPU, since it is the CPU that does it: the
/// application may use std::atomic_ref on the same eight bytes. They are a number in host order.
/// Spec: IBA vol. 1 §9.4.5.
Step execute_atomic(Request& q) noexcept {
  const net::AtomicEth request = q.packet.atomic_eth();
  auto* word = reinterpret_cast<std::uint64_t*>(request.virtual_address);
  std::uint64_t original = request.compare;
  if (q.row.operation == Operation::kFetchAdd)
    original = __atomic_fetch_add(word, request.swap_or_add, __ATOMIC_SEQ_CST);
  else  // on failure `original` becomes what was found, on success it was that already
    __atomic_compare_exchange_n(word, &original, request.swap_or_add, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
  resources::add_atomic(q.r, request, original);
  q.r.msn = q.r.msn + 1;
  ++q.r.expected;
  return Step::kDone;
}

Step execute(Request& q) noexcept {
  if (is_read(q)) return execute_read(q);
  if (is_atomic(q)) return execute_atomic(q);
  const net::Reth reth = target(q);
  if (q.row.starts()) {
    q.r.message = is_send(q) ? InboundMessage::kSend : InboundMessage::kWrite;
    q.r.received = 0;
    q.r.discarded = false;
    q.r.address = reth.virtual_address;
    q.r.length = reth.dma_length;
    q.r.remote.rkey = reth.rkey;
  }
  if (is_send(q)) {
    if (!place_send(q, q.r.received)) return Step::kLocalFault;
  } else {
    place_write(q, reth.virtual_address + q.r.received);
  }
  q.r.received += static_cast<std::uint32_t>(q.payload.size());
  q.core.counters.rx_payload_bytes += q.payload.size();
  ++q.r.expected;
  if (q.row.ends()) end_message(q);
  return Step::kAcknowledge;
}

/// ACKs are coalesced: one for all that was executed when the QP's turn to transmit comes.
Step acknowledge(Request& q) noexcept {
  if (q.packet.bth().ack_req() && is_reliable(q.qp)) q.r.ack_pending = true;
  return Step::kDone;
}

/// Acknowledged again, not executed; a READ is answered anew, an atomic with what it found then.
/// Spec: IBA vol. 1 §9.7.4.1.2; DESIGN D4.
Step duplicate(Request& q) noexcept {
  q.core.drop(q.frame, Drop::kDuplicatePsn);
  const Psn psn = q.packet.bth().psn();
  if (is_read(q))
    static_cast<void>(resources::replay_read(q.qp, q.r, psn, q.packet.reth()));
  else if (is_atomic(q))
    static_cast<void>(resources::replay_atomic(q.r, psn, q.packet.atomic_eth()));
  else
    q.r.ack_pending = true;
  return Step::kDone;
}

void report(Request& q, std::uint8_t syndrome) noexcept {
  q.r.nak_pending = true;
  q.r.nak_syndrome = syndrome;
  q.r.nak_psn = q.r.expected;
  q.r.nak_msn = q.r.msn;
}

/// One NAK for each gap. Spec: IBA vol. 1 §9.7.5.1.1.
Step out_of_sequence(Request& q) noexcept {
  q.core.drop(q.frame, Drop::kOutOfSequence);
  if (!q.r.gap_reported) report(q, Aeth::kNakSequence);
  q.r.gap_reported = true;
  return Step::kDone;
}

/// What follows an RNR NAK is dropped without a NAK until the refused PSN comes again.
Step not_ready(Request& q) noexcept {
  q.core.drop(q.frame, Drop::kReceiverNotReady);
  report(q, static_cast<std::uint8_t>(Aeth::kRnrNak | q.r.attributes.min_rnr_timer));
  q.r.gap_reported = true;
  return Step::kDone;
}

/// UC: no verdict of a packet is told to anyone. The rest of its message is dropped like it, and the
/// receive that it used waits for the next one. Spec: IBA vol. 1 §9.8.2.2, table 58.
Step drop_message(Request& q, Step verdict) noexcept {
  Drop reason = Drop::kInvalidRequest;
  if (verdict == Step::kNotReady) reason = Drop::kNoReceive;
  if (verdict == Step::kTooLong) reason = Drop::kReceiveTooShort;
  if (verdict == Step::kBadKey) reason = Drop::kRemoteAccess;
  if (!q.row.starts() && q.r.message == InboundMessage::kNone) reason = Drop::kMessageBroken;
  q.core.drop(q.frame, reason);
  q.r.message = InboundMessage::kNone;
  q.r.expected = q.packet.bth().psn() + 1;
  return Step::kDone;
}

/// The QP is in ERROR afterwards; the NAK is still sent, behind responses that precede it.
Step refuse(Request& q, Step verdict) noexcept {
  const Verdict& v = *std::find_if(std::begin(kVerdicts), std::end(kVerdicts),
                                   [&](const Verdict& row) { return row.step == verdict; });
  q.core.drop(q.frame, v.drop);
  if (is_reliable(q.qp)) report(q, v.syndrome);
  if (v.status != CompletionStatus::kSuccess) complete_receive(q, v.status);
  q.core.enter_error(q.qp, ErrorCause::kResponder);
  return Step::kDone;
}

bool is_verdict(Step step) noexcept {
  return step == Step::kOutOfSequence || step == Step::kNotReady || step == Step::kBadRequest ||
         step == Step::kTooLong || step == Step::kBadKey;
}

Step take(Request& q, Step step) noexcept {
  if (!is_reliable(q.qp) && is_verdict(step)) return drop_message(q, step);
  switch (step) {
    case Step::kPsn:
      return check_psn(q);
    case Step::kOrder:
      return check_order(q);
    case Step::kAccess:
      return check_access(q);
    case Step::kReceiveSlot:
      return check_receive_slot(q);
    case Step::kLength:
      return check_length(q);
    case Step::kKey:
      return check_key(q);
    case Step::kExecute:
      return execute(q);
    case Step::kAcknowledge:
      return acknowledge(q);
    case Step::kDuplicate:
      return duplicate(q);
    case Step::kOutOfSequence:
      return out_of_sequence(q);
    case Step::kNotReady:
      return not_ready(q);
    case Step::kBadRequest:
    case Step::kTooLong:
    case Step::kBadKey:
    case Step::kLocalFault:
      return refuse(q, step);
    case Step::kDone:
      break;
  }
  return Step::kDone;
}

void build_acknowledge(Core& core, Qp& qp, packet::Frame& frame, Psn psn,
                       const Aeth& aeth) noexcept {
  const net::OpcodeInfo& row = net::info(net::Opcode::kRcAcknowledge);
  std::uint8_t* p = begin_packet(frame, qp, row, psn, {});
  aeth.build(p + row.offset(Header::kAeth));
  ++core.counters.tx_packets;
}

void build_nak(Core& core, Qp& qp, packet::Frame& frame) noexcept {
  ResponderState& r = qp.responder;
  r.nak_pending = false;
  build_acknowledge(core, qp, frame, r.nak_psn, {r.nak_syndrome, r.nak_msn});
  ++core.counters.naks_sent;
  if (is_rnr(r.nak_syndrome)) ++core.counters.rnr_naks_sent;
}

/// The memory of a READ went away while it was answered: what follows it is not answered either.
void revoke(Core& core, Qp& qp, Psn psn) noexcept {
  ResponderState& r = qp.responder;
  discard_output(qp);
  r.nak_pending = true;
  r.nak_syndrome = Aeth::kNakRemoteAccess;
  r.nak_psn = psn;
  r.nak_msn = r.msn;
  core.counters.drops.add(Drop::kRemoteAccess);
  core.enter_error(qp, ErrorCause::kResponder);
}

}  // namespace

void receive(Core& core, Qp& qp, const net::TransportPacket& packet,
             packet::Frame& frame) noexcept {
  Request q{core, qp, qp.responder, packet, packet.row(), frame, packet.payload()};
  Step step = Step::kPsn;
  while (step != Step::kDone) step = take(q, step);
}

bool has_output(const Qp& qp) noexcept {
  const ResponderState& r = qp.responder;
  return r.resources_pending > 0 || r.nak_pending || r.ack_pending;
}

bool build(Core& core, Qp& qp, packet::Frame& frame) noexcept {
  ResponderState& r = qp.responder;
  while (r.resources_pending > 0) {
    Psn revoked;
    switch (resources::build(core, qp, frame, revoked)) {
      case resources::Response::kBuilt:
        ++core.counters.tx_packets;
        return true;
      case resources::Response::kSkipped:
        break;
      case resources::Response::kRevoked:
        revoke(core, qp, revoked);
        break;
    }
  }
  if (r.nak_pending) {
    build_nak(core, qp, frame);
    return true;
  }
  if (!r.ack_pending) return false;
  r.ack_pending = false;
  build_acknowledge(core, qp, frame, r.expected - 1, {ack_syndrome(qp), r.msn});
  return true;
}

void discard_output(Qp& qp) noexcept {
  ResponderState& r = qp.responder;
  resources::clear_pending(r);
  r.nak_pending = false;
  r.ack_pending = false;
}

}  // namespace h4a::roce::responder
