// The HTTPS side of a server: it takes Offers for HTTP/4A sessions, and serves the same files to whoever
// speaks plain HTTPS. HTTP/1.1 over TLS 1.2 or 1.3, without early data, compression or renegotiation.
//
//   POST /.well-known/h4a   → the OfferQueue; the stack's thread answers
//   GET, HEAD               → a file below the root, with ranges and preconditions
//
// It runs in one thread of its own and never calls into the stack. What a client sends is bounded in size,
// time and number: the header, the body, connections in all and from one source, half-open sessions.
// Spec: RFC 9110, RFC 9112, RFC 7838; DESIGN §6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/time.h"
#include "edge/half_open.h"
#include "edge/offer_queue.h"
#include "edge/outcome.h"
#include "h4a/file_source.h"

namespace h4a::edge {

struct ServerLimits {
  std::size_t connections = 1024;
  std::size_t connections_per_source = 64;    // an IPv4 address or IPv6 /64
  std::size_t header_bytes = 16384;           // more: 431
  HalfOpenLimits half_open;                   // more: 429
  Duration header_timeout = Duration::s(10);  // TLS handshake; a request's header; its body
  Duration idle_timeout = Duration::s(30);    // between requests; a write that makes no progress
  Duration answer_timeout = Duration::s(3);   // for the stack to answer an Offer; then 503
  Duration linger = Duration::s(1);  // for the client to read an error before the connection ends
};

/// One finished request, for a log line.
struct RequestRecord {
  IpAddress source;
  std::string_view method;
  std::string_view target;
  unsigned status = 0;
  std::uint64_t body_bytes = 0;  // sent
};

struct ServerOptions {
  IpAddress address;            // :: takes IPv4 too
  std::uint16_t port = 0;       // 0: one that is free, see EdgeServer::port()
  std::string certificate_pem;  // the server's certificate, then its chain
  std::string private_key_pem;
  std::string client_ca_pem;  // not empty: client certificates by these authorities are checked
  bool require_client_certificate = false;
  std::shared_ptr<const FileRoot> root;  // nullptr: no files, 404
  OfferQueue* offers = nullptr;          // nullptr: plain HTTPS only. Outlives the server
  ServerLimits limits;
  /// Called in the server's thread after each response. May be empty.
  std::function<void(const RequestRecord&)> on_request;
};

struct ServerCounters {
  std::uint64_t connections = 0;
  std::uint64_t refused_connections = 0;  // over a limit
  std::uint64_t failed_handshakes = 0;
  std::uint64_t requests = 0;         // with a complete header
  std::uint64_t offers_answered = 0;  // 200
  std::uint64_t offers_refused = 0;   // any other status
  std::uint64_t timeouts = 0;
};

class EdgeServer {
 public:
  /// Listens and starts the thread. @return kInvalidArgument (certificate and key do not fit, …), kAccess,
  /// kExists (address in use), kNotFound (no such address here), kIo; each with a text that says what to do.
  [[nodiscard]] static Outcome<std::unique_ptr<EdgeServer>> start(ServerOptions options);

  /// Ends all connections and the thread. Offers that wait are abandoned.
  ~EdgeServer();
  EdgeServer(const EdgeServer&) = delete;
  EdgeServer& operator=(const EdgeServer&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Any thread.
  [[nodiscard]] ServerCounters counters() const noexcept;
  /// Connections open now. Any thread.
  [[nodiscard]] std::size_t open_connections() const noexcept;

 private:
  class Impl;
  explicit EdgeServer(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

}  // namespace h4a::edge
