// READs that a responder executed, oldest first: a small ring in ResponderState. Each is answered
// from where the requester asked, once, and again if it asks again. Spec: IBA vol. 1 §9.7.4.1.2
// (duplicate READs), §9.7.5.2.8; responder resources §9.7.4.1.
#pragma once

#include "net/bth.h"
#include "packet/frame.h"
#include "roce/core.h"

namespace h4a::roce::read_resources {

/// True if one more READ can be taken: fewer than max_dest_rd_atomic wait to be answered.
[[nodiscard]] bool has_room(const ResponderState& r) noexcept;
/// Notes a READ that is in order and allowed. It takes `packets` PSNs from r.expected on.
/// has_room().
void add(ResponderState& r, const net::Reth& reth, std::uint32_t packets) noexcept;
/// The duplicate request at `psn` is to be answered again from that point.
/// @return false if no READ of that PSN and range is known; nothing is sent then.
[[nodiscard]] bool replay(const Qp& qp, ResponderState& r, Psn psn, const net::Reth& reth) noexcept;
enum class Response : std::uint8_t {
  kBuilt,
  kSkipped,  // a READ asked for again whose memory is gone: dropped quietly, `frame` was not used
  kRevoked,  // the memory went away in the middle of a READ: an error at `revoked_psn`
};
/// Builds the oldest response that waits; r.reads_pending > 0.
[[nodiscard]] Response build(Core& core, Qp& qp, packet::Frame& frame, Psn& revoked_psn) noexcept;
/// Forgets what waits.
void clear_pending(ResponderState& r) noexcept;

}  // namespace h4a::roce::read_resources
