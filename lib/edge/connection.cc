#include "edge/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <chrono>
#include <sys/time.h>
#include <utility>

#include "edge/alt_svc.h"
#include "h4a/bootstrap.h"

namespace h4a::edge {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr std::size_t kDrainMaxBytes = 1024 * 1024;

std::chrono::nanoseconds chrono(Duration d) noexcept {
  return std::chrono::nanoseconds(d.count_ns());
}

std::string now_as_http_date() {
  struct timeval now = {};
  gettimeofday(&now, nullptr);
  return http_date(now.tv_sec);
}

std::string subject_of_peer(SSL* ssl) {
  X509* x = SSL_get1_peer_certificate(ssl);
  if (x == nullptr) return {};
  BIO* bio = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(bio, X509_get_subject_name(x), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(n));
  BIO_free(bio);
  X509_free(x);
  return out;
}

unsigned status_of(Error e) noexcept {
  switch (e) {
    case Error::kMalformed:
      return 400;
    case Error::kNotFound:
      return 404;
    case Error::kAccess:
      return 403;
    case Error::kNoMemory:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

IpAddress to_address(const asio::ip::address& a) noexcept {
  if (a.is_v4()) return IpAddress::load_v4(a.to_v4().to_bytes().data());
  return IpAddress::load_v6(a.to_v6().to_bytes().data());  // v4-mapped is how IPv4 is kept anyway
}

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<Site> site, IpAddress source,
                       std::uint16_t source_port)
    : site_(std::move(site)),
      source_(source),
      source_port_(source_port),
      stream_(beast::tcp_stream(std::move(socket)), site_->tls),
      buffer_(site_->options.limits.header_bytes + 2 * kPieceBytes),
      timer_(site_->io) {
  site_->connections.insert(this);
  ++site_->by_source[source_key(source_)];
  ++site_->count.open;
}

Connection::~Connection() {
  site_->connections.erase(this);
  const auto found = site_->by_source.find(source_key(source_));
  if (--found->second == 0) site_->by_source.erase(found);
  --site_->count.open;
  if (ticket_) ticket_->abandon();
}

void Connection::run() {
  expire_after(site_->options.limits.header_timeout);
  stream_.async_handshake(asio::ssl::stream_base::server,
                          beast::bind_front_handler(&Connection::on_handshake, shared_from_this()));
}

void Connection::close() noexcept {
  timer_.cancel();
  beast::get_lowest_layer(stream_).close();
}

void Connection::expire_after(Duration d) {
  beast::get_lowest_layer(stream_).expires_after(chrono(d));
}

bool Connection::failed(error_code ec) noexcept {
  if (ec == beast::error::timeout) ++site_->count.timeouts;
  return static_cast<bool>(ec);
}

void Connection::on_handshake(error_code ec) {
  if (failed(ec)) {
    ++site_->count.failed_handshakes;
    return;
  }
  client_subject_ = subject_of_peer(stream_.native_handle());
  next_request();
}

// ---- reading a request ----

void Connection::next_request() {
  const ServerLimits& limits = site_->options.limits;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  parser_->body_limit(bootstrap::kMessageMaxBytes);
  expire_after(std::exchange(first_, false) ? limits.header_timeout : limits.idle_timeout);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](error_code ec, std::size_t) { self->on_header(ec); });
}

unsigned Connection::status_of(error_code ec) noexcept {
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) return 431;
  if (ec == http::error::body_limit) return 413;
  if (ec == http::error::end_of_stream || ec == http::error::partial_message) return 0;
  const bool is_http = ec.category() == make_error_code(http::error::bad_target).category();
  return is_http ? 400 : 0;
}

void Connection::on_header(error_code ec) {
  head_only_ = false;
  keep_alive_ = false;
  if (ec == http::error::end_of_stream) return shut_down();
  if (failed(ec)) {
    const unsigned status = status_of(ec);
    return status != 0 ? refuse(status) : void();
  }
  ++site_->count.requests;
  const auto& head = parser_->get();
  head_only_ = head.method() == http::verb::head;
  route_ = route(head, site_->certificate, site_->options.offers != nullptr);
  if (route_.action == Route::Action::kRefuse) {
    if (head.target() == bootstrap::kPath) ++site_->count.offers_refused;
    return refuse(route_.status, route_.allow);
  }
  keep_alive_ = head.keep_alive() && head.version() == 11;
  if (parser_->is_done() || !beast::iequals(head[http::field::expect], "100-continue"))
    return read_body();
  response_ = SmallResponse(http::status::continue_, 11);
  http::async_write(stream_, response_, [self = shared_from_this()](error_code e, std::size_t) {
    self->on_continue_sent(e);
  });
}

