#include "roce/datagram.h"

#include <algorithm>
#include <array>

#include "roce/scatter.h"

namespace h4a::roce::datagram {
namespace {

using verbs::CompletionStatus;
using verbs::kGrhBytes;

constexpr std::size_t kIpv4Size = 20;

struct Grh {
  std::array<std::uint8_t, kGrhBytes> bytes{};
  bool is_ipv4 = false;
};

/// The network header as RoCEv2 NICs deliver it: IPv6 as it is, IPv4 in the last 20 bytes behind
/// zeroes. It still lies in front of the transport header.
Grh grh_of(const packet::Frame& frame) noexcept {
  Grh grh;
  const Bytes header(frame.data() - frame.network_size, frame.network_size);
  grh.is_ipv4 = !header.empty() && header[0] >> 4 == 4;
  const std::size_t size = grh.is_ipv4 ? kIpv4Size : kGrhBytes;
  std::copy_n(header.begin(), std::min(size, header.size()), grh.bytes.end() - size);
  return grh;
}

void complete(Core& core, Qp& qp, const net::TransportPacket& packet, const packet::Frame& frame,
              bool is_ipv4, CompletionStatus status) noexcept {
  verbs::Completion c;
  c.wr_id = qp.responder.queue.front().wr_id;
  c.status = status;
  c.opcode = verbs::CompletionOpcode::kRecv;
  c.solicited = packet.bth().solicited();
  c.byte_len = static_cast<std::uint32_t>(kGrhBytes + packet.payload().size());
  if (packet.row().has(net::Header::kImmDt)) {
    c.has_imm = true;
    c.imm = packet.imm().value;
  }
  c.source_qpn = packet.deth().source_qp;
  c.pkey = packet.bth().pkey();
  c.has_grh = true;
  c.grh_is_ipv4 = is_ipv4;
  c.association = frame.association;
  qp.responder.queue.pop();
  core.complete(qp, *qp.recv_cq, c);
}

/// Spec: IBA vol. 1 §9.8.3.1 to §9.8.3.3.
Drop check(const Qp& qp, const net::TransportPacket& packet) noexcept {
  if (packet.deth().qkey != qp.init.qkey) return Drop::kBadQkey;
  if (qp.responder.queue.empty()) return Drop::kNoReceive;
  const std::size_t size = kGrhBytes + packet.payload().size();
  return size <= capacity(qp.responder.queue.front()) ? Drop::kNone : Drop::kReceiveTooShort;
}

}  // namespace

Result<void> validate(const Core& core, const Qp& qp, const verbs::SendWr& wr,
                      std::uint64_t length) noexcept {
  const bool send =
      wr.opcode == verbs::WrOpcode::kSend || wr.opcode == verbs::WrOpcode::kSendWithImm;
  if (!send || length > qp.mtu || wr.remote_qpn.value() > Psn::kMask)
    return failure(Error::kInvalidArgument);
  const AddressHandle* to = core.address_handles.find(wr.ah);
  if (to == nullptr) return failure(Error::kNotFound);
  const bool protects = qp.type == verbs::QpType::kGsi || to->association == qp.association;
  return to->pd == qp.pd && protects ? Result<void>{} : failure(Error::kAccess);
}

void address(const Qp& qp, const AddressHandle& to, const verbs::SendWr& wr,
             const net::OpcodeInfo& row, std::uint8_t* p, packet::Frame& frame) noexcept {
  constexpr std::size_t kDestQpOffset = 5;  // in BTH
  store_be<3>(p + kDestQpOffset, wr.remote_qpn.value());
  const bool own = (wr.remote_qkey & verbs::kOwnQkey) != 0;
  net::Deth{own ? qp.init.qkey : wr.remote_qkey, qp.qpn}.build(p + row.offset(net::Header::kDeth));
  frame.path = to.path;
  frame.association = to.association;
}

void receive(Core& core, Qp& qp, const net::TransportPacket& packet,
             packet::Frame& frame) noexcept {
  if (const Drop reason = check(qp, packet); reason != Drop::kNone) return core.drop(frame, reason);
  const verbs::RecvWr& wr = qp.responder.queue.front();
  const std::span<const verbs::Sge> sges(wr.sges, wr.sge_count);
  const LocalMemory memory{core.memory, qp.responder.local, qp.pd};
  const Grh grh = grh_of(frame);
  if (!scatter(memory, sges, 0, grh.bytes) || !scatter(memory, sges, kGrhBytes, packet.payload())) {
    core.drop(frame, Drop::kRemoteOperational);
    complete(core, qp, packet, frame, grh.is_ipv4, CompletionStatus::kLocalProtection);
    return core.enter_error(qp, ErrorCause::kResponder);
  }
  core.counters.rx_payload_bytes += packet.payload().size();
  complete(core, qp, packet, frame, grh.is_ipv4, CompletionStatus::kSuccess);
}

}  // namespace h4a::roce::datagram
