#include "edge/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <curl/curl.h>
#include <fmt/format.h>
#include <mutex>
#include <netdb.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "edge/certificate.h"
#include "h4a/bootstrap.h"

namespace h4a::edge {
namespace {

struct FreeUrl {
  void operator()(CURLU* u) const noexcept { curl_url_cleanup(u); }
};
struct FreeEasy {
  void operator()(CURL* c) const noexcept { curl_easy_cleanup(c); }
};
struct FreeList {
  void operator()(curl_slist* l) const noexcept { curl_slist_free_all(l); }
};
using UrlHandle = std::unique_ptr<CURLU, FreeUrl>;
using List = std::unique_ptr<curl_slist, FreeList>;

std::string url_part(CURLU* u, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(u, part, &text, flags) != CURLUE_OK) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

std::string lower(std::string s) {
  for (char& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return s;
}

bool iequals(std::string_view a, std::string_view b) {
  return lower(std::string(a)) == lower(std::string(b));
}

void append(List& list, const std::string& header) {
  curl_slist* grown = curl_slist_append(list.get(), header.c_str());
  if (grown == nullptr) return;
  static_cast<void>(list.release());
  list.reset(grown);
}

/// curl_global_init is not safe to run twice at once.
void init_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

/// What to do about a certificate that did not verify.
std::string certificate_advice(long verify_result, const std::string& host) {
  switch (verify_result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "it has expired: the server needs a new one (or this machine's clock is wrong)";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "it is not valid yet: check the clocks of both machines";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "it is self-signed: pass the server's certificate as the CA file to trust it";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "no trusted authority signed it: pass that authority's certificate as the CA file";
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED:  // libcurl compares names before it asks OpenSSL for its verdict
      return fmt::format("it does not name {}: use a name that it lists, or have it issued anew",
                         host);
    default:
      return X509_verify_cert_error_string(verify_result);
  }
}

/// Where a flag hangs on a TLS context, to be set when the server says close_notify.
int close_notify_index() {
  static const int kIndex =
      CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, nullptr, nullptr, nullptr, nullptr);
  return kIndex;
}

void on_tls_event(const SSL* ssl, int where, int value) {
  if (where != SSL_CB_READ_ALERT || (value & 0xff) != SSL_AD_CLOSE_NOTIFY) return;
  void* const seen = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), close_notify_index());
  if (seen != nullptr) *static_cast<bool*>(seen) = true;
}

/// Somebody on the path can end a TCP connection, but cannot say close_notify; libcurl takes the one for the
/// other. So we look for it ourselves.
CURLcode watch_close_notify(CURL*, void* context, void* seen) {
  SSL_CTX_set_ex_data(static_cast<SSL_CTX*>(context), close_notify_index(), seen);
  SSL_CTX_set_info_callback(static_cast<SSL_CTX*>(context), &on_tls_event);
  return CURLE_OK;
}

/// Whether a TLS alert of the server is about the certificate that we showed, or did not show.
bool is_about_our_certificate(std::string_view detail) {
  return detail.find("alert") != std::string_view::npos &&
         (detail.find("certificate") != std::string_view::npos ||
          detail.find("unknown ca") != std::string_view::npos);
}

}  // namespace

