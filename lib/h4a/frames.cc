// Decoding of frames: size prefix, exact slice, verifier, then meaning. See frames.h.
#include "h4a/frames.h"

#include <frames_generated.h>

namespace h4a::http {
namespace {

template <class T>
using Decoded = tl::expected<T, FrameError>;

constexpr std::size_t kPrefixBytes = 4;
// Bounds the verifier's work, with room for a request whose header fields are too many to be answered 431.
constexpr flatbuffers::uoffset_t kTablesMax = 1024;

constexpr tl::unexpected<FrameError> refuse(FrameError e) noexcept {
  return tl::unexpected<FrameError>(e);
}

// The message's own extent, by its prefix (FlatBuffers: size-prefixed buffers).
Decoded<void> check_extent(Bytes message) noexcept {
  if (message.size() < kPrefixBytes + 2 * sizeof(flatbuffers::uoffset_t))
    return refuse(FrameError::kTooShort);
  if (message.size() > kFrameBytesMax) return refuse(FrameError::kTooLong);
  if (reinterpret_cast<std::uintptr_t>(message.data()) % kFrameAlignment != 0)
    return refuse(FrameError::kMisaligned);
  const std::uint64_t claimed = load_le<4>(message.data());
  if (claimed > message.size() - kPrefixBytes) return refuse(FrameError::kPrefixTooLong);
  if (claimed < message.size() - kPrefixBytes) return refuse(FrameError::kTrailingBytes);
  return {};
}

Decoded<const fb::Frame*> verify(Bytes message) noexcept {
  if (!flatbuffers::BufferHasIdentifier(message.data(), fb::FrameIdentifier(), true))
    return refuse(FrameError::kBadIdentifier);
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;
  options.max_tables = kTablesMax;
  flatbuffers::Verifier verifier(message.data(), message.size(), options);
  if (!verifier.VerifySizePrefixedBuffer<fb::Frame>(fb::FrameIdentifier()))
    return refuse(FrameError::kNotVerified);
  return flatbuffers::GetSizePrefixedRoot<fb::Frame>(message.data());
}

std::string_view text(const flatbuffers::String* s) noexcept {
  return s == nullptr ? std::string_view() : std::string_view(s->c_str(), s->size());
}

Bytes octets(const flatbuffers::Vector<std::uint8_t>* v) noexcept {
  return v == nullptr ? Bytes() : Bytes(v->data(), v->size());
}

/// @param text_max text that distinct fields of this message can have together: more means that fields
/// share their octets, which makes a short message expand without bound.
Decoded<HeaderFields> read_fields(const flatbuffers::Vector<flatbuffers::Offset<fb::Header>>* in,
                                  std::size_t text_max, HeaderScratch& scratch) noexcept {
  if (in == nullptr) return HeaderFields();
  if (in->size() > scratch.size()) return refuse(FrameError::kTooManyFields);
  std::size_t text_bytes = 0;
  std::size_t n = 0;
  for (const fb::Header* h : *in) {
    const HeaderField f{text(h->name()), text(h->value())};
    text_bytes += f.name.size() + f.value.size();
    if (text_bytes > text_max) return refuse(FrameError::kSharedText);
    if (!is_token(f.name) || !is_field_value(f.value)) return refuse(FrameError::kBadText);
    scratch[n++] = f;
  }
  return HeaderFields(scratch.data(), n);
}

Decoded<FrameBody> read_request(const fb::Request& in, std::size_t size,
                                HeaderScratch& scratch) noexcept {
  auto fields = read_fields(in.headers(), size, scratch);
  RequestFrame out;
  out.too_many_fields = !fields && fields.error() == FrameError::kTooManyFields;
  if (out.too_many_fields) fields = HeaderFields();
  if (!fields) return refuse(fields.error());
  out.id = RequestId(in.id());
  out.head = {text(in.method()), text(in.scheme()), text(in.authority()), text(in.path()), *fields};
  if (!is_token(out.head.method) || !is_request_target(out.head.path))
    return refuse(FrameError::kBadText);
  if (!is_field_value(out.head.scheme) || !is_field_value(out.head.authority))
    return refuse(FrameError::kBadText);
  out.inline_body = octets(in.inline_body());
  if (in.source() != nullptr) out.source_count = in.source()->size();
  if (in.sink() != nullptr && in.sink()->size() != 0) {
    if (in.sink()->size() > 1) return refuse(FrameError::kBadField);
    const fb::Region& r = *in.sink()->Get(0);
    if (r.address() + r.length() < r.address()) return refuse(FrameError::kBadField);
    out.sink = Region{r.address(), r.length(), Rkey(r.rkey())};
  }
  out.deadline_us = in.deadline_us();
  return out;
}

Decoded<FrameBody> read_response(const fb::Response& in, std::size_t size,
                                 HeaderScratch& scratch) noexcept {
  const auto fields = read_fields(in.headers(), size, scratch);
  if (!fields) return refuse(fields.error());
  if (in.status() < 200 || in.status() > 999) return refuse(FrameError::kBadField);
  if (in.place() > fb::BodyPlace::MAX) return refuse(FrameError::kBadField);
  ResponseFrame out;
  out.id = RequestId(in.id());
  out.status = in.status();
  out.headers = *fields;
  out.place = static_cast<BodyPlace>(in.place());
  out.inline_body = octets(in.inline_body());
  out.placed_bytes = in.placed_bytes();
  out.body_length = in.body_length();
  return out;
}

Decoded<FrameBody> read_body(const fb::Frame& frame, std::size_t size,
                             HeaderScratch& scratch) noexcept {
  switch (frame.body_type()) {
    case fb::Body::Request:
      return read_request(*frame.body_as_Request(), size, scratch);
    case fb::Body::Response:
      return read_response(*frame.body_as_Response(), size, scratch);
    case fb::Body::Data:
      return DataFrame{RequestId(frame.body_as_Data()->id())};
    case fb::Body::Trailers:
      return TrailersFrame{RequestId(frame.body_as_Trailers()->id())};
    case fb::Body::Credit:
      return CreditFrame{};
    case fb::Body::Cancel:
      return CancelFrame{RequestId(frame.body_as_Cancel()->id())};
    case fb::Body::Ping:
      return PingFrame{frame.body_as_Ping()->nonce()};
    case fb::Body::Pong:
      return PongFrame{frame.body_as_Pong()->nonce()};
    case fb::Body::GoAway: {
      const fb::GoAway& in = *frame.body_as_GoAway();
      return GoAwayFrame{RequestId(in.last_id()), static_cast<GoAwayCode>(in.code()),
                         text(in.text())};
    }
    case fb::Body::Rekey:
      return RekeyFrame{frame.body_as_Rekey()->epoch()};
    case fb::Body::Settings: {
      const fb::Settings& in = *frame.body_as_Settings();
      return SettingsFrame{in.max_requests(), in.max_request_bytes(), in.idle_timeout_ms()};
    }
    case fb::Body::NONE:
      break;
  }
  return refuse(FrameError::kUnknownKind);
}

}  // namespace

std::string_view to_string(FrameError e) noexcept {
  switch (e) {
    case FrameError::kTooShort:
      return "message too short for a frame";
    case FrameError::kPrefixTooLong:
      return "size prefix longer than the message";
    case FrameError::kTrailingBytes:
      return "bytes behind the frame";
    case FrameError::kTooLong:
      return "message longer than a frame may be";
    case FrameError::kMisaligned:
      return "message not aligned";
    case FrameError::kBadIdentifier:
      return "not an HTTP/4A frame";
    case FrameError::kNotVerified:
      return "FlatBuffers verification failed";
    case FrameError::kUnknownKind:
      return "unknown kind of frame";
    case FrameError::kTooManyFields:
      return "too many header fields";
    case FrameError::kSharedText:
      return "header fields share their octets";
    case FrameError::kBadText:
      return "illegal characters in a header, method or path";
    case FrameError::kBadField:
      return "number out of range";
  }
  return "unknown error";
}

std::string_view to_string(GoAwayCode code) noexcept {
  switch (code) {
    case GoAwayCode::kDone:
      return "done";
    case GoAwayCode::kProtocol:
      return "protocol error";
    case GoAwayCode::kUnsupported:
      return "unsupported frame";
    case GoAwayCode::kOverload:
      return "overload";
    case GoAwayCode::kDraining:
      return "draining";
  }
  return "unknown code";
}

tl::expected<Frame, FrameError> decode_frame(Bytes message, HeaderScratch& scratch) noexcept {
  if (const auto extent = check_extent(message); !extent) return refuse(extent.error());
  const auto root = verify(message);
  if (!root) return refuse(root.error());
  if ((*root)->body() == nullptr) return refuse(FrameError::kUnknownKind);
  const auto body = read_body(**root, message.size(), scratch);
  if (!body) return refuse(body.error());
  return Frame{(*root)->credit(), *body};
}

}  // namespace h4a::http
