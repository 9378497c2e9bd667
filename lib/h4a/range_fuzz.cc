// Range, Content-Range, preconditions, dates and paths: what comes out lies within the
// representation, and no path leaves the root. The first 8 octets are the size; the rest is the
// header.
#include <string_view>

#include "base/assert.h"
#include "base/bytes.h"
#include "h4a/file_source.h"

namespace {

void check_within(const h4a::ByteRange& r, std::uint64_t size) {
  H4A_ASSERT(r.first <= size);
  H4A_ASSERT(r.length <= size - r.first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  const std::uint64_t length = h4a::load_be<8>(data);
  const std::string_view text(reinterpret_cast<const char*>(data + 8), size - 8);
  check_within(h4a::parse_range(text, length).range, length);
  if (const auto c = h4a::parse_content_range(text)) check_within(c->range, c->size);
  const h4a::Validators validators{"\"abc\"", 784111777};
  check_within(h4a::select({text, text, text, text, text, text}, validators, length).range, length);
  check_within(h4a::select({{}, {}, {}, {}, {}, text}, validators, length).range, length);
  if (const auto date = h4a::parse_http_date(text))
    H4A_ASSERT(h4a::parse_http_date(h4a::http_date(*date)) == date);
  if (const auto path = h4a::path_below_root(text)) {
    H4A_ASSERT(!path->empty());
    H4A_ASSERT(path->front() != '/');
    H4A_ASSERT(path->find('\0') == std::string::npos);
    H4A_ASSERT(("/" + *path + "/").find("/../") == std::string::npos);
  }
  return 0;
}
