#include "h4a/range.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>

namespace h4a {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
using Kind = RangeVerdict::Kind;

bool is_space(char c) noexcept {
  return c == ' ' || c == '\t';
}

std::string_view trim(std::string_view s) noexcept {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

/// The whole of `s` as decimal digits. What is too large for 64 bits is the largest number there
/// is.
std::optional<std::uint64_t> number(std::string_view s) noexcept {
  if (s.empty()) return std::nullopt;
  std::uint64_t v = 0;
  for (const char c : s) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    v = v > (kHuge - digit) / 10 ? kHuge : v * 10 + digit;
  }
  return v;
}

/// Takes "bytes" and `separator` off the front, whatever the case. @return false if they are not
/// there.
bool take_unit(std::string_view& s, char separator) noexcept {
  constexpr std::string_view kUnit = "bytes";
  if (s.size() <= kUnit.size() || s[kUnit.size()] != separator) return false;
  for (std::size_t i = 0; i < kUnit.size(); ++i)
    if ((s[i] | 0x20) != kUnit[i]) return false;
  s.remove_prefix(kUnit.size() + 1);
  return true;
}

/// The only element of a list, which may have empty ones beside it (RFC 9110 §5.6.1.2).
std::optional<std::string_view> only_element(std::string_view list) noexcept {
  std::optional<std::string_view> found;
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view element = trim(list.substr(0, comma));
    if (!element.empty() && found) return std::nullopt;
    if (!element.empty()) found = element;
    if (comma == std::string_view::npos) return found;
    list.remove_prefix(comma + 1);
  }
}

RangeVerdict whole(std::uint64_t size) noexcept {
  return {Kind::kWhole, {0, size}};
}

RangeVerdict suffix(std::uint64_t length, std::uint64_t size) noexcept {
  if (length == 0) return {Kind::kUnsatisfiable, {}};
  if (size == 0) return whole(size);
  const std::uint64_t n = std::min(length, size);
  return {Kind::kPartial, {size - n, n}};
}

}  // namespace

RangeVerdict parse_range(std::string_view header, std::uint64_t size) noexcept {
  std::string_view s = trim(header);
  if (!take_unit(s, '=')) return whole(size);
  const auto spec = only_element(s);
  if (!spec) return whole(size);
  const std::size_t dash = spec->find('-');
  if (dash == std::string_view::npos) return whole(size);
  const std::string_view last_text = spec->substr(dash + 1);
  if (dash == 0) {
    const auto length = number(last_text);
    return length ? suffix(*length, size) : whole(size);
  }
  const auto first = number(spec->substr(0, dash));
  const auto last = last_text.empty() ? kHuge : number(last_text);
  if (!first || !last || *last < *first) return whole(size);  // malformed: ignored
  if (*first >= size) return {Kind::kUnsatisfiable, {}};
  const std::uint64_t end = std::min(*last, size - 1);
  return {Kind::kPartial, {*first, end - *first + 1}};
}

std::string content_range(const ByteRange& range, std::uint64_t size) {
  return fmt::format("bytes {}-{}/{}", range.first, range.first + range.length - 1, size);
}

std::string content_range_unsatisfied(std::uint64_t size) {
  return fmt::format("bytes */{}", size);
}

Result<ContentRange> parse_content_range(std::string_view header) noexcept {
  std::string_view s = trim(header);
  if (!take_unit(s, ' ')) return failure(Error::kMalformed);
  const std::size_t dash = s.find('-');
  const std::size_t slash = s.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash)
    return failure(Error::kMalformed);
  const auto first = number(s.substr(0, dash));
  const auto last = number(s.substr(dash + 1, slash - dash - 1));
  const auto size = number(s.substr(slash + 1));
  if (!first || !last || !size || *last < *first || *last >= *size)
    return failure(Error::kMalformed);
  return ContentRange{{*first, *last - *first + 1}, *size};
}

}  // namespace h4a
