// Opening ports by the text a user gives: `ring:`, `memif:PATH`, `af_packet:IFACE`, ...
// (port_spec.h).
//
// A port may be opened, closed and opened again as often as one likes within a process. Closing
// (the destructor) stops and removes the device; frames must be back in the pool by then. net_memif
// keeps one descriptor a server port open after closing: it never closes its listening socket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "base/result.h"
#include "packet/port.h"

namespace h4a::dpdk {

struct PortOptions {
  /// Frames in the port's pool: for the device's rings, for what the stack has in flight, and
  /// reserve.
  std::size_t frames = 4096;
  /// Descriptors of the receive and the transmit ring of devices that have them.
  std::uint16_t ring_descriptors = 1024;
  /// Layer-3 MTU; 0: the interface's own, or 9000 on ring: and memif:, 1500 on tap:, pci: and
  /// devargs.
  std::uint16_t mtu = 0;
};

/// Opens the port named by `spec`; the EAL is started with defaults if it does not run yet (pci:
/// with PCI). What the spec says (mtu=, mac=, frames=) goes before `options`.
/// @param error one line for the user, what is wrong and what to do, if the result is an error.
/// @return kMalformed, kNotFound, kAccess, kExists, kNoMemory, kUnsupported, kInvalidState, kIo.
/// Thread: one at a time; the port then belongs to whichever thread uses it.
[[nodiscard]] Result<std::unique_ptr<packet::Port>> open_port(std::string_view spec,
                                                              const PortOptions& options,
                                                              std::string& error);

/// Two connected ports of this process that share one pool: what one transmits, the other receives,
/// the same buffer, no copy. Each end may be used by its own thread.
[[nodiscard]] Result<std::pair<std::unique_ptr<packet::Port>, std::unique_ptr<packet::Port>>>
open_ring_pair(const PortOptions& options, std::string& error);

}  // namespace h4a::dpdk
