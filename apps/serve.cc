#include "apps/serve.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fmt/format.h>
#include <memory>

#include "apps/esp_key_log.h"
#include "apps/host.h"
#include "apps/offer_service.h"
#include "apps/report.h"
#include "apps/stop_signal.h"
#include "base/assert.h"
#include "edge/certificate.h"
#include "edge/server.h"
#include "h4a/file_handler.h"
#include "h4a/file_source.h"
#include "h4a/server.h"

namespace h4a::apps {
namespace {

constexpr Duration kFarewell = Duration::ms(500);

int complain(const std::string& text) {
  fmt::print(stderr, "h4a serve: {}\n", text);
  return kExitFailed;
}

struct Listen {
  IpAddress address;
  std::uint16_t port = 0;
};

/// ADDRESS:PORT or [ADDRESS]:PORT; port 0 lets the system choose, announce() tells which.
bool parse_listen(const std::string& text, Listen& out) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  if (!address || address->is_v4() == bracketed) return false;
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + colon + 1, end, out.port);
  if (number.ec != std::errc{} || number.ptr != end) return false;
  out.address = *address;
  return true;
}

edge::Outcome<edge::PemPair> load_certificate(const ServeArguments& a, const Listen& listen) {
  if (a.self_signed) {
    std::vector<std::string> names = a.names;
    names.push_back("localhost");
    names.push_back(to_string(listen.address));
    return edge::make_self_signed(names);
  }
  auto certificate = edge::read_pem_file(a.certificate);
  if (!certificate) return tl::unexpected(certificate.error());
  auto key = edge::read_pem_file(a.key);
  if (!key) return tl::unexpected(key.error());
  return edge::PemPair{std::move(*certificate), std::move(*key)};
}

/// The pieces in the order in which they are made; they end in the reverse order.
class Service {
 public:
  bool start(const ServeArguments& a, std::string& error);
  void run();

 private:
  bool load_identity(const ServeArguments& a, std::string& error);
  bool start_sessions(const ServeArguments& a, std::string& error);
  bool start_https(const ServeArguments& a, std::string& error);
  [[nodiscard]] http::FileHandler::Options handler_options() const;
  void announce(const ServeArguments& a) const;
  std::size_t take_events();

  Listen listen_;
  edge::PemPair pem_;
  EspKeyLog keys_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<http::FileHandler> handler_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<OfferService> offers_;
  edge::OfferQueue queue_;
  std::unique_ptr<edge::EdgeServer> https_;
};

bool Service::start(const ServeArguments& a, std::string& error) {
  // HTTPS first: it knows the port if we were asked for any. Offers wait in the queue meanwhile.
  if (!load_identity(a, error) || !start_https(a, error) || !start_sessions(a, error)) return false;
  announce(a);
  return true;
}

bool Service::load_identity(const ServeArguments& a, std::string& error) {
  if (!parse_listen(a.https, listen_)) {
    error = fmt::format("--https {}: write it as ADDRESS:PORT, for example 0.0.0.0:8443", a.https);
    return false;
  }
  auto pem = load_certificate(a, listen_);
  if (!pem) {
    error = pem.error().text;
    return false;
  }
  if (const auto certificate = edge::Certificate::from_pem(pem->certificate); !certificate) {
    error = fmt::format("--cert {}: {}", a.certificate, certificate.error().text);
    return false;
  }
  pem_ = std::move(*pem);
  return true;
}

// A session may carry what the certificate covers, on our port or behind a front end on 443.
http::FileHandler::Options Service::handler_options() const {
  http::FileHandler::Options options;
  const auto certificate = edge::Certificate::from_pem(pem_.certificate);
  H4A_ASSERT(certificate.has_value());  // load_identity() has read it
  for (const std::string& host : certificate->hosts()) {
    options.authorities.push_back(host);
    options.authorities.push_back(fmt::format("{}:{}", host, https_->port()));
  }
  return options;
}

bool Service::start_sessions(const ServeArguments& a, std::string& error) {
  if (!a.host.esp_keys.empty() && !keys_.open(a.host.esp_keys, error)) return false;
  auto root = FileRoot::open(a.root);  // its own: the HTTPS thread has another
  if (!root) {
    error = fmt::format("--root {}: {}", a.root, to_string(root.error()));
    return false;
  }
  host_ = Host::open(a.host, error);
  if (!host_) return false;
  stack::Stack& stack = host_->stack();
  const auto pd = stack.alloc_pd();
  handler_ = std::make_unique<http::FileHandler>(std::move(*root), handler_options());
  http::Server::Options options;
  options.sessions_max = a.sessions_max;
  options.sessions_per_client = a.sessions_per_client;
  server_ = std::make_unique<http::Server>(
      stack, *pd, host_->random(), *handler_, options, [&stack](const http::ServerSession& s) {
        if (s.peer().association != kClear) (void)stack.destroy_association(s.peer().association);
      });
  if (const auto started = server_->start(); !started) {
    error = fmt::format("no memory for the server: {}", to_string(started.error()));
    return false;
  }
  offers_ =
      std::make_unique<OfferService>(stack, *server_, host_->random(), keys_, a.session_lifetime_s);
  return true;
}

