// Security associations and the table that finds them. Spec: RFC 4301 §4.4.2, RFC 4303 §2.1.
//
// An inbound SA is found by SPI and destination address, and names the association (lineage of SAs) it
// belongs to. An outbound SA is held by whoever sends through it. Keys wipe themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/address.h"
#include "base/esp_suite.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/secret.h"

namespace h4a::ipsec {

class InboundSa;
class OutboundSa;

struct SaConfig {
  Spi spi;
  IpAddress source;       // of the packets: the sender
  IpAddress destination;  // of the packets: the receiver
  AssociationId association;
  EspSuite suite = EspSuite::kAesGcm128;
  Secret<kEspKeyMaterialMax> key;  // key then 4 bytes of salt
  bool esn = true;
  std::uint32_t replay_window = 16384;  // packets, 32..2^20; inbound only
  std::uint64_t first_sequence = 1;     // outbound: the first number sent; tests start near the wrap
  std::uint64_t soft_limit_blocks = std::uint64_t{1} << 34;  // AES blocks per key (DESIGN §6.5)
  std::uint64_t hard_limit_blocks = std::uint64_t{1} << 35;
};

/// Thread: the owner of the stack.
class SaTable {
 public:
  /// Takes memory for `capacity` inbound SAs at once.
  explicit SaTable(std::size_t capacity);
  ~SaTable();
  SaTable(const SaTable&) = delete;
  SaTable& operator=(const SaTable&) = delete;

  /// @return kInvalidArgument (SPI 0..255, key size, window), kExists, kNoMemory (table full).
  [[nodiscard]] Result<InboundSa*> add_inbound(SaConfig&& config) noexcept;
  /// Wipes and forgets it. @return kNotFound.
  [[nodiscard]] Result<void> remove_inbound(Spi spi, const IpAddress& destination) noexcept;
  /// nullptr if there is none.
  [[nodiscard]] InboundSa* find(Spi spi, const IpAddress& destination) noexcept;
  /// True if any inbound SA has this SPI, whatever its destination.
  [[nodiscard]] bool has_spi(Spi spi) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// @return kInvalidArgument (SPI 0..255, key size, first_sequence 0).
[[nodiscard]] Result<std::unique_ptr<OutboundSa>> make_outbound(SaConfig&& config);

}  // namespace h4a::ipsec
