// What a GET or HEAD selects of a representation: all, a part, or nothing, out of its conditional
// headers and its Range. Pure; HTTP/4A and plain HTTPS decide alike. Spec: RFC 9110 §13.1, §13.2.2
// (order of evaluation), §14.2, §5.6.7 (dates).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "h4a/range.h"

namespace h4a {

/// By what a client recognises the representation it has.
struct Validators {
  std::string etag;          // strong, with its quotes
  std::int64_t mtime_s = 0;  // seconds since 1970
};

/// Values of the request's headers, empty where absent.
struct SelectingHeaders {
  std::string_view if_match = {};
  std::string_view if_none_match = {};
  std::string_view if_modified_since = {};
  std::string_view if_unmodified_since = {};
  std::string_view if_range = {};
  std::string_view range = {};
};

struct Selection {
  unsigned status = 200;  // 200, 206, 304, 412 or 416
  ByteRange range;        // what to send: all for 200, a part for 206, nothing otherwise
};

[[nodiscard]] Selection select(const SelectingHeaders& headers, const Validators& validators,
                               std::uint64_t size) noexcept;

/// "Sun, 06 Nov 1994 08:49:37 GMT".
[[nodiscard]] std::string http_date(std::int64_t seconds);
/// Reads that form alone, the only one that may be sent. @return kMalformed.
[[nodiscard]] Result<std::int64_t> parse_http_date(std::string_view text) noexcept;

}  // namespace h4a
