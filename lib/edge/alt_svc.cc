#include "edge/alt_svc.h"

#include <charconv>
#include <fmt/format.h>

#include "h4a/bootstrap.h"

namespace h4a::edge {
namespace {

std::string_view trim(std::string_view s) noexcept {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

/// Takes what stands before the next `separator` that is not inside quotes.
std::string_view take(std::string_view& s, char separator) noexcept {
  bool quoted = false;
  std::size_t i = 0;
  for (; i < s.size(); ++i) {
    if (s[i] == '"') quoted = !quoted;
    if (!quoted && s[i] == separator) break;
  }
  const std::string_view out = trim(s.substr(0, i));
  s.remove_prefix(i < s.size() ? i + 1 : i);
  return out;
}

template <class Integer>
bool read_number(std::string_view s, Integer& out) noexcept {
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), out);
  return !s.empty() && ec == std::errc{} && end == s.data() + s.size();
}

std::string_view unquoted(std::string_view s) noexcept {
  return s.size() >= 2 && s.front() == '"' && s.back() == '"' ? s.substr(1, s.size() - 2) : s;
}

std::optional<Alternative> parse_entry(std::string_view entry) {
  const std::string_view service = take(entry, ';');
  const std::size_t equals = service.find('=');
  if (equals == std::string_view::npos || service.substr(0, equals) != "h4a") return std::nullopt;
  const std::string_view authority = unquoted(service.substr(equals + 1));
  const std::size_t colon = authority.rfind(':');
  Alternative a;
  if (colon == std::string_view::npos || !read_number(authority.substr(colon + 1), a.port) ||
      a.port == 0)
    return std::nullopt;
  if (colon > 0 && !bootstrap::is_authority(authority)) return std::nullopt;
  a.host = authority.substr(0, colon);
  while (!entry.empty()) {
    const std::string_view parameter = take(entry, ';');
    if (parameter.substr(0, 3) == "ma=" && !read_number(unquoted(parameter.substr(3)), a.max_age_s))
      return std::nullopt;
  }
  return a;
}

}  // namespace

std::string alt_svc(std::uint16_t port) {
  return fmt::format("h4a=\":{}\"; ma=86400", port);
}

std::optional<Alternative> parse_alt_svc(std::string_view header) {
  while (!header.empty())
    if (auto a = parse_entry(take(header, ','))) return a;
  return std::nullopt;
}

}  // namespace h4a::edge
