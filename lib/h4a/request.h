// Requests: what is asked for, and where the body of the answer may be placed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "h4a/headers.h"
#include "verbs/types.h"

namespace h4a::http {

/// Chosen by the client session; never used twice in it.
using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;

/// The head of a request (RFC 9110 §9, §7.2). Borrows its text.
struct RequestHead {
  std::string_view method = "GET";
  std::string_view scheme = "https";
  std::string_view authority;
  std::string_view path = "/";  // path and query
  HeaderFields headers;
};

/// Application memory that a response's body may be placed in (DESIGN §7, push mode). Empty: the body
/// must come inline.
struct SinkBuffer {
  void* address = nullptr;
  std::uint64_t length = 0;
  /// The region that holds [address, address + length), registered in the session's PD with
  /// kLocalWrite | kWindowBind and no remote right: see RegisteredBuffer.
  verbs::MrId region;
};

}  // namespace h4a::http
