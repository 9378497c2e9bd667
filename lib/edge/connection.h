// One client's connection to the EdgeServer: TLS, then requests one after the other. Internal to lib/edge.
//
// Each step starts one operation and names the next, so the object lives as long as an operation of it is
// outstanding. Every operation has a deadline. All of it runs in the server's thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "edge/certificate.h"
#include "edge/half_open.h"
#include "edge/routes.h"
#include "edge/server.h"

namespace h4a::edge {

class Connection;

/// What all connections of one server share. Only the server's thread touches it, counters aside.
struct Site {
  Site(ServerOptions&& o, Certificate&& c)
      : options(std::move(o)), certificate(std::move(c)), half_open(options.limits.half_open) {}

  boost::asio::io_context io{1};
  boost::asio::ssl::context tls{boost::asio::ssl::context::tls_server};
  ServerOptions options;
  Certificate certificate;
  HalfOpenLimiter half_open;
  std::uint16_t port = 0;
  boost::unordered_flat_set<Connection*> connections;
  boost::unordered_flat_map<IpAddress, std::size_t, std::hash<IpAddress>> by_source;

  struct {
    std::atomic<std::uint64_t> connections{0}, refused_connections{0}, failed_handshakes{0},
        requests{0}, offers_answered{0}, offers_refused{0}, timeouts{0};
    std::atomic<std::size_t> open{0};
  } count;
};

[[nodiscard]] IpAddress to_address(const boost::asio::ip::address& a) noexcept;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<Site> site, IpAddress source,
             std::uint16_t source_port);
  ~Connection();

  void run();
  /// Ends it at once, whatever it waits for.
  void close() noexcept;

 private:
  using error_code = boost::system::error_code;
  using SmallResponse = boost::beast::http::response<boost::beast::http::vector_body<std::uint8_t>>;
  using FileHead = boost::beast::http::response<boost::beast::http::empty_body>;

  void on_handshake(error_code ec);
  void next_request();
  void on_header(error_code ec);
  void on_continue_sent(error_code ec);
  void read_body();
  void on_body(error_code ec);

  void offer();
  [[nodiscard]] AuthInfo auth_info() const;
  void on_reply(std::uint64_t number, OfferReply&& reply);
  void on_answer_timeout(error_code ec);
  void answer(OfferReply&& reply);

  void file();
  [[nodiscard]] SelectingHeaders selecting_headers() const;
  void send_head(unsigned status, const ByteRange& range);
  void on_head_sent(error_code ec);
  void send_piece();
  void on_piece_sent(error_code ec);

  /// Answers with `status` and ends the connection, since the rest of the request was not read.
  void refuse(unsigned status, std::string_view allow = {});
  void respond(unsigned status, std::vector<std::uint8_t> body, std::string_view content_type,
               std::string_view allow = {});
  void on_response_sent(error_code ec);
  void finished(unsigned status, std::uint64_t body_bytes);

  void drain();
  void on_drained(error_code ec, std::size_t n);
  void shut_down();

  void expire_after(Duration d);
  /// Counts a timeout. @return true if `ec` ends the connection.
  [[nodiscard]] bool failed(error_code ec) noexcept;
  /// The status by which to refuse what could not be read, 0 if the connection is just gone.
  [[nodiscard]] static unsigned status_of(error_code ec) noexcept;
  void set_common_fields(boost::beast::http::fields& f) const;
  [[nodiscard]] std::string_view field(boost::beast::http::field name) const;

  std::shared_ptr<Site> site_;
  IpAddress source_;
  std::uint16_t source_port_;
  boost::beast::ssl_stream<boost::beast::tcp_stream> stream_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer timer_;
  std::string client_subject_;
  bool first_ = true;

  // of the request at hand
  std::optional<boost::beast::http::request_parser<boost::beast::http::vector_body<std::uint8_t>>>
      parser_;
  Route route_;
  bool head_only_ = false;
  bool keep_alive_ = false;
  std::shared_ptr<OfferQueue::Ticket> ticket_;  // set while an answer is awaited
  std::shared_ptr<HalfOpenPlace> half_open_;    // of the last offer
  std::uint64_t offer_number_ = 0;              // tells a late answer from the one awaited
  SmallResponse response_;
  FileHead file_head_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::empty_body>>
      serializer_;
  std::optional<File> file_;
  ByteRange left_;  // of the file, still to be sent
  std::uint64_t sent_bytes_ = 0;
  std::size_t drained_bytes_ = 0;
  std::vector<std::uint8_t> piece_;
};

}  // namespace h4a::edge
