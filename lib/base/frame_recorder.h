// FrameRecorder: where a capture tap writes what passes. Capture file writers implement it
// (lib/net), the tap port calls it (lib/packet); neither knows the other.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace h4a {

/// Thread: the one that uses the port.
class FrameRecorder {
 public:
  virtual ~FrameRecorder() = default;
  /// Appends one Ethernet frame. `time_ns` is nanoseconds since 1970. A failure to write is
  /// remembered by the implementation; it never stops the traffic.
  virtual void record(Bytes frame, std::int64_t time_ns) noexcept = 0;
  /// Hands what is buffered to the operating system, so that a reader of the file sees it.
  virtual void flush() noexcept = 0;
};

}  // namespace h4a
