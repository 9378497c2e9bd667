// The HTTPS side of a client: it POSTs Offers, and fetches over plain HTTPS where HTTP/4A is not to be had.
//
// Certificates are always verified, against the system's authorities or those the caller names; there is no
// way to turn that off. One client keeps its connection, so an Offer and a later fetch share a TLS session.
// Spec: RFC 9110, RFC 7838 §2.1; DESIGN §6.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/time.h"
#include "edge/outcome.h"

namespace h4a::edge {

/// An https URL in its parts.
struct Url {
  std::string scheme;  // "https"
  std::string host;    // without brackets
  std::uint16_t port = 443;
  std::string authority;  // host, or host:port unless 443; IPv6 in brackets; in lower case
  std::string target;     // path and query, begins with '/'
};

/// @return kInvalidArgument with a text that shows what a right one looks like.
[[nodiscard]] Outcome<Url> parse_url(const std::string& text);

/// The last segment of the URL's path, percent-decoded; "index.html" if that is empty. Never has a '/' and is
/// never "." or "..", so it is safe as a file name.
[[nodiscard]] std::string file_name_of(const Url& url);

/// What `host` (a name or an address) resolves to. @return kNotFound.
[[nodiscard]] Outcome<std::vector<IpAddress>> resolve(const std::string& host);

struct ClientOptions {
  std::string ca_file;  // PEM; trusted instead of the system's authorities
  std::string ca_pem;   // the same as text; also a self-signed server certificate itself
  std::string client_certificate_file;  // PEM, for mTLS; with client_key_file
  std::string client_key_file;
  std::vector<std::string>
      headers;  // "Name: value", sent with every request (Authorization, Cookie)
  Duration connect_timeout = Duration::s(10);
  Duration offer_timeout = Duration::s(10);  // for the whole POST
  Duration stall_timeout = Duration::s(30);  // a fetch ends if nothing arrives for so long
};

struct OfferResult {
  std::vector<std::uint8_t> answer;  // octets of the body: what the key schedule hashes
  IpAddress server_address;          // that the TLS connection went to
};

/// What is known of a response once its header is complete.
struct ResponseHead {
  unsigned status = 0;
  std::string protocol;              // "HTTP/1.1", "HTTP/2"
  std::int64_t content_length = -1;  // -1: not stated
  std::string content_type;
  std::string content_range;
  std::string etag;
  std::string location;  // of a redirection, which is not followed
  std::string alt_svc;
};

struct Fetch {
  std::string url;
  bool head_only = false;
  std::string range;  // value of the Range header; empty: all
  std::vector<std::string> headers;
  Duration deadline;  // for all of it; zero: none
  /// Before the first octet of a 200 or 206 body, also if there is no body. @return false to stop.
  std::function<bool(const ResponseHead&)> on_head;
  /// Octets of a 200 or 206 body, in order. @return false to stop (the disk is full, …).
  std::function<bool(Bytes)> on_body;
  /// A few times a second at least: octets received, and in all (-1: unknown). @return false to stop.
  std::function<bool(std::uint64_t, std::int64_t)> on_progress;
};

struct FetchResult {
  ResponseHead head;  // the caller looks at head.status: 404 is a result, not a failure
  std::uint64_t body_bytes = 0;
  IpAddress server_address;
};

/// Thread: one at a time.
class EdgeClient {
 public:
  /// @return kInvalidArgument (a file of `options` cannot be read), kNoMemory.
  [[nodiscard]] static Outcome<EdgeClient> create(ClientOptions options);
  EdgeClient(EdgeClient&&) noexcept;
  EdgeClient& operator=(EdgeClient&&) noexcept;
  ~EdgeClient();

  /// POSTs an Offer to the authority of `url`. @return
  /// kUnsupported: the server speaks plain HTTPS only (404, 405) or has nothing in common (409);
  /// kBusy: 429, 503; kAuthentication: certificate, 401, 403, 421; kNotFound: no such host;
  /// kClosed: nothing listens, connection lost; kTimeout; kMalformed: another answer than an Answer.
  /// @param wanted asked about once a second while it waits; false stops it, with kClosed.
  [[nodiscard]] Outcome<OfferResult> post_offer(const Url& url, Bytes offer,
                                                std::function<bool()> wanted = {});

  /// Fetches over plain HTTPS. @return as above for what went wrong below HTTP; kClosed also if a callback
  /// stopped it.
  [[nodiscard]] Outcome<FetchResult> fetch(const Fetch& fetch);

 private:
  struct Impl;
  explicit EdgeClient(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace h4a::edge
