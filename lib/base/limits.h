// Build-time limits, all in one place. Run-time sizes are options of the object they size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h4a {

/// Most frames in one burst. One indirect call moves this many.
inline constexpr std::size_t kBurstMax = 64;

/// Bytes of one frame's buffer: jumbo frames without chains.
inline constexpr std::size_t kFrameBufferBytes = 9216;

/// Bytes kept free in front of received data, and in front of BTH when a packet is built: room for
/// Ethernet with two tags, IPv6, UDP encapsulation, ESP header and IV.
inline constexpr std::size_t kFrameHeadroomBytes = 128;

/// Most pieces of application memory that one packet's payload is gathered from.
inline constexpr std::size_t kGatherMax = 4;

/// Most scatter-gather entries of one work request.
inline constexpr std::size_t kSgeMax = 4;

/// Longest RC message. Spec: IBA vol. 1 §9.4.1.
inline constexpr std::uint64_t kMessageMaxBytes = std::uint64_t{1} << 31;

}  // namespace h4a