bool Service::start_https(const ServeArguments& a, std::string& error) {
  auto root = FileRoot::open(a.root);
  if (!root) {
    error = root.error() == Error::kInvalidArgument
                ? fmt::format("--root {}: this is not a directory", a.root)
                : fmt::format("--root {}: {}; it must be a directory that can be read", a.root,
                              to_string(root.error()));
    return false;
  }
  edge::ServerOptions options;
  options.address = listen_.address;
  options.port = listen_.port;
  options.certificate_pem = pem_.certificate;
  options.private_key_pem = pem_.private_key;
  options.root = std::make_shared<const FileRoot>(std::move(*root));
  options.offers = &queue_;
  if (!a.quiet) {
    options.on_request = [](const edge::RequestRecord& r) {
      fmt::print("{} {} {} {} {} bytes, https\n", to_string(r.source), r.method, r.target, r.status,
                 r.body_bytes);
      std::fflush(stdout);
    };
  }
  auto https = edge::EdgeServer::start(std::move(options));
  if (!https) {
    error = fmt::format("--https {}: {}", a.https, https.error().text);
    return false;
  }
  https_ = std::move(*https);
  return true;
}

void Service::announce(const ServeArguments& a) const {
  const std::string host = listen_.address.is_v4()
                               ? to_string(listen_.address)
                               : fmt::format("[{}]", to_string(listen_.address));
  fmt::print("serving {} on https://{}:{}/, HTTP/4A on {} at {}\n", a.root, host, https_->port(),
             fmt::join(a.host.ips, ", "), a.host.port);
  if (a.self_signed) {
    fmt::print("self-signed certificate; to trust it, save it and use h4a get --cacert FILE:\n{}",
               pem_.certificate);
  }
  std::fflush(stdout);
}

std::size_t Service::take_events() {
  verbs::AsyncEvent events[8];
  const std::size_t n = host_->stack().poll_events(events);
  for (std::size_t i = 0; i < n; ++i) server_->on_event(events[i]);
  return n;
}

void Service::run() {
  bool closing = false;
  Instant farewell = Instant::never();
  while (!(closing && (server_->empty() || steady_now() >= farewell))) {
    const Instant now = steady_now();
    const stack::PollResult turn = host_->poll(now);
    handler_->set_time(static_cast<std::int64_t>(std::time(nullptr)));
    std::size_t done = server_->poll(now);
    if (!closing) done += queue_.poll(*offers_);
    if (stop_requested() && !closing) {
      closing = true;
      farewell = now + kFarewell;
      queue_.close();
      server_->close(now);
    }
    done += take_events();
    const bool worked = turn.received + turn.sent + done > 0 || turn.more;
    host_->wait(worked, std::min(turn.next_deadline, server_->next_deadline()));
  }
  https_.reset();
  const http::Server::Counters c = server_->counters();
  fmt::print("served {} sessions, {} requests, {}\n", c.sessions, c.requests,
             format_size(c.body_bytes));
  print_counters(stdout, host_->stack().counters());
  if (!host_->finish_capture()) fmt::print(stderr, "h4a serve: the capture file is incomplete\n");
}

}  // namespace

void add_serve_command(CLI::App& app, ServeArguments& a) {
  CLI::App* c = app.add_subcommand("serve", "Serve files over HTTP/4A and HTTPS");
  c->add_option("--root", a.root, "Directory with the files to serve")
      ->required()
      ->type_name("DIR");
  add_host_arguments(*c, a.host);
  c->add_option("--https", a.https, "Where to listen for HTTPS, which sessions begin with")
      ->type_name("ADDR:PORT")
      ->capture_default_str();
  auto* certificate =
      c->add_option("--cert", a.certificate, "Certificate chain, PEM")->type_name("FILE");
  auto* key =
      c->add_option("--key", a.key, "Private key of the certificate, PEM")->type_name("FILE");
  certificate->needs(key);
  key->needs(certificate);
  auto* self_signed = c->add_flag("--self-signed", a.self_signed,
                                  "Make a certificate on the spot and print it: for trials");
  self_signed->excludes(certificate);
  c->add_option("--name", a.names, "One more host name or address for --self-signed")
      ->needs(self_signed)
      ->type_name("HOST");
  c->add_option("--max-sessions", a.sessions_max, "HTTP/4A sessions at a time")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  c->add_option("--max-sessions-per-client", a.sessions_per_client,
                "Of them, by one client: by address, or by the subject of its certificate")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  c->add_option("--session-lifetime", a.session_lifetime_s,
                "Seconds until a session ends, and its keys with it; clients open another")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  c->add_flag("--quiet", a.quiet, "No line for each HTTPS request");
  c->callback([&a] {
    if (!a.self_signed && a.certificate.empty())
      throw CLI::ValidationError("--cert and --key, or --self-signed for a trial, are needed");
  });
}

int run_serve(const ServeArguments& a) {
  catch_stop_signals();
  Service service;
  std::string error;
  if (!service.start(a, error)) return complain(error);
  service.run();
  return kExitOk;
}

}  // namespace h4a::apps
