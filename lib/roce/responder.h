// Responder of RC and UC: takes requests through named steps, in the order of the specification, and keeps
// what has to be sent back. Spec: IBA vol. 1 §9.7.4 (responder), figure 86 and table 57 (its
// errors), §9.8.2 (UC, which says nothing back and drops what does not fit).
#pragma once

#include "net/bth.h"
#include "packet/frame.h"
#include "roce/core.h"

namespace h4a::roce::responder {

/// Takes in a request whose structure and QP are proven.
void receive(Core& core, Qp& qp, const net::TransportPacket& packet, packet::Frame& frame) noexcept;

/// True if a READ response, NAK or ACK waits to be sent.
[[nodiscard]] bool has_output(const Qp& qp) noexcept;
/// Builds the next of them: responses in the order of PSNs, then a NAK, then one ACK for all that
/// was executed. @return false if `frame` was not used.
[[nodiscard]] bool build(Core& core, Qp& qp, packet::Frame& frame) noexcept;
/// Forgets them.
void discard_output(Qp& qp) noexcept;

}  // namespace h4a::roce::responder
