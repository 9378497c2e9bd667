// Frames of an HTTP/4A session as values: decode proves a received SEND, encode writes one (DESIGN §7).
//
// A message is a size-prefixed FlatBuffer (schema/frames.fbs) and exactly one a SEND. Decoding goes by
// the prefix first, caps it, and verifies that exact slice; then meaning: known kind, bounded header
// fields, legal text. Decoded frames borrow the received bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "h4a/headers.h"
#include "h4a/request.h"

namespace h4a::http {

/// Received messages start at a multiple of this, or they are refused.
inline constexpr std::size_t kFrameAlignment = 8;
/// Longest message either side accepts, prefix included.
inline constexpr std::size_t kFrameBytesMax = 65536;
inline constexpr std::size_t kFrameBytesMin = 1024;

/// Why a message is not a frame.
enum class FrameError : std::uint8_t {
  kTooShort,       // no room for a size prefix and a root
  kPrefixTooLong,  // the size prefix claims more than was received
  kTrailingBytes,  // bytes behind the message: two in one SEND, or a prefix too small
  kTooLong,        // longer than kFrameBytesMax
  kMisaligned,     // does not start at a multiple of kFrameAlignment
  kBadIdentifier,  // not "H4AF"
  kNotVerified,    // the FlatBuffers verifier refused it
  kUnknownKind,    // a frame this version does not know
  kTooManyFields,  // a Response with more than kHeaderFieldsMax header fields
  kSharedText,  // header fields that share their octets, and so claim more than the message holds
  kBadText,     // a header name, value, method or path with characters that have no place there
  kBadField,    // a number out of its range
};
[[nodiscard]] std::string_view to_string(FrameError e) noexcept;
inline constexpr std::size_t kFrameErrorCount = static_cast<std::size_t>(FrameError::kBadField) + 1;

/// Memory of the other side.
struct Region {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Rkey rkey;
};

enum class BodyPlace : std::uint8_t { kNone, kInline, kPlaced, kSource, kNotSent };

struct RequestFrame {
  RequestId id;
  RequestHead head;
  bool too_many_fields = false;  // more than kHeaderFieldsMax: none of them is given
  Bytes inline_body;
  std::uint32_t source_count = 0;
  std::optional<Region> sink;
  std::uint64_t deadline_us = 0;  // 0: none
};

struct ResponseFrame {
  RequestId id;
  std::uint16_t status = 0;
  HeaderFields headers;
  BodyPlace place = BodyPlace::kNone;
  Bytes inline_body;
  std::uint64_t placed_bytes = 0;
  std::uint64_t body_length = 0;
};

struct DataFrame {
  RequestId id;
};
struct TrailersFrame {
  RequestId id;
};
struct CreditFrame {};
struct CancelFrame {
  RequestId id;
};
struct PingFrame {
  std::uint64_t nonce = 0;
};
struct PongFrame {
  std::uint64_t nonce = 0;
};

enum class GoAwayCode : std::uint16_t {
  kDone = 0,         // nothing is wrong: idle, or the program ends
  kProtocol = 1,     // the other side broke the protocol
  kUnsupported = 2,  // a frame of a kind that this side does not serve
  kOverload = 3,
  kDraining = 4,  // a server takes no further request; those up to last_id it still answers
};
[[nodiscard]] std::string_view to_string(GoAwayCode code) noexcept;
struct GoAwayFrame {
  RequestId last_id;
  GoAwayCode code = GoAwayCode::kDone;
  std::string_view text;
};
struct RekeyFrame {
  std::uint32_t epoch = 0;
};
struct SettingsFrame {
  std::uint32_t max_requests = 0;
  std::uint32_t max_request_bytes = 0;
  std::uint32_t idle_timeout_ms = 0;
};

using FrameBody =
    std::variant<RequestFrame, ResponseFrame, DataFrame, TrailersFrame, CreditFrame, CancelFrame,
                 PingFrame, PongFrame, GoAwayFrame, RekeyFrame, SettingsFrame>;
struct Frame {
  std::uint64_t credit = 0;  // 0: not given
  FrameBody body;
};

/// Room for what a decoded frame refers to.
using HeaderScratch = std::array<HeaderField, kHeaderFieldsMax>;

/// Decodes one received SEND. Every byte pattern is answered, none is trusted.
/// @param message starts at a multiple of kFrameAlignment; must outlive the frame, as must `scratch`.
[[nodiscard]] tl::expected<Frame, FrameError> decode_frame(Bytes message,
                                                           HeaderScratch& scratch) noexcept;

/// Overwrites the credit of an encoded message, so that it is told as late as possible. `message` is
/// what FrameEncoder wrote.
void patch_credit(MutableBytes message, std::uint64_t credit) noexcept;

/// Encodes frames. Takes its working memory at construction.
class FrameEncoder {
 public:
  /// @param message_bytes longest message it will write.
  explicit FrameEncoder(std::size_t message_bytes);
  ~FrameEncoder();
  FrameEncoder(const FrameEncoder&) = delete;
  FrameEncoder& operator=(const FrameEncoder&) = delete;

  /// Writes `frame` to the start of `out`.
  /// @param out starts at a multiple of kFrameAlignment.
  /// @return bytes written; kFull if it does not fit, kInvalidArgument for a frame that decode_frame()
  /// would refuse.
  [[nodiscard]] Result<std::size_t> encode(const Frame& frame, MutableBytes out) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace h4a::http
