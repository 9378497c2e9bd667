// How each kind of device is made. Private to this folder; port.cc chooses among these.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "drivers_glue/dpdk/ethdev_port.h"
#include "drivers_glue/dpdk/port.h"
#include "drivers_glue/dpdk/port_spec.h"

namespace h4a::dpdk {

using PortResult = Result<std::unique_ptr<packet::Port>>;

[[nodiscard]] PortResult open_memif(const PortSpec& spec, const PortOptions& options,
                                    std::string& error);
[[nodiscard]] PortResult open_af_packet(const PortSpec& spec, const PortOptions& options,
                                        std::string& error);
[[nodiscard]] PortResult open_af_xdp(const PortSpec& spec, const PortOptions& options,
                                     std::string& error);
[[nodiscard]] PortResult open_tap(const PortSpec& spec, const PortOptions& options,
                                  std::string& error);
[[nodiscard]] PortResult open_pci(const PortSpec& spec, const PortOptions& options,
                                  std::string& error);
[[nodiscard]] PortResult open_devargs(const PortSpec& spec, const PortOptions& options,
                                      std::string& error);
/// The next end of the ring named `spec.target`.
[[nodiscard]] PortResult open_ring_end(const PortSpec& spec, const PortOptions& options,
                                       std::string& error);

// What the makers have in common.

/// Data room of a frame: the MTU limit of port_spec.h and two tags fit.
inline constexpr std::size_t kDataRoomBytes = kFrameBufferBytes;
/// Largest MTU: kDataRoomBytes less the link header and what AF_PACKET's ring takes of a slot.
inline constexpr std::uint16_t kMtuMax = 9100;

/// A random, locally administered unicast address.
[[nodiscard]] MacAddress random_mac();

/// "net_memif" → "net_memif0", then "net_memif1", ...: names are never used twice.
[[nodiscard]] std::string next_device_name(std::string_view driver);

/// Makes a virtual device. @return its port id.
[[nodiscard]] Result<std::uint16_t> add_device(const std::string& name,
                                               const std::string& arguments, std::string& error);

/// Configures one queue pair. On failure the device is removed.
struct QueueSetup {
  std::uint16_t descriptors = 1024;
  std::uint16_t driver_mtu = 0;  // 0: the driver is not told
  bool rx_interrupt = false;
};
[[nodiscard]] Result<void> set_up_queues(std::uint16_t port_id, MbufPool& pool,
                                         const QueueSetup& setup, std::string& error);
/// Starts the device. On failure it is removed.
[[nodiscard]] Result<void> start_device(std::uint16_t port_id, std::string& error);

[[nodiscard]] inline std::size_t frame_count(const PortSpec& spec, const PortOptions& options) {
  return spec.frames.value_or(options.frames);
}
[[nodiscard]] inline std::uint16_t wanted_mtu(const PortSpec& spec, const PortOptions& options) {
  return spec.mtu.value_or(options.mtu);
}

}  // namespace h4a::dpdk
