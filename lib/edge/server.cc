#include "edge/server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <thread>
#include <utility>

#include "edge/connection.h"

namespace h4a::edge {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

asio::ip::address to_asio(const IpAddress& a) noexcept {
  if (!a.is_v4()) return asio::ip::address_v6(a.bytes());
  const Bytes b = a.wire_bytes();
  return asio::ip::address_v4(asio::ip::address_v4::bytes_type{b[0], b[1], b[2], b[3]});
}

std::string endpoint(const IpAddress& a, std::uint16_t port) {
  return a.is_v4() ? fmt::format("{}:{}", to_string(a), port)
                   : fmt::format("[{}]:{}", to_string(a), port);
}

std::string openssl_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return reason != nullptr ? reason : "unknown reason";
}

/// HTTP/1.1, or whatever a client that does not ask for a protocol speaks. Spec: RFC 7301 §3.2.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_length,
                    const unsigned char* in, unsigned in_length, void*) noexcept {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_length, kOurs, sizeof(kOurs) - 1, in, in_length);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// An encrypted key is an error, never a prompt on the terminal of a server.
int no_password(char*, int, int, void*) noexcept {
  return -1;
}

void harden(SSL_CTX* tls) {
  SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
  SSL_CTX_set_options(tls, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_max_early_data(tls, 0);  // an Offer must not be replayable (RFC 8446 §8)
  SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
  static constexpr unsigned char kId[] = "h4a";
  SSL_CTX_set_session_id_context(tls, kId, sizeof(kId) - 1);
  SSL_CTX_set_alpn_select_cb(tls, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(tls, no_password);
}

/// @return an empty text, or what is wrong with the certificate, the key or the client authorities.
std::string set_up_tls(Site& site) {
  const ServerOptions& o = site.options;
  harden(site.tls.native_handle());
  error_code ec;
  site.tls.use_certificate_chain(asio::buffer(o.certificate_pem), ec);
  if (ec) return "the certificate chain cannot be used: " + ec.message();
  site.tls.use_private_key(asio::buffer(o.private_key_pem), asio::ssl::context::pem, ec);
  if (ec) {
    const std::string reason = openssl_reason();
    return fmt::format(
        "the private key cannot be used: {}; it has to be an unencrypted PEM key that "
        "belongs to the certificate",
        reason == "unknown reason" ? ec.message() : reason);
  }
  if (SSL_CTX_check_private_key(site.tls.native_handle()) != 1)
    return "the private key does not belong to the certificate";
  if (o.client_ca_pem.empty()) return {};
  site.tls.add_certificate_authority(asio::buffer(o.client_ca_pem), ec);
  if (ec) return "the authorities of client certificates cannot be used: " + ec.message();
  const int require = o.require_client_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(site.tls.native_handle(), SSL_VERIFY_PEER | require, nullptr);
  return {};
}

Failure listen_failure(const error_code& ec, const std::string& where) {
  if (ec == asio::error::address_in_use)
    return {Error::kExists,
            fmt::format("another program listens on {}: stop it or choose another port", where)};
  if (ec == asio::error::access_denied)
    return {
        Error::kAccess,
        fmt::format("may not listen on {}: ports below 1024 need privileges; choose another port",
                    where)};
  if (ec == boost::system::errc::address_not_available)
    return {
        Error::kNotFound,
        fmt::format("cannot listen on {}: no interface of this machine has that address", where)};
  return {Error::kIo, fmt::format("cannot listen on {}: {}", where, ec.message())};
}

}  // namespace

class EdgeServer::Impl : public std::enable_shared_from_this<EdgeServer::Impl> {
 public:
  explicit Impl(std::shared_ptr<Site> site)
      : site_(std::move(site)), acceptor_(site_->io), pause_(site_->io) {}

  Outcome<void> listen();
  void run();
  void stop();
  [[nodiscard]] const Site& site() const noexcept { return *site_; }

 private:
  void accept();
  void on_accepted(error_code ec, tcp::socket socket);
  void admit(tcp::socket&& socket);

  std::shared_ptr<Site> site_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::thread thread_;
};

Outcome<void> EdgeServer::Impl::listen() {
  const ServerOptions& o = site_->options;
  const tcp::endpoint at(to_asio(o.address), o.port);
  error_code ec;
  acceptor_.open(at.protocol(), ec);
  if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && at.address().is_v6())
    acceptor_.set_option(asio::ip::v6_only(!o.address.is_unspecified()), ec);
  if (!ec) acceptor_.bind(at, ec);
  if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return tl::unexpected(listen_failure(ec, endpoint(o.address, o.port)));
  site_->port = acceptor_.local_endpoint(ec).port();
  return {};
}

