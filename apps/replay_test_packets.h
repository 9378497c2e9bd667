// Packets made from the library's own builders, for the tests of `h4a replay` and for captures that other
// tools shall read. Not part of the programs.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "ipsec/sa.h"
#include "net/bth.h"

namespace h4a::apps::test {

using Packet = std::vector<std::uint8_t>;

inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::uint8_t kEsp = 50;

/// A packet between 10.99.0.1 and 10.99.0.2, or fd99::1 and fd99::2.
struct RoceSpec {
  bool v6 = false;
  net::Opcode opcode = net::Opcode::kRcSendOnly;
  std::uint32_t dest_qp = 0x12;
  std::uint32_t psn = 100;
  std::size_t payload_bytes = 64;
  std::uint8_t syndrome = net::Aeth::kAckUnlimited;
};

[[nodiscard]] IpAddress address(bool v6, int host);
/// An IP packet from host 1 to host 2 with this payload.
[[nodiscard]] Packet ip_packet(bool v6, std::uint8_t protocol, Bytes payload);
[[nodiscard]] Packet udp_datagram(std::uint16_t source_port, std::uint16_t port, Bytes payload);
/// An IP packet: UDP, BTH with its extended headers, payload, pad, ICRC.
[[nodiscard]] Packet roce_packet(const RoceSpec& spec);
[[nodiscard]] Packet ethernet_frame(Bytes ip_packet, std::size_t vlan_tags = 0);

/// The key material of the tests: 20 or 36 bytes that count upwards.
[[nodiscard]] Packet key_material(std::size_t size);
[[nodiscard]] std::unique_ptr<ipsec::OutboundSa> outbound_sa(std::uint32_t spi,
                                                             std::size_t key_size, bool esn,
                                                             std::uint64_t first, bool v6 = false);
/// Seals an IP packet through the SA with seal_burst (transport mode). Returns the IP packet.
[[nodiscard]] Packet seal_transport(ipsec::OutboundSa& sa, Bytes ip_packet);

struct EspSpec {
  std::uint32_t spi = 0x1001;
  std::uint64_t sequence = 1;
  bool esn = false;
  std::size_t key_size = 20;
  std::size_t icv_size = 16;
  std::uint8_t next_header = 4;
};
/// ESP header to ICV around `plaintext`, which is sealed as it is: pad, pad length and next header
/// are its last bytes if `append_trailer` is false.
[[nodiscard]] Packet esp_packet(const EspSpec& spec, Bytes plaintext, bool append_trailer = true);

/// A row of Wireshark's table for key_material(key_size), and any addresses.
[[nodiscard]] std::string key_row(std::uint32_t spi, std::size_t key_size);

}  // namespace h4a::apps::test
