// ESP in transport mode on bursts of frames. Spec: RFC 4303, RFC 4106, RFC 4301 §5.
//
// Both functions work in passes over the burst and keep the order of good frames; rejected frames end at
// the tail with `drop` set, and stay the caller's.
#pragma once

#include <cstddef>
#include <span>

#include "ipsec/sa.h"
#include "packet/frame.h"

namespace h4a::ipsec {

/// Opens ESP frames in place. The frames may be of different SAs.
/// In: data at the link header; l3_offset at the IP header; transport_offset at the ESP header, which the
/// IP header's protocol (or last extension header) names; lengths checked against the frame and the link
/// trailer cut off; source and destination set from the IP header.
/// Out, good frames: ESP header, IV, trailer and ICV are gone, link and IP header stand before the inner
/// payload with protocol, length and (v4) checksum rewritten; l3_offset and transport_offset hold for the
/// new data(); `association` is the SA's.
/// The ICV is checked first, the replay window is committed second; a rejected frame's plaintext is wiped.
/// @param frames 1..kBurstMax frames. @return count of good frames.
[[nodiscard]] std::size_t open_burst(SaTable& table, std::span<packet::Frame*> frames) noexcept;

/// Seals IP frames through one SA.
/// In: data at the IP header (v4 without options or v6), l3_offset 0, transport_offset behind it; the
/// payload may continue in pieces and tail. IP length and protocol are those of the clear packet.
/// Out, good frames: one contiguous ESP packet, no pieces, IP header rewritten; ready for a link header.
/// Rejected frames (kSaExhausted, kSaExpired, kOversize) are unchanged.
/// @param frames 1..kBurstMax frames. @return count of good frames.
[[nodiscard]] std::size_t seal_burst(OutboundSa& sa, std::span<packet::Frame*> frames) noexcept;

/// Bytes that seal_burst adds to a packet at most, for MTU arithmetic: ESP header, IV, pad, trailer, ICV.
inline constexpr std::size_t kEspOverheadMax = 8 + 8 + 3 + 2 + 16;

}  // namespace h4a::ipsec
