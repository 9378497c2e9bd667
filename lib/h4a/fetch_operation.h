// FetchOperation: one file over one session: HEAD for its size and version, then ranged GETs into a few
// registered buffers at a time, handed to the application in order.
//
// Every GET names the version that HEAD saw (If-Match with a strong ETag, else If-Unmodified-Since), and
// every answer must be exactly the range that was asked for, so a file that changes meanwhile ends the
// fetch and is never mixed (RFC 9110 §13.1.1, §13.1.4, §14.4).
//
// Thread: the one that polls the session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "h4a/client_session.h"
#include "h4a/registered_buffer.h"

namespace h4a::http {

/// Where an earlier fetch of the same file got to, to go on from there in another session. Without an ETag
/// or date nothing tells that it is the same file: the fetch ends with kChanged then.
struct FetchResume {
  std::uint64_t offset = 0;  // what was delivered
  std::uint64_t size = 0;
  std::string etag;
  std::string last_modified;
};

struct FetchOptions {
  std::string scheme = "https";
  std::string authority;
  std::string path = "/";
  /// More header fields for every request, for example Authorization.
  std::vector<std::pair<std::string, std::string>> headers;
  std::uint64_t chunk_bytes = std::uint64_t{16} << 20;  // a GET asks for at most this
  std::uint32_t chunks_in_flight = 4;
  Duration request_timeout = Duration::s(30);  // of the HEAD and of each GET
  std::optional<FetchResume> resume;           // the sink is not told the head again
};

/// What HEAD said. Text is borrowed for the call.
struct FetchHead {
  std::uint16_t status = 0;
  std::uint64_t size = 0;
  std::string_view etag;
  std::string_view last_modified;
  std::string_view content_type;
  HeaderFields headers;
};

/// Takes the file. An Error ends the fetch with kSink and that error.
class FetchSink {
 public:
  virtual ~FetchSink() = default;
  /// Once, before any data, if the status is 200.
  [[nodiscard]] virtual Result<void> on_head(const FetchHead& head) noexcept = 0;
  /// The next bytes of the file, without gaps. Borrowed for the call.
  [[nodiscard]] virtual Result<void> on_data(std::uint64_t offset, Bytes data) noexcept = 0;
};

enum class FetchError : std::uint8_t {
  kNone,
  kStatus,       // the server answered with another status: result().status
  kTimeout,      // a request passed its deadline
  kSession,      // the session ended: Session::error()
  kChanged,      // the file changed while it was fetched
  kBadResponse,  // the server answered something else than was asked for
  kTooLarge,     // the server does not know ranges and the file is larger than a chunk
  kSink,         // the application's sink refused: result().local
  kCancelled,
  kLocal,  // memory or the session refused: result().local
};
[[nodiscard]] std::string_view to_string(FetchError e) noexcept;

struct FetchResult {
  FetchError error = FetchError::kNone;
  Error local = Error::kInvalidArgument;  // with kSink and kLocal
  std::uint16_t status = 0;               // of the last response that decided
  std::uint64_t size = 0;                 // of the file
  std::uint64_t delivered_bytes = 0;      // given to the sink, by earlier fetches too
  std::uint64_t requests = 0;
  std::uint64_t inline_bytes = 0;
  std::string etag;
  std::string last_modified;
  Instant started;
  Instant ended;
};

class FetchOperation final : private ResponseListener {
 public:
  /// Both must outlive the operation.
  FetchOperation(ClientSession& session, FetchSink& sink, FetchOptions options);
  /// If it is not finished(), aborts the session: nothing else makes the buffers safe.
  ~FetchOperation() override;
  FetchOperation(const FetchOperation&) = delete;
  FetchOperation& operator=(const FetchOperation&) = delete;

  /// Sends the HEAD. The session is confirming or open. @return kInvalidState if called before.
  [[nodiscard]] Result<void> start(Instant now) noexcept;
  /// Call it after each poll() of the session. @return things done.
  std::size_t poll(Instant now) noexcept;
  void cancel() noexcept;
  /// Complete or failed, and no buffer is reachable any more.
  [[nodiscard]] bool finished() const noexcept;
  [[nodiscard]] bool succeeded() const noexcept {
    return finished() && result_.error == FetchError::kNone;
  }
  [[nodiscard]] const FetchResult& result() const noexcept { return result_; }
  [[nodiscard]] static constexpr Protocol protocol() noexcept { return Protocol::kH4a; }

 private:
  enum class Stage : std::uint8_t { kIdle, kHead, kBody, kDone };
  struct Chunk {
    enum class Stage : std::uint8_t { kFree, kAsked, kArrived };
    Stage stage = Stage::kFree;
    RequestId id;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool reachable = false;  // the peer may still write into the buffer
    RegisteredBuffer buffer;
  };

  void on_response(RequestId id, const Response& response) noexcept override;
  void on_sink_released(RequestId id) noexcept override;
  void on_head_response(const Response& response) noexcept;
  void on_chunk_response(Chunk& c, const Response& response) noexcept;
  [[nodiscard]] bool take_outcome(const Response& response) noexcept;
  [[nodiscard]] FetchError judge(const Chunk& c, const Response& response) const noexcept;
  void begin_body() noexcept;
  [[nodiscard]] Result<RequestId> ask(std::string_view method, const Chunk* chunk) noexcept;
  [[nodiscard]] std::size_t ask_more() noexcept;
  [[nodiscard]] std::size_t deliver() noexcept;
  [[nodiscard]] bool any_chunk_busy() const noexcept;
  [[nodiscard]] bool is_what_was_begun() const noexcept;
  void finish(FetchError error) noexcept;
  void finish_local(FetchError error, Error local) noexcept;

  ClientSession& session_;
  FetchSink& sink_;
  FetchOptions options_;
  FetchResult result_;
  Stage stage_ = Stage::kIdle;
  RequestId head_id_;
  bool head_outstanding_ = false;
  bool ranges_ = false;
  std::uint64_t asked_ = 0;  // bytes asked for so far
  std::vector<Chunk> chunks_;
  Instant now_;
};

}  // namespace h4a::http
