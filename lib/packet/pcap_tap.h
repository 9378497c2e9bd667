// PcapTap: a middleware port that records every frame that passes the port below it, both ways, as
// the wire has it (DESIGN D12). Protected frames are recorded as ESP; Wireshark opens them with
// --esp-keys.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/frame_recorder.h"
#include "packet/port.h"

namespace h4a::packet {

/// Received frames are recorded when they are handed up, sent frames when the port below takes them
/// (also those that it then drops as too long). A failing recorder does not disturb the traffic.
/// Thread: the one that uses the port. The recorder's file is flushed whenever nothing is received,
/// so that a reader can follow it live.
class PcapTap final : public Port {
 public:
  /// Nanoseconds since 1970; the simulator hands in its own.
  using WallClock = std::function<std::int64_t()>;

  /// Borrows both for its life. Takes memory to remember one burst.
  PcapTap(Port& below, FrameRecorder& recorder, WallClock wall_now_ns);

  [[nodiscard]] std::size_t receive(std::span<Frame*> out) noexcept override;
  [[nodiscard]] std::size_t transmit(std::span<Frame* const> frames) noexcept override;
  [[nodiscard]] FramePool& pool() noexcept override { return below_.pool(); }
  [[nodiscard]] MacAddress mac() const noexcept override { return below_.mac(); }
  [[nodiscard]] std::uint16_t mtu() const noexcept override { return below_.mtu(); }
  [[nodiscard]] const PortCounters& counters() const noexcept override { return below_.counters(); }
  [[nodiscard]] int wait_fd() const noexcept override { return below_.wait_fd(); }

 private:
  struct Copy {
    std::size_t size = 0;
    std::uint8_t bytes[kFrameBufferBytes];
  };

  Port& below_;
  FrameRecorder& recorder_;
  WallClock wall_now_ns_;
  std::unique_ptr<Copy[]> copies_;  // kBurstMax of them
};

}  // namespace h4a::packet
