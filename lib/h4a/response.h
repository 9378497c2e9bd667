// Responses as a client sees them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "h4a/headers.h"
#include "h4a/request.h"

namespace h4a::http {

/// What carried a response (DESIGN §6.6).
enum class Protocol : std::uint8_t { kH4a, kHttps };
[[nodiscard]] std::string_view to_string(Protocol p) noexcept;

/// How a request ended.
enum class Outcome : std::uint8_t {
  kResponse,       // the server answered: status, headers and body hold
  kTimeout,        // the deadline passed first
  kCancelled,      // cancel() came first
  kRefused,        // the server ends the session and has not processed the request
  kSessionFailed,  // the session ended: see Session::error()
};
[[nodiscard]] std::string_view to_string(Outcome o) noexcept;

/// Borrowed for the time of the callback; a body that lies in the sink stays there.
struct Response {
  Outcome outcome = Outcome::kResponse;
  std::uint16_t status = 0;  // RFC 9110 §15
  HeaderFields headers;
  /// The body: the first bytes of the sink if the request had one, else bytes borrowed from the session.
  Bytes body;
  /// False if the body did not fit the sink: nothing was placed, and `body_length` bytes are needed.
  bool body_sent = true;
  /// Bytes of the body the server has for this request.
  std::uint64_t body_length = 0;
  /// False only if it is certain that the server did not act on the request.
  bool maybe_processed = true;

  [[nodiscard]] static constexpr Protocol protocol() noexcept { return Protocol::kH4a; }
};

/// Is told what became of the requests given to ClientSession. Called from Session::poll() and abort().
/// It may submit and cancel requests, but not poll or destroy the session.
class ResponseListener {
 public:
  virtual ~ResponseListener() = default;
  /// Exactly once for each request.
  virtual void on_response(RequestId id, const Response& response) noexcept = 0;
  /// Exactly once for each request, with on_response or after it: from now on no peer can reach the sink,
  /// and it may be reused (DESIGN D4). Never before that.
  virtual void on_sink_released(RequestId id) noexcept { static_cast<void>(id); }
};

}  // namespace h4a::http