void EdgeServer::Impl::run() {
  accept();
  thread_ = std::thread([site = site_] { site->io.run(); });
}

/// The thread ends by itself once nothing is outstanding.
void EdgeServer::Impl::stop() {
  asio::post(site_->io, [self = shared_from_this()] {
    error_code ignored;
    self->acceptor_.close(ignored);
    self->pause_.cancel();
    // close() only cancels: no connection goes away, and no set changes, before this function ends.
    for (Connection* c : self->site_->connections) c->close();
  });
  if (thread_.joinable()) thread_.join();
}

void EdgeServer::Impl::accept() {
  acceptor_.async_accept([self = shared_from_this()](error_code ec, tcp::socket socket) {
    self->on_accepted(ec, std::move(socket));
  });
}

void EdgeServer::Impl::on_accepted(error_code ec, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (!ec) {
    admit(std::move(socket));
    return accept();
  }
  // Out of descriptors, or the client has gone: go on, but do not spin.
  pause_.expires_after(std::chrono::milliseconds(50));
  pause_.async_wait([self = shared_from_this()](error_code e) {
    if (!e && self->acceptor_.is_open()) self->accept();
  });
}

void EdgeServer::Impl::admit(tcp::socket&& socket) {
  error_code ec;
  const tcp::endpoint peer = socket.remote_endpoint(ec);
  if (ec) return;
  const IpAddress source = to_address(peer.address());
  const ServerLimits& limits = site_->options.limits;
  const auto found = site_->by_source.find(source_key(source));
  const std::size_t of_source = found == site_->by_source.end() ? 0 : found->second;
  if (site_->connections.size() >= limits.connections ||
      of_source >= limits.connections_per_source) {
    ++site_->count.refused_connections;
    return;  // the socket closes
  }
  ++site_->count.connections;
  socket.set_option(tcp::no_delay(true), ec);
  std::make_shared<Connection>(std::move(socket), site_, source, peer.port())->run();
}

Outcome<std::unique_ptr<EdgeServer>> EdgeServer::start(ServerOptions options) {
  auto certificate = Certificate::from_pem(options.certificate_pem);
  if (!certificate) return tl::unexpected(std::move(certificate.error()));
  auto site = std::make_shared<Site>(std::move(options), std::move(*certificate));
  if (std::string wrong = set_up_tls(*site); !wrong.empty())
    return fail_with(Error::kInvalidArgument, std::move(wrong));
  auto impl = std::make_shared<Impl>(std::move(site));
  if (auto listening = impl->listen(); !listening) return tl::unexpected(listening.error());
  impl->run();
  return std::unique_ptr<EdgeServer>(new EdgeServer(std::move(impl)));
}

EdgeServer::EdgeServer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

EdgeServer::~EdgeServer() {
  impl_->stop();
}

std::uint16_t EdgeServer::port() const noexcept {
  return impl_->site().port;
}

ServerCounters EdgeServer::counters() const noexcept {
  const auto& c = impl_->site().count;
  return {c.connections,     c.refused_connections, c.failed_handshakes, c.requests,
          c.offers_answered, c.offers_refused,      c.timeouts};
}

std::size_t EdgeServer::open_connections() const noexcept {
  return impl_->site().count.open;
}

}  // namespace h4a::edge