void Connection::on_continue_sent(error_code ec) {
  if (!failed(ec)) read_body();
}

void Connection::read_body() {
  expire_after(site_->options.limits.header_timeout);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](error_code ec, std::size_t) { self->on_body(ec); });
}

void Connection::on_body(error_code ec) {
  if (failed(ec)) {
    const unsigned status = status_of(ec);
    return status != 0 ? refuse(status) : void();
  }
  return route_.action == Route::Action::kOffer ? offer() : file();
}

std::string_view Connection::field(http::field name) const {
  const auto v = parser_->get()[name];
  return {v.data(), v.size()};
}

// ---- offers ----

AuthInfo Connection::auth_info() const {
  AuthInfo a;
  a.source = source_;
  a.source_port = source_port_;
  a.authority = route_.authority;
  a.client_subject = client_subject_;
  a.authorization = field(http::field::authorization);
  a.cookie = field(http::field::cookie);
  a.half_open = half_open_;
  a.authorities.push_back(route_.authority);
  // The certificate's other names, at the port that the client used: another port is another origin.
  const auto requested = split_authority(route_.authority);
  for (const std::string& host : site_->certificate.hosts()) {
    const std::string name =
        requested->port == 443 ? host : host + ":" + std::to_string(requested->port);
    if (a.authorities.size() < bootstrap::kAuthoritiesMax && name != route_.authority)
      a.authorities.push_back(name);
  }
  return a;
}

void Connection::offer() {
  half_open_ = site_->half_open.admit(
      source_,
      identity_key(client_subject_, field(http::field::authorization), field(http::field::cookie)),
      steady_now());
  if (!half_open_) {
    ++site_->count.offers_refused;
    return respond(429, {}, {});
  }
  // The answer comes from another thread, perhaps after this connection or even the server has ended: the
  // site keeps the executor alive, the connection is looked up only in its own thread.
  auto done = [site = site_, weak = weak_from_this(),
               number = ++offer_number_](OfferReply&& reply) {
    asio::post(site->io, [weak, number, r = std::move(reply)]() mutable {
      if (const auto self = weak.lock()) self->on_reply(number, std::move(r));
    });
  };
  ticket_ = site_->options.offers->push(std::move(parser_->get().body()), auth_info(), done);
  if (!ticket_) return answer(OfferReply{});
  timer_.expires_after(chrono(site_->options.limits.answer_timeout));
  timer_.async_wait(beast::bind_front_handler(&Connection::on_answer_timeout, shared_from_this()));
}

void Connection::on_reply(std::uint64_t number, OfferReply&& reply) {
  if (!ticket_ || number != offer_number_) return;  // too late: 503 was sent
  ticket_.reset();
  timer_.cancel();
  answer(std::move(reply));
}

void Connection::on_answer_timeout(error_code ec) {
  if (ec || !ticket_) return;
  std::exchange(ticket_, nullptr)->abandon();
  ++site_->count.timeouts;
  answer(OfferReply{});
}

void Connection::answer(OfferReply&& reply) {
  if (reply.status == 200) {
    ++site_->count.offers_answered;
    return respond(200, std::move(reply.answer), bootstrap::kAnswerMediaType);
  }
  half_open_->leave();  // there is no session
  ++site_->count.offers_refused;
  respond(reply.status, {}, {});
}

// ---- files ----

SelectingHeaders Connection::selecting_headers() const {
  return {field(http::field::if_match),
          field(http::field::if_none_match),
          field(http::field::if_modified_since),
          field(http::field::if_unmodified_since),
          field(http::field::if_range),
          head_only_ ? std::string_view{} : field(http::field::range)};
}

void Connection::file() {
  if (!site_->options.root) return respond(404, {}, {});
  auto opened = site_->options.root->open_target(route_.target);
  if (!opened) return respond(edge::status_of(opened.error()), {}, {});
  file_.emplace(std::move(*opened));
  const Selection s = select(selecting_headers(), file_->validators(), file_->size());
  send_head(s.status, s.range);
}

void Connection::send_head(unsigned status, const ByteRange& range) {
  file_head_ = FileHead(static_cast<http::status>(status), 11);
  set_common_fields(file_head_);
  file_head_.set(http::field::etag, file_->validators().etag);
  file_head_.set(http::field::last_modified, http_date(file_->validators().mtime_s));
  file_head_.set(http::field::accept_ranges, "bytes");
  if (status == 206)
    file_head_.set(http::field::content_range, content_range(range, file_->size()));
  if (status == 416)
    file_head_.set(http::field::content_range, content_range_unsatisfied(file_->size()));
  if (status == 200 || status == 206) {
    const auto type = file_->content_type();
    file_head_.set(http::field::content_type, {type.data(), type.size()});
  }
  if (status != 304) file_head_.content_length(range.length);
  file_head_.keep_alive(keep_alive_);
  left_ = head_only_ ? ByteRange{} : range;
  sent_bytes_ = 0;
  serializer_.emplace(file_head_);
  expire_after(site_->options.limits.idle_timeout);
  http::async_write_header(
      stream_, *serializer_,
      [self = shared_from_this()](error_code ec, std::size_t) { self->on_head_sent(ec); });
}