Outcome<Url> parse_url(const std::string& text) {
  const auto bad = [&](std::string_view why) {
    return fail_with(Error::kInvalidArgument,
                     fmt::format("{}: {}; a URL looks like https://host:8443/path", text, why));
  };
  const UrlHandle u(curl_url());
  if (!u) return fail_with(Error::kNoMemory, "out of memory");
  const CURLUcode code =
      curl_url_set(u.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME);
  if (code != CURLUE_OK) return bad(lower(curl_url_strerror(code)));
  Url out;
  out.scheme = url_part(u.get(), CURLUPART_SCHEME);
  if (out.scheme != "https") return bad("only https is spoken here");
  if (!url_part(u.get(), CURLUPART_USER).empty()) return bad("no user or password in it, please");
  const std::string host = lower(url_part(u.get(), CURLUPART_HOST));
  const auto port = std::stoul("0" + url_part(u.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
  out.authority = port == 443 ? host : fmt::format("{}:{}", host, port);
  const auto split = split_authority(out.authority);
  if (!split) return bad("no such host name");
  out.host = split->host;
  out.port = split->port;
  out.target = url_part(u.get(), CURLUPART_PATH);
  const std::string query = url_part(u.get(), CURLUPART_QUERY);
  if (!query.empty()) out.target += "?" + query;
  return out;
}

std::string file_name_of(const Url& url) {
  const std::string path = url.target.substr(0, url.target.find('?'));
  const std::string last = path.substr(path.rfind('/') + 1);
  int n = 0;
  char* decoded = curl_easy_unescape(nullptr, last.c_str(), static_cast<int>(last.size()), &n);
  std::string out = decoded != nullptr ? std::string(decoded, static_cast<std::size_t>(n)) : last;
  curl_free(decoded);
  for (char& c : out)
    if (c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  if (out.empty() || out == "." || out == "..") return "index.html";
  return out;
}

Outcome<std::vector<IpAddress>> resolve(const std::string& host) {
  if (const auto literal = IpAddress::parse(host)) return std::vector<IpAddress>{*literal};
  struct addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  struct addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  std::vector<IpAddress> out;
  for (const struct addrinfo* a = list; code == 0 && a != nullptr; a = a->ai_next) {
    std::array<char, 64> text{};
    if (getnameinfo(a->ai_addr, a->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    const std::string_view with_zone(text.data());
    if (const auto ip = IpAddress::parse(with_zone.substr(0, with_zone.find('%'))))
      out.push_back(*ip);
  }
  if (list != nullptr) freeaddrinfo(list);
  if (out.empty())
    return fail_with(Error::kNotFound, fmt::format("{} does not resolve: {}; check the name", host,
                                                   code != 0 ? gai_strerror(code) : "no address"));
  return out;
}

// ---- EdgeClient ----

struct EdgeClient::Impl {
  ClientOptions options;
  std::unique_ptr<CURL, FreeEasy> curl;
  std::array<char, CURL_ERROR_SIZE> error{};

  // of the transfer at hand
  const Fetch* fetch = nullptr;
  ResponseHead head;
  bool head_complete = false;  // its last line, the empty one, is here
  bool chunked = false;
  bool close_notify = false;  // the server said that it sends nothing more
  bool head_told = false;
  bool stopped = false;  // a callback returned false
  std::uint64_t body_bytes = 0;
  std::vector<std::uint8_t> collected;  // of an Offer's response

  void prepare(const std::string& url, const std::string& host, curl_slist* headers);
  [[nodiscard]] List request_headers(const std::vector<std::string>& more) const;
  void watch_progress();
  /// @return CURLE_PARTIAL_FILE also for a response that ended early without libcurl's noticing.
  [[nodiscard]] CURLcode perform();
  [[nodiscard]] Failure failure_of(CURLcode code, const std::string& host) const;
  [[nodiscard]] IpAddress server_address() const;
  [[nodiscard]] bool wants_body() const noexcept {
    return head.status == 200 || head.status == 206;
  }
  bool tell_head();
  void read_header(std::string_view line);

  static std::size_t on_header(char* data, std::size_t size, std::size_t n, void* self);
  static std::size_t on_fetched(char* data, std::size_t size, std::size_t n, void* self);
  static std::size_t on_collected(char* data, std::size_t size, std::size_t n, void* self);
  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t);
};

void EdgeClient::Impl::prepare(const std::string& url, const std::string& host,
                               curl_slist* headers) {
  CURL* c = curl.get();
  curl_easy_reset(c);  // options only; connections stay
  error[0] = '\0';
  head = {};
  head_complete = chunked = close_notify = head_told = stopped = false;
  body_bytes = 0;
  collected.clear();
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error.data());
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "h4a");
  curl_easy_setopt(c, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(c, CURLOPT_SSL_CTX_FUNCTION, &watch_close_notify);
  curl_easy_setopt(c, CURLOPT_SSL_CTX_DATA, &close_notify);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, options.connect_timeout.count_ns() / 1'000'000);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, &Impl::on_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, this);
  if (!options.ca_file.empty()) curl_easy_setopt(c, CURLOPT_CAINFO, options.ca_file.c_str());
  if (!options.ca_pem.empty()) {
    struct curl_blob blob = {options.ca_pem.data(), options.ca_pem.size(), CURL_BLOB_NOCOPY};
    curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (!options.client_certificate_file.empty()) {
    curl_easy_setopt(c, CURLOPT_SSLCERT, options.client_certificate_file.c_str());
    curl_easy_setopt(c, CURLOPT_SSLKEY, options.client_key_file.c_str());
  }
  // A proxy of the environment cannot reach this machine's own servers under these names.
  const auto ip = IpAddress::parse(host);
  if (host == "localhost" || (ip && (ip->wire_bytes()[0] == 127 || to_string(*ip) == "::1")))
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
}

List EdgeClient::Impl::request_headers(const std::vector<std::string>& more) const {
  List list;
  for (const std::string& h : options.headers) append(list, h);
  for (const std::string& h : more) append(list, h);
  return list;
}

void EdgeClient::Impl::watch_progress() {
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &Impl::on_progress);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, this);
}

