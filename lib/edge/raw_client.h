// For tests: a TLS client that sends any octets it is told to, over a plain socket. It verifies nothing.
#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace h4a::edge::test {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, bool with_tls = true, int tls_version = 0,
                     const std::string& alpn = {}) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    const struct timeval patience = {10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    struct sockaddr_in a = {};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = ::connect(fd_, reinterpret_cast<struct sockaddr*>(&a), sizeof(a)) == 0;
    if (connected && with_tls) handshake(tls_version, alpn);
  }
  ~RawClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(const std::string& text) {
    const int n = static_cast<int>(text.size());
    return ssl_ != nullptr ? SSL_write(ssl_, text.data(), n) == n
                           : ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == n;
  }
  /// One read. Empty at the end, whatever ended it.
  std::string receive() {
    char buffer[65536];
    const long n = ssl_ != nullptr ? SSL_read(ssl_, buffer, sizeof(buffer))
                                   : ::recv(fd_, buffer, sizeof(buffer), 0);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
  }
  /// All until the server ends the connection.
  std::string receive_all() {
    std::string all;
    for (std::string part = receive(); !part.empty(); part = receive()) all += part;
    return all;
  }
  /// A response with a Content-Length, its body included; what else arrived is lost.
  std::string receive_response() {
    std::string all;
    while (all.find("\r\n\r\n") == std::string::npos) {
      const std::string part = receive();
      if (part.empty()) return all;
      all += part;
    }
    const std::size_t body = all.find("\r\n\r\n") + 4;
    const std::size_t at = all.find("Content-Length: ");
    const std::size_t length = at < body ? std::stoul(all.substr(at + 16)) : 0;
    while (all.size() < body + length) {
      const std::string part = receive();
      if (part.empty()) break;
      all += part;
    }
    return all;
  }
  void end_sending() { ::shutdown(fd_, SHUT_WR); }

  bool connected = false;
  bool secured = false;
  std::string protocol;  // of ALPN

 private:
  void handshake(int tls_version, const std::string& alpn) {
    context_ = SSL_CTX_new(TLS_client_method());
    if (tls_version != 0) {
      SSL_CTX_set_min_proto_version(context_, tls_version);
      SSL_CTX_set_max_proto_version(context_, tls_version);
      SSL_CTX_set_security_level(context_, 0);  // lets old versions try at all
    }
    ssl_ = SSL_new(context_);
    if (!alpn.empty())
      SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(alpn.data()),
                          static_cast<unsigned>(alpn.size()));
    SSL_set_fd(ssl_, fd_);
    secured = SSL_connect(ssl_) == 1;
    const unsigned char* chosen = nullptr;
    unsigned n = 0;
    SSL_get0_alpn_selected(ssl_, &chosen, &n);
    if (n > 0) protocol.assign(reinterpret_cast<const char*>(chosen), n);
  }

  int fd_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
};

}  // namespace h4a::edge::test
