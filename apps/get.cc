#include "apps/get.h"

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/h4a_fetch.h"
#include "apps/output_file.h"
#include "apps/progress.h"
#include "apps/report.h"
#include "apps/stop_signal.h"
#include "edge/client.h"
#include "h4a/headers.h"

namespace h4a::apps {
namespace {

using http::equals_ignoring_case;

/// What is told at the end.
struct Outcome {
  int exit_code = kExitOk;
  std::string protocol;       // for people
  std::string protocol_name;  // "h4a" or "https"
  std::string error;          // one line
  std::string fallback;       // why HTTPS was used, if it was
  std::uint64_t size = 0;
  std::uint32_t sessions = 0;
  double seconds = 0;        // from the first request to the last byte
  double total_seconds = 0;  // opening the port and the bootstrap included
  verbs::DeviceCounters counters;
};

class Get {
 public:
  explicit Get(const GetArguments& a) : arguments_(a), progress_(!a.quiet && !a.json) {}
  int run();

 private:
  void fetch(const edge::Url& url);
  void over_https(edge::EdgeClient& client, Instant deadline);
  void fail(std::string text, int exit_code = kExitFailed) {
    outcome_.error = std::move(text);
    outcome_.exit_code = exit_code;
  }
  void print() const;
  void print_json() const;

