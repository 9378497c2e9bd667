// Datagrams: UD queue pairs, and QP 1 for management. One packet is one message; nothing is
// acknowledged, and what does not fit is dropped and counted, never answered.
// Spec: IBA vol. 1 §9.8.3 (unreliable datagram), §10.2.5 (Q_Keys), §13.5 (QP 1), annex A17.4.5 (GRH).
//
// Sending is the requester's (requester.cc), which cuts work requests into packets for every type of
// QP; this file has what a datagram needs besides, and the whole of its reception.
#pragma once

#include "net/bth.h"
#include "packet/frame.h"
#include "roce/core.h"

namespace h4a::roce::datagram {

/// Checks a work request of `length` bytes: kSend or kSendWithImm, at most the QP's MTU, with an address
/// handle of the QP's PD and, unless it is QP 1, of its association (DESIGN D3).
/// @return kInvalidArgument, kNotFound (the address handle), kAccess (its PD or association).
[[nodiscard]] Result<void> validate(const Core& core, const Qp& qp, const verbs::SendWr& wr,
                                    std::uint64_t length) noexcept;

/// Writes destination and DETH into the headers at `p`, which begin_packet() began, and gives the frame
/// its way out.
void address(const Qp& qp, const AddressHandle& to, const verbs::SendWr& wr,
             const net::OpcodeInfo& row, std::uint8_t* p, packet::Frame& frame) noexcept;

/// Takes in a datagram whose structure, QP, P_Key and association are proven.
void receive(Core& core, Qp& qp, const net::TransportPacket& packet, packet::Frame& frame) noexcept;

}  // namespace h4a::roce::datagram
