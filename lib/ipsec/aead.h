// AEAD: AES-GCM as ESP uses it, behind two back ends. Spec: RFC 4106, NIST SP 800-38D.
//
// One Aead is one key. The nonce is salt ‖ explicit IV; the tag is the first 8, 12 or 16 bytes of
// GCM's. Calls take a burst, so that the cost of the indirection is one call a burst.
//
// intel-ipsec-mb serves CPUs with AES-NI and PCLMULQDQ (in SSE, AVX, AVX2 and AVX-512/VAES forms),
// OpenSSL all others; each is the other's reference in tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/result.h"

namespace h4a::ipsec {

/// Who computes. `kAuto` takes the fastest that this CPU has; the others are for tests and
/// measurements.
enum class AeadBackend : std::uint8_t {
  kAuto,
  kIpsecMbSse,
  kIpsecMbAvx,
  kIpsecMbAvx2,
  kIpsecMbAvx512,
  kOpenSsl,
};

[[nodiscard]] std::string_view to_string(AeadBackend backend) noexcept;
/// True if this CPU can run it.
[[nodiscard]] bool is_supported(AeadBackend backend) noexcept;
/// What kAuto means on this CPU.
[[nodiscard]] AeadBackend best_aead_backend() noexcept;

/// Bytes of the IV that travel in each packet. Spec: RFC 4106 §3.1.
inline constexpr std::size_t kAeadIvSize = 8;
/// Bytes of the salt, which does not. Spec: RFC 4106 §4.
inline constexpr std::size_t kAeadSaltSize = 4;
/// SPI, high half of the sequence number with ESN, low half. Spec: RFC 4106 §5.
inline constexpr std::size_t kAeadAadMax = 12;

/// One packet to open, in place. No member is initialised, so that a burst of jobs costs only what
/// is used.
struct OpenJob {
  std::uint8_t* data;  // in: ciphertext; out: plaintext, or zeros if not authentic
  std::size_t size;
  const std::uint8_t* tag;
  const std::uint8_t* iv;  // kAeadIvSize bytes
  std::array<std::uint8_t, kAeadAadMax> aad;
  std::size_t aad_size;
  bool authentic;  // out
};

/// One packet to seal: the segments, one after the other, become contiguous ciphertext at `out`.
/// A segment either lies where its ciphertext will be, or does not overlap the output at all.
struct SealJob {
  struct Segment {
    const std::uint8_t* data;
    std::size_t size;
  };
  /// Header part, pieces of application memory, trailer.
  static constexpr std::size_t kSegmentsMax = kGatherMax + 2;

  std::uint8_t* out;  // room for all segments
  std::array<Segment, kSegmentsMax> segments;
  std::size_t segment_count;
  std::uint8_t* tag;       // tag_size() bytes are written here
  const std::uint8_t* iv;  // kAeadIvSize bytes
  std::array<std::uint8_t, kAeadAadMax> aad;
  std::size_t aad_size;

  /// Adds a segment behind the others, unless it is empty. `segment_count` was set to 0 at first.
  void add_segment(const std::uint8_t* data, std::size_t size) noexcept;
};

/// Thread: one at a time. Allocates nothing. The key schedule is wiped at destruction.
class Aead {
 public:
  virtual ~Aead() = default;
  Aead(const Aead&) = delete;
  Aead& operator=(const Aead&) = delete;

  /// Encrypts and tags each job. The caller never hands in an IV twice.
  virtual void seal(std::span<SealJob> jobs) noexcept = 0;
  /// Decrypts each job in place; where the tag is wrong, `data` is wiped and `authentic` false.
  virtual void open(std::span<OpenJob> jobs) noexcept = 0;
  [[nodiscard]] std::size_t tag_size() const noexcept { return tag_size_; }

 protected:
  explicit Aead(std::size_t tag_size) noexcept : tag_size_(tag_size) {}

 private:
  std::size_t tag_size_;
};

/// @param key 16, 24 or 32 bytes; copied into the key schedule, the source is the caller's to wipe.
/// @param salt kAeadSaltSize bytes.
/// @param tag_size 8, 12 or 16. Spec: RFC 4106 §6.
/// @return kInvalidArgument (sizes), kUnsupported (back end not on this CPU), kNoMemory.
[[nodiscard]] Result<std::unique_ptr<Aead>> make_aes_gcm(Bytes key, Bytes salt,
                                                         std::size_t tag_size = 16,
                                                         AeadBackend backend = AeadBackend::kAuto);

}  // namespace h4a::ipsec