// libcurl takes a header that the connection's end cut short for a whole one, and any end of the connection
// for that of a body whose length nothing else tells (RFC 9112 §8, §9.8).
CURLcode EdgeClient::Impl::perform() {
  const CURLcode code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_off_t length = -1;
  curl_easy_getinfo(curl.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  const bool body = (status == 200 || status == 206) && !(fetch != nullptr && fetch->head_only);
  const bool ends_with_connection =
      body && length < 0 && !chunked && head.protocol.substr(0, 6) == "HTTP/1";
  const bool whole = head_complete && status >= 200 && (!ends_with_connection || close_notify);
  return code == CURLE_OK && !whole ? CURLE_PARTIAL_FILE : code;
}

IpAddress EdgeClient::Impl::server_address() const {
  char* text = nullptr;
  curl_easy_getinfo(curl.get(), CURLINFO_PRIMARY_IP, &text);
  const auto ip = IpAddress::parse(text != nullptr ? text : "");
  return ip ? *ip : IpAddress{};
}

Failure EdgeClient::Impl::failure_of(CURLcode code, const std::string& where) const {
  const std::string detail = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {Error::kNotFound, fmt::format("{} does not resolve; check the name", where)};
    case CURLE_COULDNT_CONNECT: {
      long err = 0;
      curl_easy_getinfo(curl.get(), CURLINFO_OS_ERRNO, &err);
      if (err == ECONNREFUSED)
        return {Error::kClosed, fmt::format("nothing listens on {}: is the server running, and on "
                                            "that port?",
                                            where)};
      return {Error::kClosed,
              fmt::format("cannot connect to {}: {}", where,
                          err != 0 ? std::strerror(static_cast<int>(err)) : detail)};
    }
    case CURLE_OPERATION_TIMEDOUT:
      return {Error::kTimeout, fmt::format("{} did not answer in time: {}", where, detail)};
    case CURLE_PEER_FAILED_VERIFICATION: {
      long verify = 0;
      curl_easy_getinfo(curl.get(), CURLINFO_SSL_VERIFYRESULT, &verify);
      return {Error::kAuthentication,
              fmt::format("the certificate of {} is refused: {}", where,
                          certificate_advice(verify, where.substr(0, where.rfind(':'))))};
    }
    case CURLE_SSL_CACERT_BADFILE:
      return {Error::kInvalidArgument,
              fmt::format("the CA file cannot be used: {}",
                          options.ca_file.empty() ? "no certificate in it" : options.ca_file)};
    case CURLE_SSL_CONNECT_ERROR:
      if (is_about_our_certificate(detail)) break;
      return {Error::kIo, fmt::format("no TLS with {}: {}; is HTTPS spoken there?", where, detail)};
    case CURLE_SSL_CERTPROBLEM:
      return {Error::kInvalidArgument,
              fmt::format("the client certificate cannot be used: {}", detail)};
    case CURLE_WRITE_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
      if (stopped) return {Error::kClosed, "stopped"};
      return {Error::kMalformed, fmt::format("the response of {} is too long", where)};
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:  // in TLS 1.3 the server looks at our certificate after the handshake
      if (is_about_our_certificate(detail)) break;
      return {Error::kClosed, fmt::format("{} closed the connection early: {}", where, detail)};
    default:
      return {Error::kIo, fmt::format("{}: {}", where, detail)};
  }
  return {Error::kAuthentication,
          fmt::format("{} wants a client certificate that it trusts: {}", where, detail)};
}

