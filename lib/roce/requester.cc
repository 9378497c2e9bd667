#include "roce/requester.h"

#include <algorithm>
#include <cstring>

#include "roce/datagram.h"
#include "roce/packet_builder.h"
#include "roce/qp_state.h"

namespace h4a::roce::requester {
namespace {

using net::Header;
using net::Opcode;
using net::Position;
using verbs::CompletionStatus;
using verbs::WrOpcode;

/// READs of more response packets would let signed PSN distances overflow.
constexpr std::uint32_t kReadPacketsMax = 1U << 22;
constexpr std::uint32_t kPsnWindow = 1U << 23;
/// A long message asks for an acknowledgement at least this often.
constexpr std::uint32_t kAckIntervalMax = 64;

bool is_local(const SendEntry& e) noexcept {
  return e.packets == 0;
}
bool is_read(const SendEntry& e) noexcept {
  return e.wr.opcode == WrOpcode::kRdmaRead;
}

/// Which packet of `e` carries `psn`. The distance can be anything below 2^23.
std::uint32_t packet_index(const SendEntry& e, Psn psn) noexcept {
  return (psn.value() - e.first_psn.value()) & Psn::kMask;
}

std::uint32_t in_flight(const RequesterState& r) noexcept {
  return static_cast<std::uint32_t>(r.next.since(r.una));
}

Position position_of(std::uint32_t index, std::uint32_t count) noexcept {
  if (count == 1) return Position::kOnly;
  if (index == 0) return Position::kFirst;
  return index + 1 == count ? Position::kLast : Position::kMiddle;
}

Opcode opcode_of(const SendEntry& e, Position position) noexcept {
  const bool ends = position == Position::kLast || position == Position::kOnly;
  const bool only = position == Position::kOnly;
  switch (e.wr.opcode) {
    case WrOpcode::kSendWithImm:
      if (ends) return only ? Opcode::kRcSendOnlyWithImm : Opcode::kRcSendLastWithImm;
      break;
    case WrOpcode::kSendWithInvalidate:
      if (ends) return only ? Opcode::kRcSendOnlyWithInvalidate : Opcode::kRcSendLastWithInvalidate;
      break;
    case WrOpcode::kRdmaWriteWithImm:
      if (ends) return only ? Opcode::kRcWriteOnlyWithImm : Opcode::kRcWriteLastWithImm;
      return net::rc_write(position);
    case WrOpcode::kRdmaWrite:
      return net::rc_write(position);
    case WrOpcode::kRdmaRead:
      return Opcode::kRcReadRequest;
    case WrOpcode::kCompareSwap:
      return Opcode::kRcCompareSwap;
    case WrOpcode::kFetchAdd:
      return Opcode::kRcFetchAdd;
    default:
      break;
  }
  return net::rc_send(position);
}

/// Gathers [offset, +length) of the work request's memory into the frame's pieces. The entry is the
/// cursor's. @return false if a region is gone or does not allow it.
bool gather(Core& core, Qp& qp, const SendEntry& e, std::uint64_t offset, std::uint32_t length,
            packet::Frame& frame) noexcept {
  if (e.wr.inlined) {
    const RequesterState& r = qp.requester;
    if (length > 0) frame.add_piece(qp.inlined.at(r.queue.slot(r.cursor)) + offset, length);
    return true;
  }
  for (std::size_t i = 0; i < e.wr.sge_count && length > 0; ++i) {
    const verbs::Sge& sge = e.wr.sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, sge.length - offset));
    const std::uint8_t* p = core.memory.local(qp.requester.local, qp.pd, sge.lkey,
                                              sge.address + offset, n, verbs::Access::kNone);
    if (p == nullptr) return false;
    frame.add_piece(p, n);
    length -= n;
    offset = 0;
  }
  return length == 0;
}

/// The scatter list of a READ or atomic must be writable before it is asked for. Spec: IBA vol. 1 §9.7.3.1.
bool can_scatter(Core& core, Qp& qp, const SendEntry& e) noexcept {
  for (std::size_t i = 0; i < e.wr.sge_count; ++i) {
    const verbs::Sge& sge = e.wr.sges[i];
    if (sge.length > 0 && core.memory.local(qp.requester.local, qp.pd, sge.lkey, sge.address,
                                            sge.length, verbs::Access::kLocalWrite) == nullptr)
      return false;
  }
  return true;
}

