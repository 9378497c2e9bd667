// The start of every outgoing packet: BTH, the frame's metadata, and the pad behind the payload.
#pragma once

#include <cstring>

#include "base/time.h"
#include "net/bth.h"
#include "packet/frame.h"
#include "roce/qp.h"

namespace h4a::roce {

struct PacketFlags {
  bool solicited = false;
  bool ack_req = false;
  std::uint32_t payload = 0;  // bytes that the frame's pieces hold
};

/// Appends BTH and zeroed room for the extended headers of `row` to an empty frame.
/// @return the first byte of BTH; extended headers stand at row.offset(…).
inline std::uint8_t* begin_packet(packet::Frame& frame, const Qp& qp, const net::OpcodeInfo& row,
                                  Psn psn, const PacketFlags& flags) noexcept {
  std::uint8_t* p = frame.append(row.header_length());
  net::Bth bth;
  bth.opcode = row.opcode;
  bth.solicited = flags.solicited;
  bth.pad_count = net::pad_for(flags.payload);
  bth.pkey = qp.init.pkey;
  bth.dest_qp = qp.remote_qpn;
  bth.ack_req = flags.ack_req;
  bth.psn = psn;
  bth.build(p);
  if (bth.pad_count > 0) std::memset(frame.append_tail(bth.pad_count), 0, bth.pad_count);
  frame.path = qp.path;
  frame.association = qp.association;
  frame.udp_source_port = qp.udp_source_port;
  return p;
}

/// The syndrome of an ACK: how many receives are posted, if this QP tells. The receive of a message
/// in progress counts, since the MSN beside it does not count that message yet.
[[nodiscard]] inline std::uint8_t ack_syndrome(Qp& qp) noexcept {
  ResponderState& r = qp.responder;
  if (!r.attributes.end_to_end_credits || qp.srq != nullptr) return net::Aeth::kAckUnlimited;
  r.told_no_credit = r.queue.empty();
  return net::credit_code(r.queue.size());
}

/// Local ACK timeout, 4.096 µs × 2^code. Spec: IBA vol. 1 §9.7.6.1.3.
[[nodiscard]] constexpr Duration ack_timeout(std::uint8_t code) noexcept {
  return Duration::ns(std::int64_t{4096} << code);
}

}  // namespace h4a::roce