void EdgeClient::Impl::read_header(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.substr(0, 5) == "HTTP/") {  // each response begins anew, also after 100 (Continue)
    head = {};
    head.protocol = line.substr(0, line.find(' '));
    head_complete = chunked = false;
    return;
  }
  head_complete = head_complete || line.empty();  // trailers may follow
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  chunked = chunked || iequals(line.substr(0, colon), "transfer-encoding");
  const std::pair<std::string_view, std::string*> wanted[] = {
      {"content-type", &head.content_type},
      {"content-range", &head.content_range},
      {"etag", &head.etag},
      {"location", &head.location},
      {"alt-svc", &head.alt_svc},
  };
  for (const auto& [name, to] : wanted)
    if (iequals(line.substr(0, colon), name)) *to = value;
}

std::size_t EdgeClient::Impl::on_header(char* data, std::size_t size, std::size_t n, void* self) {
  static_cast<Impl*>(self)->read_header({data, size * n});
  return size * n;
}

/// Once, when the body begins or the response ends without one.
bool EdgeClient::Impl::tell_head() {
  if (head_told) return true;
  head_told = true;
  long status = 0;
  curl_off_t length = -1;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  head.status = static_cast<unsigned>(status);
  head.content_length = length;
  if (!wants_body() || fetch == nullptr || !fetch->on_head) return true;
  stopped = !fetch->on_head(head);
  return !stopped;
}

std::size_t EdgeClient::Impl::on_fetched(char* data, std::size_t size, std::size_t n, void* p) {
  auto& self = *static_cast<Impl*>(p);
  const std::size_t bytes = size * n;
  if (!self.tell_head()) return 0;
  if (!self.wants_body()) return bytes;  // the page that explains an error
  self.body_bytes += bytes;
  if (!self.fetch->on_body) return bytes;
  self.stopped = !self.fetch->on_body({reinterpret_cast<const std::uint8_t*>(data), bytes});
  return self.stopped ? 0 : bytes;
}

std::size_t EdgeClient::Impl::on_collected(char* data, std::size_t size, std::size_t n, void* p) {
  auto& self = *static_cast<Impl*>(p);
  const std::size_t bytes = size * n;
  if (bytes > bootstrap::kMessageMaxBytes - self.collected.size()) return 0;
  self.collected.insert(self.collected.end(), data, data + bytes);
  return bytes;
}

int EdgeClient::Impl::on_progress(void* p, curl_off_t total, curl_off_t now, curl_off_t,
                                  curl_off_t) {
  auto& self = *static_cast<Impl*>(p);
  if (self.fetch == nullptr || !self.fetch->on_progress) return 0;
  if (!self.fetch->on_progress(static_cast<std::uint64_t>(now), total > 0 ? total : -1))
    self.stopped = true;
  return self.stopped ? 1 : 0;
}

Outcome<EdgeClient> EdgeClient::create(ClientOptions options) {
  init_curl();
  for (const std::string* file :
       {&options.ca_file, &options.client_certificate_file, &options.client_key_file}) {
    if (file->empty()) continue;
    if (auto pem = read_pem_file(*file); !pem)
      return fail_with(Error::kInvalidArgument, std::move(pem.error().text));
  }
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->curl.reset(curl_easy_init());
  if (!impl->curl) return fail_with(Error::kNoMemory, "libcurl could not be initialised");
  return EdgeClient(std::move(impl));
}