/// UC has the opcodes of RC's SEND and WRITE, 0x20 further. Spec: IBA vol. 1 table 38.
constexpr Opcode opcode_for(verbs::QpType type, Opcode rc) noexcept {
  if (type == verbs::QpType::kRc) return rc;
  const auto row = static_cast<std::uint8_t>(rc);
  if (type == verbs::QpType::kUc) return static_cast<Opcode>(row + 0x20);
  return rc == Opcode::kRcSendOnlyWithImm ? Opcode::kUdSendOnlyWithImm : Opcode::kUdSendOnly;
}
static_assert(opcode_for(verbs::QpType::kUc, Opcode::kRcSendFirst) == Opcode::kUcSendFirst);
static_assert(opcode_for(verbs::QpType::kUc, Opcode::kRcWriteOnlyWithImm) ==
              Opcode::kUcWriteOnlyWithImm);

void build_extended(const SendEntry& e, const net::OpcodeInfo& row, std::uint8_t* p,
                    std::uint64_t offset) noexcept {
  if (row.has(Header::kReth))
    net::Reth{e.wr.remote_address + offset, e.wr.rkey,
              static_cast<std::uint32_t>(e.length - offset)}
        .build(p + row.offset(Header::kReth));
  if (row.has(Header::kAtomicEth)) {
    const bool swaps = e.wr.opcode == WrOpcode::kCompareSwap;
    net::AtomicEth{e.wr.remote_address, e.wr.rkey, swaps ? e.wr.swap : e.wr.compare_add,
                   swaps ? e.wr.compare_add : 0}
        .build(p + row.offset(Header::kAtomicEth));
  }
  if (row.has(Header::kImmDt)) net::ImmDt{e.wr.imm}.build(p + row.offset(Header::kImmDt));
  if (row.has(Header::kIeth)) net::Ieth{e.wr.invalidate_rkey}.build(p + row.offset(Header::kIeth));
}

/// The last packet of a message asks for an acknowledgement; so does every Nth, and one that fills
/// the window, since nothing could move on otherwise.
bool asks_for_ack(const Core& core, Qp& qp, bool ends) noexcept {
  if (!is_reliable(qp)) return false;
  RequesterState& r = qp.requester;
  const std::uint32_t interval =
      std::clamp<std::uint32_t>(core.options.window_packets / 4, 1, kAckIntervalMax);
  const bool asks =
      ends || ++r.since_ack_request >= interval || in_flight(r) + 1 >= core.options.window_packets;
  if (asks) r.since_ack_request = 0;
  return asks;
}

bool needs_receive(WrOpcode opcode) noexcept {
  return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm ||
         opcode == WrOpcode::kSendWithInvalidate || opcode == WrOpcode::kRdmaWriteWithImm;
}

/// The peer counts its receives and has none for this message. Spec: IBA vol. 1 §9.7.7.2.
bool is_limited(const RequesterState& r, const SendEntry& e) noexcept {
  return r.credits_counted && needs_receive(e.wr.opcode) && e.ssn.since(r.credit_limit) > 0;
}

/// A limited message may send one packet, when nothing else is in flight, to ask; once that is
/// acknowledged, the peer has a receive for it after all and the rest may follow.
bool credits_allow(const RequesterState& r, const SendEntry& e) noexcept {
  if (!is_limited(r, e) || r.next == r.una) return true;
  return r.cursor == r.queue.begin_index() && e.started && packet_index(e, r.una) > 0;
}

void count_sent(Core& core, Qp& qp, std::uint32_t payload) noexcept {
  const RequesterState& r = qp.requester;
  ++core.counters.tx_packets;
  core.counters.tx_payload_bytes += payload;
  if (r.next.since(r.sent_end) < 0) {
    ++core.counters.retransmitted_packets;
    ++qp.retransmitted_packets;
  }
}

