// Responder resources: the READs and atomics that a responder executed, oldest first, a small ring in
// ResponderState. A READ is answered from where the requester asked, and again from any point if it
// asks again. An atomic is executed once; its answer, the original value, is kept and repeated.
// Spec: IBA vol. 1 §9.7.4.1 (resources), §9.7.4.1.2 (duplicates), §9.7.5.2.8.
#pragma once

#include "net/bth.h"
#include "packet/frame.h"
#include "roce/core.h"

namespace h4a::roce::resources {

/// True if one more can be taken: fewer than max_dest_rd_atomic wait to be answered.
[[nodiscard]] bool has_room(const ResponderState& r) noexcept;
/// Notes a READ that is in order and allowed. It takes `packets` PSNs from r.expected on.
/// has_room().
void add_read(ResponderState& r, const net::Reth& reth, std::uint32_t packets) noexcept;
/// Notes an atomic that was executed, and the value that it found. has_room().
void add_atomic(ResponderState& r, const net::AtomicEth& request, std::uint64_t original) noexcept;
/// The duplicate READ request at `psn` is to be answered again from that point.
/// @return false if no READ of that PSN and range is known; nothing is sent then.
[[nodiscard]] bool replay_read(const Qp& qp, ResponderState& r, Psn psn,
                               const net::Reth& reth) noexcept;
/// The duplicate atomic at `psn` is to be answered again with what it found then.
/// @return false if no atomic of that PSN and address is known any more; nothing is sent then.
[[nodiscard]] bool replay_atomic(ResponderState& r, Psn psn,
                                 const net::AtomicEth& request) noexcept;
enum class Response : std::uint8_t {
  kBuilt,
  kSkipped,  // a READ asked for again whose memory is gone: dropped quietly, `frame` was not used
  kRevoked,  // the memory went away in the middle of a READ: an error at `revoked_psn`
};
/// Builds the oldest response that waits; r.resources_pending > 0.
[[nodiscard]] Response build(Core& core, Qp& qp, packet::Frame& frame, Psn& revoked_psn) noexcept;
/// Forgets what waits.
void clear_pending(ResponderState& r) noexcept;

}  // namespace h4a::roce::resources