void Connection::on_head_sent(error_code ec) {
  if (!failed(ec)) send_piece();
}

void Connection::send_piece() {
  if (left_.length == 0) {
    file_.reset();
    finished(file_head_.result_int(), sent_bytes_);
    return keep_alive_ ? next_request() : shut_down();
  }
  piece_.resize(std::min<std::uint64_t>(kPieceBytes, left_.length));
  const auto n = file_->read(left_.first, piece_);
  // Cut short meanwhile: the promised length cannot be kept, so the connection ends without close_notify.
  if (!n || *n < piece_.size()) return close();
  left_.first += *n;
  left_.length -= *n;
  sent_bytes_ += *n;
  expire_after(site_->options.limits.idle_timeout);
  asio::async_write(
      stream_, asio::buffer(piece_),
      [self = shared_from_this()](error_code ec, std::size_t) { self->on_piece_sent(ec); });
}

void Connection::on_piece_sent(error_code ec) {
  if (!failed(ec)) send_piece();
}

// ---- responses without a file ----

void Connection::set_common_fields(http::fields& f) const {
  f.set(http::field::date, now_as_http_date());
  f.set(http::field::server, "h4a");
  f.set("X-Content-Type-Options", "nosniff");
  if (site_->options.offers != nullptr) f.set(http::field::alt_svc, alt_svc(site_->port));
}

void Connection::refuse(unsigned status, std::string_view allow) {
  keep_alive_ = false;
  respond(status, {}, {}, allow);
}

void Connection::respond(unsigned status, std::vector<std::uint8_t> body,
                         std::string_view content_type, std::string_view allow) {
  response_ = SmallResponse(static_cast<http::status>(status), 11);
  set_common_fields(response_);
  response_.set(http::field::cache_control, "no-store");
  if (!allow.empty()) response_.set(http::field::allow, {allow.data(), allow.size()});
  if (status == 429 || status == 503) response_.set(http::field::retry_after, "5");
  if (content_type.empty()) {  // a line for whoever looks at it
    const std::string line = status_line(status) + "\n";
    body.assign(line.begin(), line.end());
    content_type = "text/plain; charset=utf-8";
  }
  response_.set(http::field::content_type, {content_type.data(), content_type.size()});
  response_.content_length(body.size());
  if (!head_only_) response_.body() = std::move(body);
  response_.keep_alive(keep_alive_);
  expire_after(site_->options.limits.idle_timeout);
  http::async_write(stream_, response_, [self = shared_from_this()](error_code ec, std::size_t) {
    self->on_response_sent(ec);
  });
}

void Connection::on_response_sent(error_code ec) {
  if (failed(ec)) return;
  finished(response_.result_int(), response_.body().size());
  keep_alive_ ? next_request() : drain();
}

void Connection::finished(unsigned status, std::uint64_t body_bytes) {
  if (!site_->options.on_request) return;
  const auto& head = parser_->get();
  const auto method = head.method_string();
  const auto target = head.target();
  site_->options.on_request({source_,
                             {method.data(), method.size()},
                             {target.data(), target.size()},
                             status,
                             body_bytes});
}

// ---- the end ----

/// Reads what the client still sends, for a moment: closing with unread data makes TCP send a reset, which
/// may overtake the response (RFC 9112 §9.6).
void Connection::drain() {
  expire_after(site_->options.limits.linger);
  piece_.resize(kPieceBytes);
  drained_bytes_ = 0;
  if (parser_ && parser_->is_done()) return shut_down();
  stream_.async_read_some(asio::buffer(piece_),
                          beast::bind_front_handler(&Connection::on_drained, shared_from_this()));
}

void Connection::on_drained(error_code ec, std::size_t n) {
  drained_bytes_ += n;
  if (ec == beast::error::timeout) return;  // the stream is closed then
  if (ec || drained_bytes_ > kDrainMaxBytes) return shut_down();
  stream_.async_read_some(asio::buffer(piece_),
                          beast::bind_front_handler(&Connection::on_drained, shared_from_this()));
}

void Connection::shut_down() {
  expire_after(site_->options.limits.linger);
  stream_.async_shutdown([self = shared_from_this()](error_code) { self->close(); });
}

}  // namespace h4a::edge