  const GetArguments& arguments_;
  Progress progress_;
  OutputFile file_;
  std::string path_;
  Outcome outcome_;
};

int Get::run() {
  const auto url = edge::parse_url(arguments_.url);
  if (!url) {
    fail(url.error().text, kExitUsage);
  } else {
    path_ = arguments_.output.empty() ? edge::file_name_of(*url) : arguments_.output;
    if (path_ == "/dev/stdout") path_ = "-";  // what we have to say must not get in between
    if (file_.open(path_)) {
      fetch(*url);
    } else {
      fail(file_.error());
    }
  }
  progress_.clear();
  arguments_.json ? print_json() : print();
  return outcome_.exit_code;
}

void Get::fetch(const edge::Url& url) {
  edge::ClientOptions options;
  options.ca_file = arguments_.ca_file;
  options.headers = arguments_.headers;
  auto client = edge::EdgeClient::create(std::move(options));
  if (!client) return fail(client.error().text);
  const Instant started = steady_now();
  const Instant deadline =
      arguments_.timeout_s == 0 ? Instant::never() : started + Duration::s(arguments_.timeout_s);
  Attempt attempt;
  {
    H4aFetch h4a(arguments_, url, *client, file_, progress_);
    attempt = h4a.run(deadline);
    outcome_.counters = h4a.counters();
    outcome_.protocol = h4a.protocol();
    outcome_.protocol_name = "h4a";
    outcome_.sessions = h4a.sessions();
    outcome_.size = h4a.result().delivered_bytes;
    outcome_.seconds = (h4a.result().ended - h4a.result().started).seconds();
  }
  if (attempt.end == Attempt::End::kFallback && !arguments_.require_h4a) {
    outcome_.fallback = attempt.reason;
    if (!arguments_.quiet && !arguments_.json)
      fmt::print(stderr, "h4a get: {}; using HTTPS\n", attempt.reason);
    over_https(*client, deadline);
  } else if (attempt.end != Attempt::End::kDone) {
    fail(attempt.reason, attempt.exit_code);
  }
  if (outcome_.exit_code == kExitOk && !file_.commit()) fail(file_.error());
  outcome_.total_seconds = (steady_now() - started).seconds();
}

void Get::over_https(edge::EdgeClient& client, Instant deadline) {
  outcome_.protocol = "HTTPS";
  outcome_.protocol_name = "https";
  if (!file_.restart()) return fail(file_.error());
  edge::Fetch f;
  f.url = arguments_.url;
  if (!deadline.is_never()) {
    f.deadline = deadline - steady_now();
    if (f.deadline <= Duration{}) return fail("the deadline passed");
  }
  f.on_body = [&](Bytes data) { return file_.write(data); };
  f.on_progress = [&](std::uint64_t received, std::int64_t total) {
    progress_.update(received, total > 0 ? static_cast<std::uint64_t>(total) : 0, steady_now());
    return !stop_requested();
  };
  const Instant started = steady_now();
  const auto result = client.fetch(f);
  outcome_.seconds = (steady_now() - started).seconds();
  if (!file_.error().empty()) return fail(file_.error());
  if (!result) {
    return fail(result.error().text,
                result.error().code == Error::kAuthentication ? kExitCertificate : kExitFailed);
  }
  if (result->head.status != 200)
    return fail(fmt::format("the server answered {}", result->head.status), kExitHttpStatus);
  outcome_.size = result->body_bytes;
}

void Get::print() const {
  if (outcome_.exit_code != kExitOk) {
    fmt::print(stderr, "h4a get: {}: {}\n", arguments_.url, outcome_.error);
  } else if (!arguments_.quiet) {
    std::FILE* const to = path_ == "-" ? stderr : stdout;
    fmt::print(to, "{}: {} over {} in {:.3f} s, {} ({:.3f} s with set-up)\n", path_,
               format_size(outcome_.size), outcome_.protocol, outcome_.seconds,
               format_rate(outcome_.size, outcome_.seconds), outcome_.total_seconds);
    print_counters(to, outcome_.counters);
  }
}

void Get::print_json() const {
  nlohmann::json j = counters_json(outcome_.counters);
  j["url"] = arguments_.url;
  j["exit_code"] = outcome_.exit_code;
  j["protocol"] = outcome_.protocol_name;
  j["size"] = outcome_.size;
  j["sessions"] = outcome_.sessions;
  j["seconds"] = outcome_.seconds;
  j["total_seconds"] = outcome_.total_seconds;
  j["bits_per_second"] =
      outcome_.seconds > 0 ? 8 * static_cast<double>(outcome_.size) / outcome_.seconds : 0;
  if (outcome_.exit_code == kExitOk) j["file"] = path_;
  if (!outcome_.error.empty()) j["error"] = outcome_.error;
  if (!outcome_.fallback.empty()) j["fallback"] = outcome_.fallback;
  fmt::print(path_ == "-" ? stderr : stdout, "{}\n",
             j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void add_get_command(CLI::App& app, GetArguments& a) {
  CLI::App* c = app.add_subcommand("get", "Fetch a file over HTTP/4A");
  c->add_option("url", a.url, "https://HOST[:PORT]/PATH")->required()->type_name("URL");
  c->add_option("-o,--output", a.output,
                "File to write, '-' for standard output (default: the last part of the URL)")
      ->type_name("FILE");
  add_host_arguments(*c, a.host);
  c->add_option("--cacert", a.ca_file, "Trust the certificates in this PEM file, not the system's")
      ->type_name("FILE");
  c->add_option("-H,--header", a.headers, "Header for the requests, as 'Name: value'")
      ->check([](const std::string& text) {
        const auto colon = text.find(':');
        if (colon == 0 || colon == std::string::npos) return "write it as 'Name: value'";
        return equals_ignoring_case(std::string_view(text).substr(0, colon), "range")
                   ? "a range is not for you to ask for: the whole file is fetched, in ranges"
                   : "";
      })
      ->type_name("HEADER");
  c->add_flag("--require-h4a", a.require_h4a, "Fail rather than fall back to HTTPS");
  c->add_option("--timeout", a.timeout_s, "Seconds that all of it may take (default: no limit)")
      ->type_name("S");
  c->add_option("--chunk", a.chunk_kib, "KiB asked for in one request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  c->add_option("--in-flight", a.in_flight, "Requests in flight")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  c->add_flag("--json", a.json, "Print one JSON object at the end");
  c->add_flag("-q,--quiet", a.quiet, "Print errors only");
}

int run_get(const GetArguments& a) {
  catch_stop_signals();
  return Get(a).run();
}

}  // namespace h4a::apps
