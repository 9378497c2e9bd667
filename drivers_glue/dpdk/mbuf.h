// Frame ↔ rte_mbuf. Private to this folder: it includes DPDK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <rte_mbuf.h>

#include "packet/frame.h"

namespace h4a::dpdk {

/// The private area, in whole cache lines, so that data stays aligned for the copy and the cipher.
inline constexpr std::size_t kPrivateBytes = (sizeof(packet::Frame) + 63) / 64 * 64;

static_assert(kFrameHeadroomBytes == RTE_PKTMBUF_HEADROOM,
              "drivers place received data at DPDK's headroom, the layers above count on ours");
static_assert(alignof(packet::Frame) <= RTE_MBUF_PRIV_ALIGN);
static_assert(kPrivateBytes <= UINT16_MAX);

[[nodiscard]] inline packet::Frame* to_frame(rte_mbuf* m) noexcept {
  return static_cast<packet::Frame*>(rte_mbuf_to_priv(m));
}
[[nodiscard]] inline rte_mbuf* to_mbuf(packet::Frame* f) noexcept {
  return reinterpret_cast<rte_mbuf*>(reinterpret_cast<std::uint8_t*>(f) - sizeof(rte_mbuf));
}

}  // namespace h4a::dpdk
