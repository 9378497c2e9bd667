// Security associations and the table that finds them. Spec: RFC 4301 §4.4.2, RFC 4303 §2.1.
//
// An inbound SA is found by SPI and destination address, and names the association (lineage of SAs)
// it belongs to. An outbound SA is held by whoever sends through it. Keys wipe themselves.
//
// The source address of an inbound SA is not a selector: a peer may move, and the queue pairs check
// who sent (DESIGN §6.7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/address.h"
#include "base/esp_suite.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/secret.h"
#include "ipsec/aead.h"
#include "ipsec/replay_window.h"

namespace h4a::ipsec {

struct SaConfig {
  Spi spi;
  IpAddress source;       // of the packets: the sender
  IpAddress destination;  // of the packets: the receiver
  AssociationId association;
  EspSuite suite = EspSuite::kAesGcm128;
  Secret<kEspKeyMaterialMax> key;  // key then 4 bytes of salt
  bool esn = true;
  std::uint32_t replay_window = 16384;  // packets, 32..2^20; inbound only
  std::uint64_t first_sequence = 1;  // outbound: the first number sent; tests start near the wrap.
                                     // inbound: the first number expected, 1 unless resumed
  std::uint64_t soft_limit_blocks = std::uint64_t{1} << 34;  // AES blocks per key (DESIGN §6.5)
  std::uint64_t hard_limit_blocks = std::uint64_t{1} << 35;
  AeadBackend backend = AeadBackend::kAuto;
};

/// AES blocks that one packet costs its key: the data and the block that masks the tag.
[[nodiscard]] constexpr std::uint64_t aes_blocks(std::size_t ciphertext_bytes) noexcept {
  return (ciphertext_bytes + 15) / 16 + 1;
}

/// What both directions count against a key.
struct SaUsage {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;   // ciphertext
  std::uint64_t blocks = 0;  // aes_blocks
};

/// Ours to receive. Made by SaTable::add_inbound; used by open_burst.
class InboundSa {
 public:
  /// @param config checked by SaTable. @param aead its key, expanded. Throws std::bad_alloc.
  InboundSa(const SaConfig& config, std::unique_ptr<Aead> aead);

  [[nodiscard]] Spi spi() const noexcept { return spi_; }
  [[nodiscard]] const IpAddress& source() const noexcept { return source_; }
  [[nodiscard]] const IpAddress& destination() const noexcept { return destination_; }
  [[nodiscard]] AssociationId association() const noexcept { return association_; }
  [[nodiscard]] bool esn() const noexcept { return esn_; }
  /// Authentic packets only: what a forger sends uses nothing up.
  [[nodiscard]] const SaUsage& usage() const noexcept { return usage_; }
  [[nodiscard]] std::uint64_t failed_icvs() const noexcept { return failed_icvs_; }
  [[nodiscard]] const ReplayWindow& window() const noexcept { return window_; }

  /// Time to re-key: the soft limit of blocks, or half of the ICV failures that GCM bears.
  [[nodiscard]] bool soft_limit_reached() const noexcept;
  /// Opens no more: the hard limit of blocks, or 2^52 ICV failures (DESIGN §6.5).
  [[nodiscard]] bool exhausted() const noexcept;

  // For open_burst.
  [[nodiscard]] Aead& aead() noexcept { return *aead_; }
  /// The full number behind the 32 bits of a packet.
  [[nodiscard]] std::uint64_t full_sequence(std::uint32_t low) const noexcept {
    return esn_ ? infer_sequence(window_.top(), window_.size(), low) : low;
  }
  [[nodiscard]] ReplayVerdict check(std::uint64_t sequence) const noexcept {
    return window_.check(sequence);
  }
  /// An ICV was good: counts the packet and commits its number.
  [[nodiscard]] ReplayVerdict commit(std::uint64_t sequence, std::size_t ciphertext) noexcept;
  void count_failed_icv() noexcept { ++failed_icvs_; }

 private:
  Spi spi_;
  bool esn_;
  AssociationId association_;
  std::uint64_t soft_limit_blocks_;
  std::uint64_t hard_limit_blocks_;
  std::unique_ptr<Aead> aead_;
  ReplayWindow window_;
  SaUsage usage_;
  std::uint64_t failed_icvs_ = 0;
  IpAddress source_;
  IpAddress destination_;
};

/// Ours to send through. Used by seal_burst.
class OutboundSa {
 public:
  /// @param config checked by make_outbound. @param aead its key, expanded.
  OutboundSa(const SaConfig& config, std::unique_ptr<Aead> aead) noexcept;

  [[nodiscard]] Spi spi() const noexcept { return spi_; }
  [[nodiscard]] const IpAddress& source() const noexcept { return source_; }
  [[nodiscard]] const IpAddress& destination() const noexcept { return destination_; }
  [[nodiscard]] AssociationId association() const noexcept { return association_; }
  [[nodiscard]] bool esn() const noexcept { return esn_; }
  [[nodiscard]] const SaUsage& usage() const noexcept { return usage_; }
  /// The number the next packet gets; meaningless once sequence_exhausted().
  [[nodiscard]] std::uint64_t next_sequence() const noexcept { return next_sequence_; }

  /// Time to re-key: the soft limit of blocks, or three quarters of the sequence numbers.
  [[nodiscard]] bool soft_limit_reached() const noexcept;
  /// Seals no more: the hard limit of blocks or the end of the sequence numbers. Spec: RFC 4303
  /// §3.3.3.
  [[nodiscard]] bool exhausted() const noexcept;
  [[nodiscard]] bool sequence_exhausted() const noexcept { return wrapped_; }

  // For seal_burst.
  [[nodiscard]] Aead& aead() noexcept { return *aead_; }
  /// True if the key may still seal this many bytes.
  [[nodiscard]] bool has_blocks_for(std::size_t ciphertext) const noexcept {
    return aes_blocks(ciphertext) <= hard_limit_blocks_ - usage_.blocks;
  }
  /// Takes the next number for a packet; not sequence_exhausted() and has_blocks_for(ciphertext).
  [[nodiscard]] std::uint64_t take(std::size_t ciphertext) noexcept;

 private:
  [[nodiscard]] std::uint64_t last_sequence() const noexcept {
    return esn_ ? UINT64_MAX : UINT32_MAX;
  }

  Spi spi_;
  bool esn_;
  bool wrapped_ = false;
  AssociationId association_;
  std::uint64_t next_sequence_;
  std::uint64_t soft_limit_blocks_;
  std::uint64_t hard_limit_blocks_;
  std::unique_ptr<Aead> aead_;
  SaUsage usage_;
  IpAddress source_;
  IpAddress destination_;
};

/// Thread: the owner of the stack.
class SaTable {
 public:
  /// Takes memory for `capacity` inbound SAs at once.
  explicit SaTable(std::size_t capacity);
  ~SaTable();
  SaTable(const SaTable&) = delete;
  SaTable& operator=(const SaTable&) = delete;

  /// `config.key` is wiped whatever the outcome.
  /// @return kInvalidArgument (SPI 0..255, key size, window, first_sequence, limits), kExists,
  /// kUnsupported (back end), kNoMemory (table full).
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

/// `config.key` is wiped whatever the outcome.
/// @return kInvalidArgument (SPI 0..255, key size, first_sequence, limits), kUnsupported,
/// kNoMemory.
[[nodiscard]] Result<std::unique_ptr<OutboundSa>> make_outbound(SaConfig&& config);

}  // namespace h4a::ipsec
