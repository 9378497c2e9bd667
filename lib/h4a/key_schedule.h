// The keys of a session (DESIGN §6.4), out of two fresh X25519 keys and the exact octets of Offer
// and Answer. Pure: randomness comes in as private keys.
//
//   T      = SHA-256(u64 len(offer) ‖ offer ‖ u64 len(answer) ‖ answer)     lengths big-endian
//   PRK    = HKDF-Extract(salt = T, IKM = X25519(own private, peer public))
//   KEYMAT = HKDF-Expand(PRK, info, key_material_size(suite))               AES key, then 4 bytes
//   of salt info   = "h4a 1 esp " ‖ direction ‖ suite ‖ SPI ‖ epoch                 20 octets:
//            10 of ASCII · 1: 'c' client to server, 's' server to client · 1: EspSuite
//            · 4: SPI of the packets, big-endian · 4: epoch, big-endian, 0 after a bootstrap
//
// One SA for each (PRK, direction, SPI, epoch): no two SAs ever share a key.
// Spec: RFC 7748 §5, §6.1 (X25519), RFC 5869 (HKDF with SHA-256), FIPS 180-4.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/esp_suite.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "base/secret.h"

namespace h4a::bootstrap {

using PublicKey = std::array<std::uint8_t, 32>;
using PrivateKey = Secret<32>;
using SharedSecret = Secret<32>;
using PseudoRandomKey = Secret<32>;
using TranscriptHash = std::array<std::uint8_t, 32>;
using KeyMaterial = Secret<kEspKeyMaterialMax>;

struct KeyPair {
  PrivateKey private_key;
  PublicKey public_key;
};

/// A fresh key pair, for one message. @return kNoMemory if the crypto library fails.
[[nodiscard]] Result<KeyPair> make_key_pair(Random& random) noexcept;

/// The public key that belongs to `private_key` (32 bytes). @return kInvalidArgument, kNoMemory.
[[nodiscard]] Result<PublicKey> public_key_of(const PrivateKey& private_key) noexcept;

/// The secret both sides share. Spec: RFC 7748 §6.1.
/// @return kAuthentication if the result is all zero, that is, `peer` is a point of low order.
[[nodiscard]] Result<SharedSecret> x25519(const PrivateKey& own, const PublicKey& peer) noexcept;

/// T, over the body octets exactly as they travelled.
[[nodiscard]] TranscriptHash transcript_hash(Bytes offer, Bytes answer) noexcept;

/// Spec: RFC 5869 §2.2. @return kNoMemory if the crypto library fails.
[[nodiscard]] Result<PseudoRandomKey> hkdf_extract(Bytes salt, Bytes ikm) noexcept;

/// Fills `out` (1..8160 bytes; `info` at most 128). Spec: RFC 5869 §2.3. @return kInvalidArgument,
/// kNoMemory.
[[nodiscard]] Result<void> hkdf_expand(Bytes prk, Bytes info, MutableBytes out) noexcept;

enum class Direction : std::uint8_t { kClientToServer = 'c', kServerToClient = 's' };

/// Key and salt of the SA whose packets carry `spi` in `direction`.
/// @return kUnsupported for a suite that is not ours, kNoMemory.
[[nodiscard]] Result<KeyMaterial> derive_esp_key(const PseudoRandomKey& prk, Direction direction,
                                                 EspSuite suite, Spi spi,
                                                 std::uint32_t epoch = 0) noexcept;

}  // namespace h4a::bootstrap
