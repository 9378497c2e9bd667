// What a request is about, out of its header alone: an Offer, a file, or a refusal and its status. Pure.
// Spec: RFC 9112 §3.2 (forms of the target, Host), RFC 9110 §7.4 (421), §15.5; RFC 8470 §5.1 (Early-Data).
#pragma once

#include <boost/beast/http/message.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "edge/certificate.h"

namespace h4a::edge {

using RequestHead = boost::beast::http::request_header<>;

struct Route {
  enum class Action : std::uint8_t { kOffer, kFile, kRefuse };
  Action action = Action::kRefuse;
  unsigned status = 0;          // of kRefuse
  std::string_view allow = {};  // value of the Allow header, with 405
  std::string authority = {};   // host or host:port as requested, in lower case
  std::string target = {};      // origin-form: path and query
};

/// @param offers whether Offers are taken at all; else their path is like any other without a file.
[[nodiscard]] Route route(const RequestHead& head, const Certificate& certificate, bool offers);

/// "421 Misdirected Request".
[[nodiscard]] std::string status_line(unsigned status);

}  // namespace h4a::edge
