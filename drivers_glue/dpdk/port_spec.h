// The text that names a port on a command line, and what it means.
//
//   ring:[NAME]                          two ends in one process; the second open gets the second
//   end memif:PATH[,role=server]             shared memory to another process; rsize, id, secret
//   af_packet:IFACE                      a kernel interface, by AF_PACKET
//   af_xdp:IFACE                         the same by AF_XDP; queue=N
//   tap:NAME                             a new kernel interface that the stack is behind
//   pci:ADDRESS                          a network card bound to vfio-pci (or mlx5, bound to the
//   kernel) net_xxx0,key=value,...               any DPDK device arguments
//
// All short forms take mtu=N, mac=XX:XX:XX:XX:XX:XX and frames=N.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace h4a::dpdk {

enum class PortKind : std::uint8_t { kRing, kMemif, kAfPacket, kAfXdp, kTap, kPci, kDevargs };

struct PortSpec {
  PortKind kind = PortKind::kRing;
  std::string target;  // NAME, PATH, IFACE, ADDRESS, or all of the devargs
  std::optional<std::uint16_t> mtu;
  std::optional<MacAddress> mac;
  std::optional<std::size_t> frames;
  bool server = false;      // memif
  unsigned ring_log2 = 10;  // memif: descriptors, as a power of two
  unsigned id = 0;          // memif
  std::string secret;       // memif
  unsigned queue = 0;       // af_xdp
};

/// @param error one line that says what is wrong with which part, if the result is an error.
/// @return kMalformed.
[[nodiscard]] Result<PortSpec> parse_port_spec(std::string_view text, std::string& error);

/// The short forms, one a line, for --help.
[[nodiscard]] std::string_view port_spec_help() noexcept;

}  // namespace h4a::dpdk
