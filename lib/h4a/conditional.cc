#include "h4a/conditional.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <time.h>

namespace h4a {
namespace {

constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// Does the list of a precondition name `etag`? A weak tag matches only where `weak_too`.
/// Tags may contain commas inside their quotes, so the list is read tag by tag (RFC 9110 §8.8.3).
bool names(std::string_view list, std::string_view etag, bool weak_too) noexcept {
  std::size_t at = 0;
  while (at < list.size()) {
    const char c = list[at];
    if (c == ' ' || c == '\t' || c == ',') {
      ++at;
      continue;
    }
    if (c == '*') return true;
    const bool weak = list.substr(at, 2) == "W/";
    if (weak) at += 2;
    if (at >= list.size() || list[at] != '"') return false;  // malformed: matches nothing
    const std::size_t end = list.find('"', at + 1);
    if (end == std::string_view::npos) return false;
    if ((!weak || weak_too) && list.substr(at, end + 1 - at) == etag) return true;
    at = end + 1;
  }
  return false;
}

/// RFC 9110 §13.1.5: with a stale validator the Range is as if it were not there.
bool range_applies(std::string_view if_range, const Validators& v) noexcept {
  if (if_range.empty()) return true;
  if (if_range.front() == '"') return if_range == v.etag;
  const auto date = parse_http_date(if_range);
  return date && *date == v.mtime_s;
}

/// RFC 9110 §13.2.2, steps 1 to 4. @return 0 to go on, else the status that ends it.
unsigned precondition(const SelectingHeaders& h, const Validators& v) noexcept {
  if (!h.if_match.empty()) {
    if (!names(h.if_match, v.etag, false)) return 412;
  } else if (const auto since = parse_http_date(h.if_unmodified_since)) {
    if (v.mtime_s > *since) return 412;
  }
  if (!h.if_none_match.empty()) return names(h.if_none_match, v.etag, true) ? 304 : 0;
  const auto since = parse_http_date(h.if_modified_since);
  return since && v.mtime_s <= *since ? 304 : 0;
}

bool read_number(std::string_view s, int& out) noexcept {
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), out);
  return ec == std::errc{} && end == s.data() + s.size() && s.front() != '-';
}

}  // namespace

Selection select(const SelectingHeaders& headers, const Validators& validators,
                 std::uint64_t size) noexcept {
  if (const unsigned status = precondition(headers, validators)) return {status, {}};
  if (!range_applies(headers.if_range, validators)) return {200, {0, size}};
  const RangeVerdict verdict = parse_range(headers.range, size);
  switch (verdict.kind) {
    case RangeVerdict::Kind::kWhole:
      return {200, verdict.range};
    case RangeVerdict::Kind::kPartial:
      return {206, verdict.range};
    case RangeVerdict::Kind::kUnsatisfiable:
      return {416, {}};
  }
  return {200, {0, size}};
}

std::string http_date(std::int64_t seconds) {
  const time_t t = seconds;
  struct tm tm = {};
  if (gmtime_r(&t, &tm) == nullptr) return http_date(0);  // a year beyond 2^31
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(tm.tm_wday)], tm.tm_mday,
                     kMonths[static_cast<std::size_t>(tm.tm_mon)], tm.tm_year + 1900, tm.tm_hour,
                     tm.tm_min, tm.tm_sec);
}

Result<std::int64_t> parse_http_date(std::string_view text) noexcept {
  //  Sun, 06 Nov 1994 08:49:37 GMT
  //  0    5  8   12   17 20 23 26
  if (text.size() != 29 || text.substr(3, 2) != ", " || text.substr(25) != " GMT" ||
      text[7] != ' ' || text[11] != ' ' || text[16] != ' ' || text[19] != ':' || text[22] != ':')
    return failure(Error::kMalformed);
  const auto month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  struct tm tm = {};
  if (month == kMonths.end() || !read_number(text.substr(5, 2), tm.tm_mday) ||
      !read_number(text.substr(12, 4), tm.tm_year) ||
      !read_number(text.substr(17, 2), tm.tm_hour) || !read_number(text.substr(20, 2), tm.tm_min) ||
      !read_number(text.substr(23, 2), tm.tm_sec))
    return failure(Error::kMalformed);
  if (tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
    return failure(Error::kMalformed);
  tm.tm_mon = static_cast<int>(month - kMonths.begin());
  tm.tm_year -= 1900;
  return static_cast<std::int64_t>(timegm(&tm));
}

}  // namespace h4a
