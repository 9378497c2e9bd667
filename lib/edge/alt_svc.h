// The Alt-Svc header by which an origin says that it speaks HTTP/4A. Pure. Spec: RFC 7838 §3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace h4a::edge {

struct Alternative {
  std::string host;  // empty: that of the origin
  std::uint16_t port = 0;
  std::uint64_t max_age_s = 86400;
};

/// `h4a=":8443"; ma=86400`.
[[nodiscard]] std::string alt_svc(std::uint16_t port);

/// The first h4a alternative of a header's value; nothing if there is none, or for "clear". Alternatives of
/// other protocols, unknown parameters and malformed entries are skipped.
[[nodiscard]] std::optional<Alternative> parse_alt_svc(std::string_view header);

}  // namespace h4a::edge
