#include "h4a/response.h"

namespace h4a::http {

std::string_view to_string(Protocol p) noexcept {
  return p == Protocol::kH4a ? "h4a" : "https";
}

std::string_view to_string(Outcome o) noexcept {
  switch (o) {
    case Outcome::kResponse:
      return "response";
    case Outcome::kTimeout:
      return "deadline passed";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kSessionFailed:
      return "session failed";
  }
  return "unknown outcome";
}

}  // namespace h4a::http