EdgeClient::EdgeClient(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
EdgeClient::EdgeClient(EdgeClient&&) noexcept = default;
EdgeClient& EdgeClient::operator=(EdgeClient&&) noexcept = default;
EdgeClient::~EdgeClient() = default;

namespace {

Failure failure_of_status(unsigned status, const std::string& where) {
  switch (status) {
    case 404:
    case 405:
      return {Error::kUnsupported, fmt::format("{} speaks plain HTTPS only, not HTTP/4A", where)};
    case 409:
      return {Error::kUnsupported, fmt::format("{} has no cipher suite, address family, version or "
                                               "route in common with this client",
                                               where)};
    case 401:
    case 403:
      return {Error::kAuthentication,
              fmt::format("{} refuses these credentials ({})", where, status)};
    case 421:
      return {Error::kAuthentication,
              fmt::format("{} does not answer for this authority (421): its certificate does not "
                          "cover the name",
                          where)};
    case 429:
      return {Error::kBusy, fmt::format("{} has too many sessions of this client (429)", where)};
    case 503:
      return {Error::kBusy, fmt::format("{} has no room for a session now (503)", where)};
    default:
      return {Error::kMalformed,
              fmt::format("{} answered the offer with status {}", where, status)};
  }
}

}  // namespace

Outcome<OfferResult> EdgeClient::post_offer(const Url& url, Bytes offer,
                                            std::function<bool()> wanted) {
  const List headers =
      impl_->request_headers({fmt::format("Content-Type: {}", bootstrap::kOfferMediaType),
                              fmt::format("Accept: {}", bootstrap::kAnswerMediaType), "Expect:"});
  const std::string where = fmt::format("{}:{}", url.host, url.port);
  Fetch watch;
  if (wanted) watch.on_progress = [&wanted](std::uint64_t, std::int64_t) { return wanted(); };
  impl_->fetch = &watch;
  impl_->prepare(fmt::format("https://{}{}", url.authority, bootstrap::kPath), url.host,
                 headers.get());
  CURL* c = impl_->curl.get();
  curl_easy_setopt(c, CURLOPT_POST, 1L);
  curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(offer.size()));
  curl_easy_setopt(c, CURLOPT_POSTFIELDS, offer.data());
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, impl_->options.offer_timeout.count_ns() / 1'000'000);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &Impl::on_collected);
  impl_->watch_progress();
  const CURLcode code = impl_->perform();
  impl_->tell_head();
  impl_->fetch = nullptr;
  const unsigned status = impl_->head.status;
  // A refusal counts even if the connection broke behind it.
  if (code != CURLE_OK && status < 400) return tl::unexpected(impl_->failure_of(code, where));
  if (status != 200) return tl::unexpected(failure_of_status(status, where));
  if (!iequals(impl_->head.content_type, bootstrap::kAnswerMediaType))
    return fail_with(
        Error::kMalformed,
        fmt::format("{} answered the offer with {} instead of an Answer", where,
                    impl_->head.content_type.empty() ? "no media type" : impl_->head.content_type));
  return OfferResult{std::move(impl_->collected), impl_->server_address()};
}

namespace {

// To libcurl 0 is "no limit", so the last millisecond counts as a whole one.
std::int64_t whole_ms(Duration d) noexcept {
  return (d.count_ns() + 999'999) / 1'000'000;
}

}  // namespace

Outcome<FetchResult> EdgeClient::fetch(const Fetch& fetch) {
  const auto url = parse_url(fetch.url);
  if (!url) return tl::unexpected(url.error());
  const List headers = impl_->request_headers(fetch.headers);
  impl_->fetch = &fetch;
  impl_->prepare(fetch.url, url->host, headers.get());
  CURL* c = impl_->curl.get();
  const std::string range = fetch.range.substr(fetch.range.find('=') + 1);  // libcurl adds "bytes="
  if (!range.empty()) curl_easy_setopt(c, CURLOPT_RANGE, range.c_str());
  if (fetch.head_only) curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &Impl::on_fetched);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, whole_ms(fetch.deadline));
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(
      c, CURLOPT_LOW_SPEED_TIME,
      std::max<std::int64_t>(1, impl_->options.stall_timeout.count_ns() / 1'000'000'000));
  impl_->watch_progress();
  const CURLcode code = impl_->perform();
  const bool told = code != CURLE_OK || impl_->tell_head();
  impl_->fetch = nullptr;
  if (code != CURLE_OK)
    return tl::unexpected(impl_->failure_of(code, fmt::format("{}:{}", url->host, url->port)));
  if (!told) return fail_with(Error::kClosed, "stopped");
  return FetchResult{impl_->head, impl_->body_bytes, impl_->server_address()};
}

}  // namespace h4a::edge
