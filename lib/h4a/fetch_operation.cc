#include "h4a/fetch_operation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace h4a::http {
namespace {

constexpr std::uint16_t kOk = 200;
constexpr std::uint16_t kPartialContent = 206;
constexpr std::uint16_t kPreconditionFailed = 412;
constexpr std::uint16_t kRangeNotSatisfiable = 416;

std::optional<std::uint64_t> number(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// RFC 9110 §8.8.1: only a strong validator says that bytes are the same.
bool is_strong(std::string_view etag) noexcept {
  return etag.size() >= 2 && etag.front() == '"' && etag.back() == '"';
}

/// Text of small parts in a fixed buffer: "bytes=0-99", "bytes 0-99/1000".
class ShortText {
 public:
  ShortText& add(std::string_view s) noexcept {
    const std::size_t n = std::min(s.size(), sizeof(text_) - size_);
    std::copy_n(s.data(), n, text_ + size_);
    size_ += n;
    return *this;
  }
  ShortText& add(std::uint64_t v) noexcept {
    const auto end = std::to_chars(text_ + size_, text_ + sizeof(text_), v).ptr;
    size_ = static_cast<std::size_t>(end - text_);
    return *this;
  }
  [[nodiscard]] std::string_view view() const noexcept { return {text_, size_}; }

 private:
  char text_[96];
  std::size_t size_ = 0;
};

}  // namespace

std::string_view to_string(FetchError e) noexcept {
  switch (e) {
    case FetchError::kNone:
      return "none";
    case FetchError::kStatus:
      return "the server answered with an error status";
    case FetchError::kTimeout:
      return "deadline passed";
    case FetchError::kSession:
      return "the session ended";
    case FetchError::kChanged:
      return "the file changed while it was fetched";
    case FetchError::kBadResponse:
      return "the answer is not what was asked for";
    case FetchError::kTooLarge:
      return "the server does not know ranges and the file is large";
    case FetchError::kSink:
      return "the data could not be stored";
    case FetchError::kCancelled:
      return "cancelled";
    case FetchError::kLocal:
      return "no memory or a local limit";
  }
  return "unknown error";
}

FetchOperation::FetchOperation(ClientSession& session, FetchSink& sink, FetchOptions options)
    : session_(session), sink_(sink), options_(std::move(options)) {}

FetchOperation::~FetchOperation() {
  if (stage_ == Stage::kIdle || finished()) return;
  finish(FetchError::kCancelled);
  session_.abort(SessionError::kClosed);
}

Result<void> FetchOperation::start(Instant now) noexcept {
  if (stage_ != Stage::kIdle) return failure(Error::kInvalidState);
  if (options_.chunk_bytes == 0 || options_.chunks_in_flight == 0)
    return failure(Error::kInvalidArgument);
  now_ = result_.started = now;
  const auto id = ask("HEAD", nullptr);
  if (!id) return failure(id.error());
  head_id_ = *id;
  head_outstanding_ = true;
  stage_ = Stage::kHead;
  return {};
}

// Sends a request for the head or for one chunk.
Result<RequestId> FetchOperation::ask(std::string_view method, const Chunk* chunk) noexcept {
  std::array<HeaderField, kHeaderFieldsMax> fields;
  std::size_t n = 0;
  for (const auto& [name, value] : options_.headers)
    if (n + 2 < fields.size()) fields[n++] = {name, value};
  ShortText range;
  SinkBuffer sink;
  if (chunk != nullptr) {
    range.add("bytes=").add(chunk->offset).add("-").add(chunk->offset + chunk->length - 1);
    if (ranges_) fields[n++] = {"range", range.view()};
    if (is_strong(result_.etag))
      fields[n++] = {"if-match", result_.etag};
    else if (!result_.last_modified.empty())
      fields[n++] = {"if-unmodified-since", result_.last_modified};
    sink = chunk->buffer.sink(chunk->length);
  }
  const RequestHead head{method, options_.scheme, options_.authority, options_.path,
                         HeaderFields(fields.data(), n)};
  const auto id = session_.submit(head, sink, options_.request_timeout, *this, now_);
  if (id) ++result_.requests;
  return id;
}

// ---- answers ----

void FetchOperation::on_response(RequestId id, const Response& response) noexcept {
  if (id == head_id_) {
    if (stage_ == Stage::kHead && take_outcome(response)) on_head_response(response);
    return;
  }
  for (Chunk& c : chunks_)
    if (c.stage == Chunk::Stage::kAsked && c.id == id) return on_chunk_response(c, response);
}

void FetchOperation::on_sink_released(RequestId id) noexcept {
  if (id == head_id_) head_outstanding_ = false;
  for (Chunk& c : chunks_)
    if (c.reachable && c.id == id) c.reachable = false;
}

/// @return true if there is a response to look at.
bool FetchOperation::take_outcome(const Response& response) noexcept {
  switch (response.outcome) {
    case Outcome::kResponse:
      return true;
    case Outcome::kTimeout:
      finish(FetchError::kTimeout);
      return false;
    case Outcome::kCancelled:
      finish(FetchError::kCancelled);
      return false;
    case Outcome::kRefused:
    case Outcome::kSessionFailed:
      break;
  }
  finish(FetchError::kSession);
  return false;
}

void FetchOperation::on_head_response(const Response& response) noexcept {
  result_.status = response.status;
  if (response.status != kOk) return finish(FetchError::kStatus);
  const auto text = [&](std::string_view name) {
    return find_header(response.headers, name).value_or(std::string_view());
  };
  const auto size = number(text("content-length"));
  if (!size) return finish(FetchError::kBadResponse);
  result_.size = *size;
  result_.etag = text("etag");
  result_.last_modified = text("last-modified");
  ranges_ = equals_ignoring_case(text("accept-ranges"), "bytes");
  if (options_.resume) {
    if (!is_what_was_begun()) return finish(FetchError::kChanged);
    result_.delivered_bytes = asked_ = options_.resume->offset;
    return begin_body();
  }
  const FetchHead head{response.status,      *size,           result_.etag, result_.last_modified,
                       text("content-type"), response.headers};
  if (const auto taken = sink_.on_head(head); !taken)
    return finish_local(FetchError::kSink, taken.error());
  begin_body();
}

bool FetchOperation::is_what_was_begun() const noexcept {
  const FetchResume& begun = *options_.resume;
  const bool told = is_strong(result_.etag) || !result_.last_modified.empty();
  return told && result_.size == begun.size && result_.etag == begun.etag &&
         result_.last_modified == begun.last_modified && begun.offset <= begun.size &&
         (ranges_ || begun.offset == 0);
}

void FetchOperation::begin_body() noexcept {
  const std::uint64_t wanted = result_.size - asked_;
  if (wanted == 0) return finish(FetchError::kNone);
  if (!ranges_ && result_.size > options_.chunk_bytes) return finish(FetchError::kTooLarge);
  const std::uint64_t chunk = std::min(options_.chunk_bytes, wanted);
  const std::uint64_t needed = (wanted + chunk - 1) / chunk;
  chunks_.resize(
      static_cast<std::size_t>(std::min<std::uint64_t>(needed, options_.chunks_in_flight)));
  for (Chunk& c : chunks_) {
    auto buffer = RegisteredBuffer::create(
        session_.device(), session_.pd(), static_cast<std::size_t>(chunk),
        verbs::Access::kLocalWrite | verbs::Access::kWindowBind, session_.peer().association);
    if (!buffer) return finish_local(FetchError::kLocal, buffer.error());
    c.buffer = std::move(*buffer);
  }
  stage_ = Stage::kBody;
}

void FetchOperation::on_chunk_response(Chunk& c, const Response& response) noexcept {
  c.stage = Chunk::Stage::kFree;
  if (stage_ != Stage::kBody) return;
  if (response.outcome == Outcome::kRefused) {  // what was asked before it may still come
    asked_ = std::min(asked_, c.offset);
    return;
  }
  if (!take_outcome(response)) return;
  result_.status = response.status;
  const FetchError verdict = judge(c, response);
  if (verdict != FetchError::kNone) return finish(verdict);
  c.stage = Chunk::Stage::kArrived;
}

// Is this the range that was asked for, of the version that HEAD saw? RFC 9110 §14.4, §15.3.7.
FetchError FetchOperation::judge(const Chunk& c, const Response& response) const noexcept {
  if (response.status == kPreconditionFailed || response.status == kRangeNotSatisfiable)
    return FetchError::kChanged;
  if (response.status != (ranges_ ? kPartialContent : kOk)) return FetchError::kStatus;
  const auto etag = find_header(response.headers, "etag");
  if (etag && *etag != result_.etag) return FetchError::kChanged;
  if (!response.body_sent) return FetchError::kChanged;  // more than there was
  if (ranges_) {
    ShortText expected;
    expected.add("bytes ").add(c.offset).add("-").add(c.offset + c.length - 1);
    expected.add("/").add(result_.size);
    if (find_header(response.headers, "content-range") != expected.view())
      return FetchError::kChanged;
  }
  return response.body.size() == c.length ? FetchError::kNone : FetchError::kBadResponse;
}

// ---- the turn ----

std::size_t FetchOperation::poll(Instant now) noexcept {
  now_ = std::max(now_, now);
  if (stage_ != Stage::kBody) return 0;
  std::size_t work = deliver();
  if (stage_ == Stage::kBody) work += ask_more();
  return work;
}

// Hands over what is next in the file, for as long as it has arrived.
std::size_t FetchOperation::deliver() noexcept {
  std::size_t work = 0;
  for (;;) {
    const auto next = std::find_if(chunks_.begin(), chunks_.end(), [this](const Chunk& c) {
      return c.stage == Chunk::Stage::kArrived && !c.reachable &&
             c.offset == result_.delivered_bytes;
    });
    if (next == chunks_.end()) return work;
    const Bytes data = next->buffer.bytes().first(static_cast<std::size_t>(next->length));
    if (const auto taken = sink_.on_data(next->offset, data); !taken) {
      finish_local(FetchError::kSink, taken.error());
      return work;
    }
    ++work;
    next->stage = Chunk::Stage::kFree;
    result_.delivered_bytes += next->length;
    if (result_.delivered_bytes < result_.size) continue;
    finish(FetchError::kNone);
    return work;
  }
}

std::size_t FetchOperation::ask_more() noexcept {
  std::size_t work = 0;
  for (Chunk& c : chunks_) {
    if (asked_ == result_.size) break;
    if (c.stage != Chunk::Stage::kFree || c.reachable) continue;
    c.offset = asked_;
    c.length = std::min<std::uint64_t>(c.buffer.size(), result_.size - asked_);
    const auto id = ask("GET", &c);
    if (!id && id.error() == Error::kFull) break;  // the session has enough to do
    if (!id && id.error() == Error::kClosed && any_chunk_busy()) break;  // it drains
    if (!id) {
      finish_local(id.error() == Error::kClosed ? FetchError::kSession : FetchError::kLocal,
                   id.error());
      break;
    }
    c.id = *id;
    c.stage = Chunk::Stage::kAsked;
    c.reachable = true;
    asked_ += c.length;
    ++work;
  }
  return work;
}

bool FetchOperation::any_chunk_busy() const noexcept {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [](const Chunk& c) { return c.stage != Chunk::Stage::kFree || c.reachable; });
}

// ---- the end ----

void FetchOperation::cancel() noexcept {
  if (stage_ == Stage::kHead || stage_ == Stage::kBody) finish(FetchError::kCancelled);
}

void FetchOperation::finish(FetchError error) noexcept {
  if (stage_ == Stage::kDone) return;
  stage_ = Stage::kDone;
  result_.error = error;
  result_.ended = now_;
  if (head_outstanding_) session_.cancel(head_id_);
  for (const Chunk& c : chunks_)
    if (c.reachable) session_.cancel(c.id);
}

void FetchOperation::finish_local(FetchError error, Error local) noexcept {
  result_.local = local;
  finish(error);
}

bool FetchOperation::finished() const noexcept {
  return stage_ == Stage::kDone && !head_outstanding_ &&
         std::none_of(chunks_.begin(), chunks_.end(), [](const Chunk& c) { return c.reachable; });
}

}  // namespace h4a::http
