// Responses that end early, wherever and however: they are never taken for whole. And TLS that does not come
// about: the reason is told, and a certificate is blamed only where one is to blame.
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

#include "edge/certificate.h"
#include "edge/client.h"

#include "test/test_support.h"

namespace h4a::edge {
namespace {

/// How the connection ends behind the script's octets.
enum class End : std::uint8_t {
  kCloseNotify,  // as TLS wants it
  kFin,          // TCP alone: what somebody on the path can do as well
};

/// Takes one connection, reads a request, and answers what the script says.
class ScriptedServer {
 public:
  struct Script {
    std::string answer;
    End end = End::kCloseNotify;
    bool tls = true;
    bool wants_certificate = false;
    int version_max = 0;
  };
  ScriptedServer(const PemPair& pem, Script script)
      : script_(std::move(script)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    struct sockaddr_in a = {};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(a);
    if (bind(listener_, reinterpret_cast<struct sockaddr*>(&a), n) != 0 ||
        listen(listener_, 8) != 0 ||
        getsockname(listener_, reinterpret_cast<struct sockaddr*>(&a), &n) != 0)
      fail_msg("cannot listen");
    port = ntohs(a.sin_port);
    thread_ = std::thread([this, pem] { serve(pem); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  [[nodiscard]] std::string url() const {
    return "https://127.0.0.1:" + std::to_string(port) + "/file";
  }
  std::uint16_t port = 0;

 private:
  void serve(const PemPair& pem) {
    const int fd = ::accept(listener_, nullptr, nullptr);
    if (fd < 0) return;
    const struct timeval patience = {5, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (!script_.tls) {
      char hello[4096];  // unread, it would make the end a reset
      static_cast<void>(::recv(fd, hello, sizeof(hello), 0));
      static_cast<void>(::send(fd, script_.answer.data(), script_.answer.size(), MSG_NOSIGNAL));
    } else {
      talk_tls(fd, pem);
      // What the client still sends, left unread, would make the end a reset, and hide the alert.
      char rest[4096];
      ::shutdown(fd, SHUT_WR);
      while (::recv(fd, rest, sizeof(rest), 0) > 0) {
      }
    }
    ::close(fd);
  }
  void talk_tls(int fd, const PemPair& pem) {
    SSL_CTX* context = SSL_CTX_new(TLS_server_method());
    BIO* text = BIO_new_mem_buf(pem.certificate.data(), static_cast<int>(pem.certificate.size()));
    X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    text = BIO_new_mem_buf(pem.private_key.data(), static_cast<int>(pem.private_key.size()));
    EVP_PKEY* key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
    BIO_free(text);
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (script_.wants_certificate)
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    if (script_.version_max != 0) {
      SSL_CTX_set_max_proto_version(context, script_.version_max);
      SSL_CTX_set_security_level(context, 0);
    }
    SSL* ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    char request[4096];
    if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof(request)) > 0) {
      if (!script_.answer.empty())
        SSL_write(ssl, script_.answer.data(), static_cast<int>(script_.answer.size()));
      if (script_.end == End::kCloseNotify) SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
  }

  Script script_;
  int listener_;
  std::thread thread_;
};

const PemPair& identity() {
  static const PemPair pem = *make_self_signed({"127.0.0.1"});
  return pem;
}

struct Got {
  Outcome<FetchResult> fetched = fail_with(Error::kInvalidState, "not fetched");
  std::string body;
};

EdgeClient client() {
  ClientOptions o;
  o.ca_pem = identity().certificate;
  o.connect_timeout = Duration::s(5);
  o.stall_timeout = Duration::s(5);
  return std::move(*EdgeClient::create(std::move(o)));
}

Got fetch(const ScriptedServer& server) {
  Got got;
  Fetch f;
  f.url = server.url();
  f.on_body = [&](Bytes b) { return got.body.append(b.begin(), b.end()), true; };
  EdgeClient c = client();
  got.fetched = c.fetch(f);
  return got;
}

void a_response_is_whole_or_an_error(void**) {
  const struct {
    const char* answer;
    End end;
    bool whole;
  } rows[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", End::kCloseNotify, true},
      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", End::kFin, true},
      {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody", End::kCloseNotify, true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", End::kFin,
       true},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", End::kFin,
       true},
      // In the body, its length known.
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", End::kFin, false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", End::kCloseNotify, false},
      // In the body, its length told by the end of the connection alone.
      {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody", End::kFin, false},
      {"HTTP/1.1 200 OK\r\n\r\nbody", End::kFin, false},
      {"HTTP/1.1 200 OK\r\n\r\n", End::kFin, false},
      {"HTTP/1.0 200 OK\r\n\r\nbody", End::kFin, false},
      // In a chunk, between chunks, before the last.
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbo", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", End::kCloseNotify,
       false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n", End::kCloseNotify,
       false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", End::kFin, false},
      // In the header.
      {"", End::kCloseNotify, false},
      {"", End::kFin, false},
      {"HTTP/1.1", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\n", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\n", End::kFin, false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 4", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", End::kCloseNotify, false},
      {"HTTP/1.1 200 OK\r\nConnection: close\r\n", End::kCloseNotify, false},
      {"HTTP/1.1 100 Continue\r\n\r\n", End::kCloseNotify, false},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", End::kCloseNotify, false},
  };
  for (const auto& row : rows) {
    const ScriptedServer server(identity(), {.answer = row.answer, .end = row.end});
    const Got got = fetch(server);
    if (row.whole) {
      if (!got.fetched) fail_msg("%s: %s", row.answer, got.fetched.error().text.c_str());
      assert_int_equal(got.fetched->head.status, 200);
      assert_string_equal(got.body.c_str(), "body");
    } else {
      if (got.fetched) fail_msg("taken for whole: %s", row.answer);
      if (got.fetched.error().code != Error::kClosed && got.fetched.error().code != Error::kIo)
        fail_msg("%s: %s", row.answer, got.fetched.error().text.c_str());
    }
  }
}

void an_answer_cut_short_is_no_answer(void**) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.h4a.answer\r\n";
  for (const char* const tail : {"", "Content-Length: 9\r\n\r\nAns", "Content-Length: 9\r\n",
                                 "Transfer-Encoding: chunked\r\n\r\n3\r\nAns\r\n"}) {
    const ScriptedServer server(identity(), {.answer = head + tail});
    EdgeClient c = client();
    const std::vector<std::uint8_t> offer{1, 2, 3};
    const auto answer = c.post_offer(*parse_url(server.url()), offer);
    assert_false(answer.has_value());
    assert_true(answer.error().code == Error::kClosed);
  }
}

void tls_that_fails_has_its_reason(void**) {
  const struct {
    ScriptedServer::Script script;
    Error code;
    const char* text;
  } rows[] = {
      {{.answer = "HTTP/1.1 400 Bad Request\r\n\r\n", .tls = false}, Error::kIo, "no TLS with"},
      {{.answer = std::string("\x16\x03\x03\xff\xff", 5), .tls = false}, Error::kIo, "no TLS with"},
      {{.answer = std::string("\x15\x03\x03\x00\x02\x02\x28", 7), .tls = false},
       Error::kIo,
       "alert"},
      {{.answer = "", .tls = false}, Error::kIo, "no TLS with"},
      {{.answer = "", .version_max = TLS1_1_VERSION}, Error::kIo, "no TLS with"},
      {{.answer = "", .wants_certificate = true}, Error::kAuthentication, "client certificate"},
      // TLS 1.2 has no alert for it: the handshake fails, and nothing says why.
      {{.answer = "", .wants_certificate = true, .version_max = TLS1_2_VERSION},
       Error::kIo,
       "alert handshake failure"},
  };
  for (const auto& row : rows) {
    const ScriptedServer server(identity(), row.script);
    const Got got = fetch(server);
    assert_false(got.fetched.has_value());
    const Failure& f = got.fetched.error();
    if (f.code != row.code || f.text.find(row.text) == std::string::npos)
      fail_msg("wanted \"%s\": %s, %s", row.text, std::string(to_string(f.code)).c_str(),
               f.text.c_str());
  }
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_response_is_whole_or_an_error),
      cmocka_unit_test(an_answer_cut_short_is_no_answer),
      cmocka_unit_test(tls_that_fails_has_its_reason),
  };
  return cmocka_run_group_tests_name("cut_short", tests, nullptr, nullptr);
}
