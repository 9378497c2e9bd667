// Port: the device boundary. A port moves bursts of frames, whole Ethernet frames without FCS.
//
// Implementations: drivers_glue/dpdk (any ethdev), the simulator's links, and middleware that wraps
// another port (fault injector, capture tap).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"
#include "base/drop.h"
#include "packet/frame.h"
#include "packet/frame_pool.h"

namespace h4a::packet {

struct PortCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_bytes = 0;
  DropCounters drops;  // what the port itself threw away
};

/// Thread: one thread uses a port.
class Port {
 public:
  virtual ~Port() = default;

  /// Fills `out` from the front with received frames, data at the Ethernet header. The caller owns them.
  /// @return how many, 0 if none waits. Never blocks.
  [[nodiscard]] virtual std::size_t receive(std::span<Frame*> out) noexcept = 0;

  /// Sends frames that hold whole Ethernet frames (no pieces). Never blocks.
  /// @return how many it took, from the front: those are the port's now, and go back to their pool when
  /// sent. The rest stay the caller's. A frame longer than the MTU is taken, dropped and counted.
  [[nodiscard]] virtual std::size_t transmit(std::span<Frame* const> frames) noexcept = 0;

  /// Where frames for transmit() are allocated, and where received frames are released.
  [[nodiscard]] virtual FramePool& pool() noexcept = 0;

  [[nodiscard]] virtual MacAddress mac() const noexcept = 0;
  /// Largest layer-3 packet, in bytes: the MTU without the Ethernet header (DESIGN and DPDK agree).
  [[nodiscard]] virtual std::uint16_t mtu() const noexcept = 0;
  [[nodiscard]] virtual const PortCounters& counters() const noexcept = 0;

  /// A descriptor that becomes readable when frames wait, or -1 if the port has none.
  [[nodiscard]] virtual int wait_fd() const noexcept { return -1; }
};

}  // namespace h4a::packet
