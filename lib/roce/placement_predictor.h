// Predicts where the payload of a WRITE will be placed, so that the memory can be on its way before its turn comes.
//
// Placement into a large region misses every cache, and a copy alone keeps only as many lines in flight as the
// core has fill buffers. Asked for a few packets earlier, the lines arrive while other packets are decrypted.
//
// Only the packets themselves are looked at: a FIRST or ONLY names its address, and what follows a FIRST of the
// same QP lies behind it at the distance of its PSN. It decides nothing: a prefetch of any address can neither
// fault nor be seen by the program, and a wrong guess costs memory bandwidth alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/prefetch.h"
#include "base/serial.h"

namespace h4a::roce {

class PlacementPredictor {
 public:
  /// @param packet from BTH on, ICRC verified. Anything else than an RDMA WRITE has size 0.
  [[nodiscard]] PrefetchRange predict(Bytes packet) noexcept;

 private:
  /// The message that a QP is in.
  struct Stream {
    std::uint32_t qpn = 0;
    Psn first_psn;
    std::uint64_t address = 0;
    std::uint32_t mtu = 0;
  };
  /// QPs share a slot by the low bits of their number; the last FIRST has it.
  std::array<Stream, 64> streams_{};
};

}  // namespace h4a::roce
