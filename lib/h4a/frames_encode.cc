// Encoding of frames. See frames.h.
#include <algorithm>
#include <cstring>
#include <frames_generated.h>

#include "h4a/frames.h"

namespace h4a::http {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <class T>
using Offset = flatbuffers::Offset<T>;
using Fields = Offset<flatbuffers::Vector<Offset<fb::Header>>>;

// What the builder may need beyond the text: tables, offsets, lengths, padding.
constexpr std::size_t kOverheadBytes = 40 * kHeaderFieldsMax + 1024;

Offset<flatbuffers::String> text(Builder& b, std::string_view s) {
  return b.CreateString(s.data(), s.size());
}

Fields write_fields(Builder& b, HeaderFields in) {
  if (in.empty()) return {};
  std::array<Offset<fb::Header>, kHeaderFieldsMax> offsets;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto name = text(b, in[i].name);
    offsets[i] = fb::CreateHeader(b, name, text(b, in[i].value));
  }
  return b.CreateVector(offsets.data(), in.size());
}

Offset<flatbuffers::Vector<std::uint8_t>> write_octets(Builder& b, Bytes in) {
  if (in.empty()) return {};
  return b.CreateVector(in.data(), in.size());
}

// One function for each kind: writes the table, returns its offset.
Offset<void> write(Builder& b, const RequestFrame& f) {
  const auto method = text(b, f.head.method);
  const auto scheme = text(b, f.head.scheme);
  const auto authority = text(b, f.head.authority);
  const auto path = text(b, f.head.path);
  const auto fields = write_fields(b, f.head.headers);
  const auto body = write_octets(b, f.inline_body);
  Offset<flatbuffers::Vector<const fb::Region*>> sink;
  if (f.sink) {
    const fb::Region region(f.sink->address, f.sink->length, f.sink->rkey.value());
    sink = b.CreateVectorOfStructs(&region, 1);
  }
  return fb::CreateRequest(b, f.id.value(), method, scheme, authority, path, fields, body, {}, sink,
                           f.deadline_us)
      .Union();
}
Offset<void> write(Builder& b, const ResponseFrame& f) {
  const auto fields = write_fields(b, f.headers);
  const auto body = write_octets(b, f.inline_body);
  return fb::CreateResponse(b, f.id.value(), f.status, fields, static_cast<fb::BodyPlace>(f.place),
                            body, f.placed_bytes, f.body_length)
      .Union();
}
Offset<void> write(Builder& b, const DataFrame& f) {
  return fb::CreateData(b, f.id.value()).Union();
}
Offset<void> write(Builder& b, const TrailersFrame& f) {
  return fb::CreateTrailers(b, f.id.value()).Union();
}
Offset<void> write(Builder& b, const CreditFrame&) {
  return fb::CreateCredit(b).Union();
}
Offset<void> write(Builder& b, const CancelFrame& f) {
  return fb::CreateCancel(b, f.id.value()).Union();
}
Offset<void> write(Builder& b, const PingFrame& f) {
  return fb::CreatePing(b, f.nonce).Union();
}
Offset<void> write(Builder& b, const PongFrame& f) {
  return fb::CreatePong(b, f.nonce).Union();
}
Offset<void> write(Builder& b, const GoAwayFrame& f) {
  const auto why = text(b, f.text);
  return fb::CreateGoAway(b, f.last_id.value(), static_cast<std::uint16_t>(f.code), why).Union();
}
Offset<void> write(Builder& b, const RekeyFrame& f) {
  return fb::CreateRekey(b, f.epoch).Union();
}
Offset<void> write(Builder& b, const SettingsFrame& f) {
  return fb::CreateSettings(b, f.max_requests, f.max_request_bytes, f.idle_timeout_ms).Union();
}

fb::Body kind(const FrameBody& body) noexcept {
  // The variant and the union of the schema list the kinds in one order.
  static_assert(std::variant_size_v<FrameBody> == static_cast<std::size_t>(fb::Body::MAX));
  return static_cast<fb::Body>(body.index() + 1);
}

std::size_t text_size(HeaderFields fields) noexcept {
  std::size_t n = 0;
  for (const HeaderField& f : fields) n += f.name.size() + f.value.size();
  return n;
}

bool all_legal(HeaderFields fields) noexcept {
  return fields.size() <= kHeaderFieldsMax &&
         std::all_of(fields.begin(), fields.end(), [](const HeaderField& f) {
           return is_token(f.name) && is_field_value(f.value);
         });
}

// Bytes of variable length in a frame, and whether they are legal.
struct Content {
  std::size_t bytes = 0;
  bool legal = true;
};
Content content(const FrameBody& body) noexcept {
  if (const auto* q = std::get_if<RequestFrame>(&body)) {
    const RequestHead& h = q->head;
    return {text_size(h.headers) + h.method.size() + h.scheme.size() + h.authority.size() +
                h.path.size() + q->inline_body.size(),
            all_legal(h.headers) && is_token(h.method) && is_request_target(h.path) &&
                is_field_value(h.scheme) && is_field_value(h.authority)};
  }
  if (const auto* r = std::get_if<ResponseFrame>(&body))
    return {text_size(r->headers) + r->inline_body.size(),
            all_legal(r->headers) && r->status >= 200 && r->status <= 999};
  if (const auto* g = std::get_if<GoAwayFrame>(&body)) return {g->text.size(), true};
  return {};
}

}  // namespace

struct FrameEncoder::Impl {
  explicit Impl(std::size_t message_bytes) : builder(message_bytes + kOverheadBytes) {}
  Builder builder;
};

FrameEncoder::FrameEncoder(std::size_t message_bytes)
    : impl_(std::make_unique<Impl>(message_bytes)) {
  // Forces the builder to take its memory now.
  static_cast<void>(impl_->builder.CreateString("", 0));
  impl_->builder.Clear();
}
FrameEncoder::~FrameEncoder() = default;

Result<std::size_t> FrameEncoder::encode(const Frame& frame, MutableBytes out) noexcept {
  const Content c = content(frame.body);
  if (!c.legal) return failure(Error::kInvalidArgument);
  if (c.bytes > out.size()) return failure(Error::kFull);
  Builder& b = impl_->builder;
  b.Clear();
  b.ForceDefaults(false);
  const Offset<void> body = std::visit([&b](const auto& f) { return write(b, f); }, frame.body);
  fb::FinishSizePrefixedFrameBuffer(b, fb::CreateFrame(b, frame.credit, kind(frame.body), body));
  if (b.GetSize() > out.size()) return failure(Error::kFull);
  std::memcpy(out.data(), b.GetBufferPointer(), b.GetSize());
  return b.GetSize();
}

void patch_credit(MutableBytes message, std::uint64_t credit) noexcept {
  const auto* root = flatbuffers::GetSizePrefixedRoot<flatbuffers::Table>(message.data());
  const std::uint8_t* field = root->GetAddressOf(fb::Frame::VT_CREDIT);
  if (field == nullptr) return;
  store_le<8>(message.data() + (field - message.data()), credit);
}

}  // namespace h4a::http
