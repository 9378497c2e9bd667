// The Range header of a request, and the Content-Range header of its response. Pure.
//
// One range is served; a request for several gets the whole representation, which RFC 9110 §14.2
// allows. Spec: RFC 9110 §14.1.2, §14.2, §14.4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace h4a {

/// `length` octets from `first` on.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) noexcept = default;
};

struct RangeVerdict {
  enum class Kind : std::uint8_t {
    kWhole,    // 200: no range, another unit, several ranges, or a header that is not understood
    kPartial,  // 206
    kUnsatisfiable,  // 416: the range begins behind the end
  };
  Kind kind = Kind::kWhole;
  ByteRange range;  // within the representation: all of it for kWhole, empty for kUnsatisfiable
};

/// Decides what a request with `Range: header` gets of `size` octets. An empty header means none.
/// The last octets of an empty representation (`bytes=-5`) are the whole of it.
[[nodiscard]] RangeVerdict parse_range(std::string_view header, std::uint64_t size) noexcept;

/// "bytes 0-99/1000". `range` is not empty and lies within `size`.
[[nodiscard]] std::string content_range(const ByteRange& range, std::uint64_t size);
/// "bytes */1000", for 416.
[[nodiscard]] std::string content_range_unsatisfied(std::uint64_t size);

struct ContentRange {
  ByteRange range;
  std::uint64_t size = 0;
};

/// Reads "bytes 0-99/1000" of a 206 response. @return kMalformed; also for an unknown size ("*").
[[nodiscard]] Result<ContentRange> parse_content_range(std::string_view header) noexcept;

}  // namespace h4a
