// ESP in transport mode on bursts of frames. Spec: RFC 4303, RFC 4106, RFC 4301 §5.
//
// Both functions work in passes over the burst and keep the order of good frames; rejected frames
// end at the tail with `drop` set, and stay the caller's.
//
//   open:  find SA → pre-check window → open → commit window → check trailer → strip
//   seal:  admit and number → write headers and trailer → seal
//
// The window is committed as soon as the ICV is good, before the trailer is looked at, since RFC
// 4303 §3.4.3 makes the ICV the only condition: an authentic packet that is discarded for another
// reason (a dummy, a bad pad) cannot be sent again by somebody else.
//
// What an SA carries: UDP, and ICMP of the packet's own IP version, so that `h4a ping` and path MTU
// messages work under protection. All other next headers are kBadEspNextHeader, tunnel mode's
// included.
#pragma once

#include <cstddef>
#include <span>

#include "ipsec/sa.h"
#include "net/esp.h"
#include "packet/frame.h"

namespace h4a::ipsec {

/// SPI and sequence number. Spec: RFC 4303 §2.
inline constexpr std::size_t kEspHeaderSize = net::EspView::kSize;
static_assert(kEspHeaderSize == 8);
/// Pad length and next header. Spec: RFC 4303 §2.5, §2.6.
inline constexpr std::size_t kEspTrailerSize = 2;
/// Of every suite that is built.
inline constexpr std::size_t kEspIcvSize = 16;

/// Opens ESP frames in place. The frames may be of different SAs.
/// In: data at the link header; l3_offset at the IP header; transport_offset at the ESP header,
/// which the IP header's protocol (or last extension header) names; lengths checked against the
/// frame and the link trailer cut off; source and destination set from the IP header. Out, good
/// frames: ESP header, IV, trailer and ICV are gone, link and IP header stand before the inner
/// payload with protocol, length and (v4) checksum rewritten; l3_offset and transport_offset hold
/// for the new data(); `association` is the SA's. The ICV is checked first, the replay window is
/// committed second; a rejected frame's plaintext is wiped. Rejects: kTruncated, kBadIpHeader
/// (offsets and headers disagree), kBadSpi, kNoSa, kSaExpired, kBadSequence (0), kReplayOld,
/// kReplayed, kBadIcv, kBadEspTrailer, kEspDummy, kBadEspNextHeader.
/// @param frames 1..kBurstMax frames. @return count of good frames.
[[nodiscard]] std::size_t open_burst(SaTable& table, std::span<packet::Frame*> frames) noexcept;

/// Seals IP frames through one SA.
/// In: data at the IP header (v4 without options or v6), l3_offset 0, transport_offset behind it;
/// the payload may continue in pieces and tail. IP length and protocol are those of the clear
/// packet. Out, good frames: one contiguous ESP packet, no pieces, IP header rewritten, l3_offset
/// and transport_offset (now at the ESP header) as before; ready for a link header. Rejected frames
/// (kSaExhausted, kSaExpired, kOversize: head- or tailroom is short; kBadIpHeader) are unchanged,
/// and use no sequence number.
/// @param frames 1..kBurstMax frames. @return count of good frames.
[[nodiscard]] std::size_t seal_burst(OutboundSa& sa, std::span<packet::Frame*> frames) noexcept;

/// Bytes that seal_burst adds to a packet at most, for MTU arithmetic: ESP header, IV, pad,
/// trailer, ICV.
inline constexpr std::size_t kEspOverheadMax =
    kEspHeaderSize + kAeadIvSize + 3 + kEspTrailerSize + kEspIcvSize;
static_assert(kEspOverheadMax == 37);

/// Bytes of a sealed packet's ESP part, from `clear_bytes` behind the IP header. Padding aligns the
/// trailer to 4 bytes and no more. Spec: RFC 4303 §2.4, RFC 4106 §3.2.
[[nodiscard]] constexpr std::size_t sealed_size(std::size_t clear_bytes) noexcept {
  return kEspHeaderSize + kAeadIvSize + (clear_bytes + kEspTrailerSize + 3) / 4 * 4 + kEspIcvSize;
}
static_assert(sealed_size(1446) + 20 == 1500, "RFC 4106: no padding to cipher blocks");

}  // namespace h4a::ipsec