/// Moves the cursor behind `psns` PSNs of the entry, and starts the time-out. An unreliable QP waits
/// for nobody: what is sent is done, and a message completes with its last packet (IBA vol. 1
/// §9.8.1, §9.8.3).
void advance(Core& core, Qp& qp, const SendEntry& e, std::uint32_t psns, Instant now) noexcept {
  RequesterState& r = qp.requester;
  r.next = r.next + psns;
  if (r.next.since(r.sent_end) > 0) r.sent_end = r.next;
  const bool whole = r.next == e.first_psn + e.packets && psns > 0;
  if (whole) ++r.cursor;
  if (!is_reliable(qp)) {
    r.una = r.next;
    if (whole) complete_front(core, qp, CompletionStatus::kSuccess);
    return;
  }
  if (qp.deadline().is_never() && r.attributes.timeout > 0)
    core.timers.arm(qp, now + ack_timeout(r.attributes.timeout));
}

/// A READ from where its responses are missing, or an atomic.
bool build_query(Core& core, Qp& qp, SendEntry& e, packet::Frame& frame, Instant now) noexcept {
  RequesterState& r = qp.requester;
  if (!can_scatter(core, qp, e)) {
    e.status = CompletionStatus::kLocalProtection;
    return false;
  }
  const std::uint32_t index = packet_index(e, r.next);
  const net::OpcodeInfo& row = net::info(opcode_of(e, Position::kOnly));
  std::uint8_t* p = begin_packet(frame, qp, row, r.next, {.ack_req = true});
  build_extended(e, row, p, std::uint64_t{index} * qp.mtu);
  count_sent(core, qp, 0);
  ++r.reads_in_flight;
  advance(core, qp, e, e.packets - index, now);
  return true;
}

bool build_data(Core& core, Qp& qp, SendEntry& e, packet::Frame& frame, Instant now) noexcept {
  RequesterState& r = qp.requester;
  const std::uint32_t index = packet_index(e, r.next);
  const std::uint64_t offset = std::uint64_t{index} * qp.mtu;
  const auto payload =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(qp.mtu, e.length - offset));
  const AddressHandle* to = nullptr;
  if (is_datagram(qp.type) && (to = core.address_handles.find(e.wr.ah)) == nullptr) {
    e.status = CompletionStatus::kLocalQpOperation;  // destroyed while this waited
    return false;
  }
  if (!gather(core, qp, e, offset, payload, frame)) {
    e.status = CompletionStatus::kLocalProtection;
    frame.clear_pieces();
    return false;
  }
  const net::OpcodeInfo& row =
      net::info(opcode_for(qp.type, opcode_of(e, position_of(index, e.packets))));
  std::uint8_t* p = begin_packet(frame, qp, row, r.next,
                                 {.solicited = row.ends() && e.wr.solicited,
                                  .ack_req = asks_for_ack(core, qp, row.ends() || is_limited(r, e)),
                                  .payload = payload});
  build_extended(e, row, p, offset);
  if (to != nullptr) datagram::address(qp, *to, e.wr, row, p, frame);
  count_sent(core, qp, payload);
  advance(core, qp, e, 1, now);
  return true;
}

bool execute_memory(MemoryTable& memory, const verbs::SendWr& wr, const Accessor& who) noexcept {
  if (wr.opcode == WrOpcode::kBindWindow) return memory.bind(wr, who).has_value();
  if (wr.opcode == WrOpcode::kFastRegister) return memory.fast_register(wr, who).has_value();
  return memory.invalidate(wr.invalidate_rkey, who, false).has_value();
}

void execute_local(Core& core, Qp& qp, SendEntry& e) noexcept {
  RequesterState& r = qp.requester;
  if (!e.started) {
    e.started = true;  // once, also if the cursor comes by again
    if (!execute_memory(core.memory, e.wr, qp.accessor()))
      e.status = e.wr.opcode == WrOpcode::kLocalInvalidate ? CompletionStatus::kLocalQpOperation
                                                           : CompletionStatus::kWindowBind;
  }
  if (e.status == CompletionStatus::kSuccess) ++r.cursor;
  complete_executed(core, qp);
}

void start(const Qp& qp, SendEntry& e) noexcept {
  if (e.started) return;
  e.started = true;
  e.first_psn = qp.requester.next;
  e.packets = packets_for(e.length, qp.mtu);
  if (is_read(e) && e.packets > kReadPacketsMax) e.status = CompletionStatus::kLocalLength;
}

bool query_fits(const RequesterState& r, const SendEntry& e, std::uint32_t packets) noexcept {
  return !awaits_response(e) ||
         (r.reads_in_flight < r.attributes.max_rd_atomic && in_flight(r) + packets < kPsnWindow);
}

