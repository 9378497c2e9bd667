// Handler: what a server does with a request. The session does the rest: placing, inlining, revoking.
#pragma once

#include <cstdint>
#include <string_view>

#include "h4a/body_source.h"
#include "h4a/headers.h"
#include "h4a/request.h"

namespace h4a::http {

/// What the handler fills in. `status` is 200..599; Content-Length is the handler's to add.
struct ServerResponse {
  std::uint16_t status = 200;
  HeaderList headers;
  BodyPtr body;  // none for HEAD, 304 and empty bodies
};

class Handler {
 public:
  virtual ~Handler() = default;
  /// Whether this server speaks for that authority; if not, the client gets 421 (RFC 9110 §15.5.20).
  [[nodiscard]] virtual bool serves(std::string_view scheme, std::string_view authority) noexcept {
    static_cast<void>(scheme);
    static_cast<void>(authority);
    return true;
  }
  /// Answers a GET or HEAD at once. The head is borrowed for the call. `response.headers` is empty.
  virtual void handle(const RequestHead& head, ServerResponse& response) noexcept = 0;
};

}  // namespace h4a::http
