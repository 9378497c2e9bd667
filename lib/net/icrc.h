// CRC-32 and the invariant CRC of RoCE packets. Spec: IBA vol. 1 §7.8, annex A17 (RoCEv2).
//
// The ICRC is the reflected CRC-32 of Ethernet over eight bytes of ones (where InfiniBand's LRH
// would stand) and the packet from the IP header to the end of the pad, with every field that a
// router may change taken as ones: IPv4 TOS, TTL and header checksum; IPv6 traffic class, flow
// label and hop limit; UDP checksum; BTH byte 4. It stands behind the pad, least significant byte
// first.
//
// Two back ends compute the CRC: intel-ipsec-mb (VPCLMULQDQ, PCLMULQDQ) and portable slicing-by-8.
// The choice is a fact of the machine and made once, on first use; it is the same for every thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace h4a::net {

/// Bytes of the ICRC on the wire.
inline constexpr std::size_t kIcrcSize = 4;
/// Bytes in front of the IP header that `icrc_in_place` borrows.
inline constexpr std::size_t kIcrcHeadroom = 8;

enum class CrcBackend : std::uint8_t {
  kPortable,  // slicing-by-8, any machine
  kIpsecMb,   // intel-ipsec-mb: SSE4.2 and up
};

/// True if this machine can run it.
[[nodiscard]] bool crc_backend_available(CrcBackend backend) noexcept;
/// The back end that crc32() uses now.
[[nodiscard]] CrcBackend crc_backend() noexcept;
/// Makes crc32() use `backend`, in all threads: for tests and comparisons.
/// @return false, and nothing changes, if it is not available.
bool force_crc_backend(CrcBackend backend) noexcept;

/// Reflected CRC-32 (polynomial 0x04c11db7, initial value and final xor all ones) of `bytes`.
[[nodiscard]] std::uint32_t crc32(Bytes bytes) noexcept;
/// The same by a named back end, which must be available.
[[nodiscard]] std::uint32_t crc32_with(CrcBackend backend, Bytes bytes) noexcept;

/// CRC of A‖B from the CRC of A, the CRC of B and the length of B in bytes. About 30 cycles up to
/// 16383 bytes where PCLMULQDQ is there, about 130 elsewhere; logarithmic in the length beyond.
[[nodiscard]] std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b,
                                          std::size_t size_b) noexcept;

/// ICRC of a RoCEv2 packet without copying it: the eight bytes in front of it and the variant
/// fields are overwritten, and restored before it returns.
/// @param packet from the IP header (v4 or v6) to the end of the pad, ICRC excluded; kIcrcHeadroom
/// bytes in front of it are writable.
/// @param udp_offset of the UDP header in `packet`: behind the options or extension headers.
/// packet.size() >= udp_offset + 20 (UDP and BTH), which the parser has proved.
[[nodiscard]] std::uint32_t icrc_in_place(MutableBytes packet, std::size_t udp_offset) noexcept;

/// The same for bytes that must not be written: the headers are copied, masked and combined.
[[nodiscard]] std::uint32_t icrc(Bytes packet, std::size_t udp_offset) noexcept;

/// ICRC of a RoCEv1 packet (ethertype 0x8915): `packet` runs from the GRH to the end of the pad and
/// has at least 52 bytes (GRH and BTH).
[[nodiscard]] std::uint32_t icrc_rocev1(Bytes packet) noexcept;

/// ICRC of a packet that is to be sent, whose payload lies in pieces elsewhere.
class IcrcBuilder {
 public:
  /// @param headers from the IP header to the last extended header; headers.size() >= udp_offset
  /// + 20.
  IcrcBuilder(Bytes headers, std::size_t udp_offset) noexcept;
  /// Adds what follows: a piece of payload, then the pad.
  void add(Bytes bytes) noexcept { crc_ = crc32_combine(crc_, crc32(bytes), bytes.size()); }
  [[nodiscard]] std::uint32_t value() const noexcept { return crc_; }

 private:
  std::uint32_t crc_;
};

/// Writes an ICRC as it stands on the wire. `p` has 4 writable bytes.
inline void store_icrc(std::uint8_t* p, std::uint32_t icrc) noexcept {
  store_le<4>(p, icrc);
}
/// Reads one from the wire. `p` has 4 readable bytes.
[[nodiscard]] inline std::uint32_t load_icrc(const std::uint8_t* p) noexcept {
  return static_cast<std::uint32_t>(load_le<4>(p));
}

}  // namespace h4a::net
