// What the kernel says about a network interface, and what this process may do.
#pragma once

#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/result.h"

namespace h4a::dpdk {

struct Interface {
  int index = 0;
  MacAddress mac;
  unsigned mtu = 0;
  bool up = false;
  bool loopback = false;
};

/// @return kNotFound.
[[nodiscard]] Result<Interface> query_interface(const std::string& name) noexcept;
[[nodiscard]] Result<void> set_interface_mtu(const std::string& name, unsigned mtu) noexcept;

/// True if the effective capability (CAP_NET_RAW, CAP_NET_ADMIN, ...) is there.
[[nodiscard]] bool has_capability(unsigned capability) noexcept;

/// The AF_PACKET socket bound to interface `index` in this process (of several, the highest
/// descriptor), or -1. ethdev does not hand out the descriptor of net_af_packet.
[[nodiscard]] int find_packet_socket(int index) noexcept;

}  // namespace h4a::dpdk
