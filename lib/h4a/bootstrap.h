// Offer and Answer: the two messages that begin an HTTP/4A session (DESIGN §6.3), as plain structs,
// with their FlatBuffers encoding (schema/bootstrap.fbs). docs/WIRE.md describes both.
//
// Decoding treats the octets as hostile: they are copied to aligned memory, verified with bounds on
// size, depth and tables, then every field is checked or clamped, so that the structs hold only
// values that the rest of the program can act on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/esp_suite.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/serial.h"
#include "h4a/key_schedule.h"

namespace h4a::bootstrap {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::string_view kPath = "/.well-known/h4a";
inline constexpr std::string_view kOfferMediaType = "application/vnd.h4a.offer";
inline constexpr std::string_view kAnswerMediaType = "application/vnd.h4a.answer";

/// Longest Offer or Answer that is read.
inline constexpr std::size_t kMessageMaxBytes = 16384;
inline constexpr std::size_t kCandidatesMax = 8;        // more are ignored
inline constexpr std::size_t kSuitesMax = 8;            // more are ignored
inline constexpr std::size_t kAuthoritiesMax = 64;      // more are ignored
inline constexpr std::size_t kAuthorityMaxBytes = 261;  // 255 of host, ':' and a port

/// Bounds that a peer's proposal is clamped to.
inline constexpr std::uint32_t kReceiveDepthMax = 4096;
inline constexpr std::uint32_t kReceiveBytesMin =
    1024;  // a peer with less cannot take a header block
inline constexpr std::uint32_t kReceiveBytesMax = 1 << 20;
inline constexpr std::uint8_t kReadDepthMax = 128;
inline constexpr std::uint32_t kLifetimeMax_s = 86400;

/// Feature bits. What neither side knows is ignored.
inline constexpr std::uint64_t kFeatureBitmapAck = 1;
inline constexpr std::uint64_t kFeatureIcrcElision = 2;
inline constexpr std::uint64_t kFeatureSelfDescribingWrites = 4;

using Nonce = std::array<std::uint8_t, 16>;

/// Where ESP packets reach a side.
struct Candidate {
  IpAddress address;
  std::uint16_t udp_port = 0;  // 0: native ESP; otherwise ESP in UDP to this port (RFC 3948)
  friend bool operator==(const Candidate&, const Candidate&) noexcept = default;
};

/// What one side says of itself.
struct Terms {
  std::uint16_t version = kVersion;
  PublicKey public_key{};
  Nonce nonce{};
  std::vector<Candidate> candidates;  // best first, 1..kCandidatesMax
  IpAddress icrc_address;
  Spi spi;                          // of packets to this side, >= 256
  Qpn qpn;                          // 2..2^24-2
  Psn psn;                          // of the first packet this side sends
  std::uint16_t path_mtu = 1024;    // 256, 512, 1024, 2048 or 4096
  std::uint32_t receive_depth = 0;  // receives this side keeps posted, 1..kReceiveDepthMax
  std::uint32_t receive_bytes = 0;  // of each, kReceiveBytesMin..kReceiveBytesMax
  std::uint8_t read_depth = 0;      // RDMA READs it serves at a time, 0..kReadDepthMax
  std::uint64_t features = 0;
  std::uint32_t lifetime_s = 0;  // 1..kLifetimeMax_s
};

struct Offer {
  Terms terms;
  std::vector<EspSuite> suites;  // best first, at least one
};

struct Answer {
  Terms terms;
  EspSuite suite = EspSuite::kAesGcm128;
  std::vector<std::string> authorities;  // host or host:port, at least one
};

/// The body of the POST, of its response. The structs hold values in the ranges stated above.
[[nodiscard]] std::vector<std::uint8_t> encode_offer(const Offer& offer);
[[nodiscard]] std::vector<std::uint8_t> encode_answer(const Answer& answer);

/// Reads a body of any alignment; nothing of the result refers to `body`.
/// @return kTruncated (empty or shorter than its header), kMalformed (too long, not such a
/// FlatBuffer, or a field without meaning: SPI, QPN, PSN, path MTU, an address that no packet can
/// go to), kBadVersion, kUnsupported (no suite of ours).
[[nodiscard]] Result<Offer> decode_offer(Bytes body);
[[nodiscard]] Result<Answer> decode_answer(Bytes body);

/// True for host[:port] as it stands in an https URL: no user, no path, printable ASCII, lower or
/// upper case.
[[nodiscard]] bool is_authority(std::string_view text) noexcept;

}  // namespace h4a::bootstrap
