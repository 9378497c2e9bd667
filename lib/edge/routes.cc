#include "edge/routes.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/status.hpp>
#include <fmt/format.h>

#include "h4a/bootstrap.h"

namespace h4a::edge {
namespace {

namespace http = boost::beast::http;
using Action = Route::Action;

Route refuse(unsigned status, std::string_view allow = {}) {
  Route r;
  r.status = status;
  r.allow = allow;
  return r;
}

std::string_view value(const RequestHead& head, http::field name) {
  const auto v = head[name];
  return {v.data(), v.size()};
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Fills authority and target. @return false if they contradict RFC 9112 §3.2.
bool read_target(const RequestHead& head, Route& r) {
  const auto hosts = head.equal_range(http::field::host);
  const auto count = std::distance(hosts.first, hosts.second);
  if (count > 1 || (count == 0 && head.version() >= 11)) return false;
  std::string_view authority = value(head, http::field::host);
  std::string_view target{head.target().data(), head.target().size()};
  constexpr std::string_view kScheme = "https://";
  if (lower(target.substr(0, kScheme.size())) == kScheme) {  // absolute-form: Host is ignored
    target.remove_prefix(kScheme.size());
    const std::size_t slash = target.find('/');
    authority = target.substr(0, slash);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  if (target.empty() || target.front() != '/' || !bootstrap::is_authority(authority)) return false;
  r.authority = lower(authority);
  r.target = target;
  return true;
}

/// No form and no script of another site can send an Offer: its media type is not one that browsers send
/// unasked, and the question (OPTIONS) is answered with 405.
Route check_offer(const RequestHead& head, Route&& r) {
  if (head.method() != http::verb::post) return refuse(405, "POST");
  if (head["Early-Data"] == "1") return refuse(425);
  if (head.find(http::field::content_encoding) != head.end() ||
      lower(value(head, http::field::content_type)) != bootstrap::kOfferMediaType)
    return refuse(415);
  r.action = Action::kOffer;
  return std::move(r);
}

}  // namespace

Route route(const RequestHead& head, const Certificate& certificate, bool offers) {
  Route r;
  if (head.version() != 10 && head.version() != 11) return refuse(505);
  if (!read_target(head, r)) return refuse(400);
  const auto authority = split_authority(r.authority);
  if (!authority) return refuse(400);
  if (!certificate.covers(authority->host)) return refuse(421);
  const std::string_view path = std::string_view(r.target).substr(0, r.target.find('?'));
  if (path == bootstrap::kPath) return offers ? check_offer(head, std::move(r)) : refuse(404);
  if (head.method() != http::verb::get && head.method() != http::verb::head)
    return refuse(405, "GET, HEAD");
  r.action = Action::kFile;
  return r;
}

std::string status_line(unsigned status) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  return fmt::format("{} {}", status, std::string_view(reason.data(), reason.size()));
}

}  // namespace h4a::edge
