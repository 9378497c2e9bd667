// What the kernel says about a network interface, and what this process may do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// The descriptors of this process's sockets of `domain` (AF_PACKET, AF_XDP). ethdev does not hand out
/// those of its drivers: what is new after a device was made, is the device's.
[[nodiscard]] std::vector<int> sockets_of(int domain);
/// The first one in sockets_of(domain) that is not in `before`, or -1.
[[nodiscard]] int new_socket(int domain, const std::vector<int>& before);

}  // namespace h4a::dpdk