bool is_known(WrOpcode opcode) noexcept {
  return opcode <= WrOpcode::kFastRegister;
}

bool is_local(WrOpcode opcode) noexcept {
  return opcode == WrOpcode::kBindWindow || opcode == WrOpcode::kLocalInvalidate ||
         opcode == WrOpcode::kFastRegister;
}

bool may_be_inlined(WrOpcode opcode) noexcept {
  return opcode == WrOpcode::kRdmaWrite || needs_receive(opcode);
}

/// Copies what `wr` names into the place of the entry that is posted next.
void copy_inline(Qp& qp, const verbs::SendWr& wr) noexcept {
  std::uint8_t* to = qp.inlined.at(qp.requester.queue.slot(qp.requester.queue.end_index()));
  for (std::size_t i = 0; i < wr.sge_count; ++i) {
    if (wr.sges[i].length == 0) continue;
    std::memcpy(to, reinterpret_cast<const std::uint8_t*>(wr.sges[i].address), wr.sges[i].length);
    to += wr.sges[i].length;
  }
}

/// What UC has of all that RC has. Spec: IBA vol. 1 table 36.
bool uc_has(WrOpcode opcode) noexcept {
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
    case WrOpcode::kBindWindow:
    case WrOpcode::kLocalInvalidate:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<void> validate(const Core& core, const Qp& qp, const verbs::SendWr& wr) noexcept {
  if (!is_known(wr.opcode) || wr.sge_count > kSgeMax) return failure(Error::kInvalidArgument);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < wr.sge_count; ++i) length += wr.sges[i].length;
  if (length > kMessageMaxBytes) return failure(Error::kInvalidArgument);
  if (qp.type == verbs::QpType::kUc && !uc_has(wr.opcode)) return failure(Error::kInvalidArgument);
  if (wr.inlined && (!may_be_inlined(wr.opcode) || length > qp.inlined.bytes_max()))
    return failure(Error::kInvalidArgument);
  if (is_datagram(qp.type)) return datagram::validate(core, qp, wr, length);
  if (is_atomic(wr.opcode) && length != kAtomicBytes) return failure(Error::kInvalidArgument);
  if ((wr.opcode == WrOpcode::kRdmaRead || is_atomic(wr.opcode)) &&
      qp.requester.attributes.max_rd_atomic == 0)
    return failure(Error::kInvalidArgument);  // it could never be sent
  return {};
}

void post(Qp& qp, const verbs::SendWr& wr) noexcept {
  SendEntry e;
  e.wr = wr;
  if (!is_local(wr.opcode)) {
    for (std::size_t i = 0; i < wr.sge_count; ++i) e.length += wr.sges[i].length;
    e.packets = packets_for(e.length, qp.mtu);
    e.ssn = ++qp.requester.last_ssn;
  }
  if (wr.inlined) copy_inline(qp, wr);
  qp.requester.queue.push(e);
}

bool can_send(const Core& core, const Qp& qp) noexcept {
  const RequesterState& r = qp.requester;
  if (!sends_requests(qp.state) || r.waits_rnr || r.cursor == r.queue.end_index()) return false;
  const SendEntry& e = r.queue.at(r.cursor);
  if (e.status != CompletionStatus::kSuccess) return false;
  if (qp.state == verbs::QpState::kSqd && !e.started) return false;
  const bool fresh = !e.started || is_local(e) || r.next == e.first_psn;
  if (e.wr.fence && fresh && r.reads_in_flight > 0) return false;
  return is_local(e) || (in_flight(r) < core.options.window_packets && credits_allow(r, e) &&
                         query_fits(r, e, e.packets));
}

bool build(Core& core, Qp& qp, packet::Frame& frame, Instant now) noexcept {
  RequesterState& r = qp.requester;
  while (can_send(core, qp)) {
    SendEntry& e = r.queue.at(r.cursor);
    if (is_local(e)) {
      execute_local(core, qp, e);
      continue;
    }
    start(qp, e);
    if (e.status == CompletionStatus::kSuccess &&
        (awaits_response(e) ? build_query(core, qp, e, frame, now)
                            : build_data(core, qp, e, frame, now)))
      return true;
    complete_executed(core, qp);
  }
  return false;
}

}  // namespace h4a::roce::requester
