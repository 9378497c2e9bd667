#include "apps/rping.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/host.h"
#include "apps/report.h"
#include "apps/rping_session.h"
#include "apps/stop_signal.h"
#include "stack/cm_service.h"

namespace h4a::apps {
namespace {

/// How long the messages that end a connection may take after Ctrl-C.
constexpr Duration kGoodbye = Duration::ms(1500);
/// How long the last messages (a REJ, a DREP) may take to leave, at the very end.
constexpr Duration kFlush = Duration::ms(50);

struct Outcome {
  int exit_code = kExitOk;
  std::string error;
  RpingTimes times;
  std::uint64_t connections = 0;
  double seconds = 0;
  verbs::DeviceCounters counters;

  void fail(std::string text, int code = kExitFailed) {
    error = std::move(text);
    exit_code = code;
  }
};

double microseconds(Duration d) noexcept {
  return static_cast<double>(d.count_ns()) * 1e-3;
}

class Rping {
 public:
  explicit Rping(const RpingArguments& a) : arguments_(a) {}
  int run();

 private:
  [[nodiscard]] bool parse(RpingOptions& options);
  void work(Host& host, stack::CmService& cm, RpingOptions options);
  void turn(Host& host, stack::CmService& cm, RpingSession* session);
  void print() const;
  void print_json() const;

  const RpingArguments& arguments_;
  Outcome outcome_;
};

int Rping::run() {
  RpingOptions options;
  std::string error;
  if (parse(options)) {
    if (const auto host = Host::open(arguments_.host, error); !host) {
      outcome_.fail(std::move(error));
    } else if (auto cm = stack::CmService::create(host->stack(), host->random()); !cm) {
      outcome_.fail(fmt::format("cannot open the connection manager: {}", to_string(cm.error())));
    } else {
      work(*host, **cm, std::move(options));
      outcome_.counters = host->stack().counters();
      outcome_.counters.drops += (*cm)->drops();
      if (!host->finish_capture())
        outcome_.fail(fmt::format("--pcap {}: not written completely", arguments_.host.pcap));
    }
  }
  arguments_.json ? print_json() : print();
  return outcome_.exit_code;
}

bool Rping::parse(RpingOptions& options) {
  const auto address = [&](const char* name, const std::string& text, IpAddress& out) {
    if (text.empty()) return true;
    const auto ip = IpAddress::parse(text);
    if (!ip) {
      outcome_.fail(fmt::format("{} {}: not an IP address", name, text), kExitUsage);
      return false;
    }
    out = *ip;
    return true;
  };
  if (arguments_.server == arguments_.client) {
    outcome_.fail("say either -s (server) or -c (client)", kExitUsage);
    return false;
  }
  if (arguments_.client && arguments_.address.empty()) {
    outcome_.fail("a client needs -a with the server's address", kExitUsage);
    return false;
  }
  options.task.server = arguments_.server;
  options.task.count = arguments_.count;
  options.task.size = arguments_.size;
  options.task.validate = arguments_.validate;
  if (arguments_.verbose)
    options.task.show = [to = arguments_.json ? stderr : stdout,
                         who = arguments_.server ? "server ping data"
                                                 : "ping data"](std::string_view text) {
      fmt::print(to, "{}: {}\n", who, text);
      std::fflush(to);
    };
  options.port = arguments_.port;
  options.persistent = arguments_.persistent;
  return address("-a", arguments_.address, options.address) &&
         address("-I", arguments_.source, options.source);
}

void Rping::turn(Host& host, stack::CmService& cm, RpingSession* session) {
  const Instant now = steady_now();
  const stack::PollResult polled = host.poll(now);
  const Instant cm_due = cm.poll(now);
  const bool worked = session != nullptr && session->poll(now);
  host.wait(worked || polled.received + polled.sent > 0 || polled.more || cm.busy(),
            std::min(cm_due, polled.next_deadline));
}

void Rping::work(Host& host, stack::CmService& cm, RpingOptions options) {
  std::string error;
  const Instant started = steady_now();
  static_cast<void>(cm.poll(started));
  {
    RpingSession session(host.stack(), cm, std::move(options));
    if (!session.start(error)) return outcome_.fail(std::move(error));
    if (arguments_.server && !arguments_.json) {
      fmt::print("listening on port {}\n", arguments_.port);
      std::fflush(stdout);
    }
    Instant end = Instant::never();
    while (!session.over() && steady_now() < end) {
      turn(host, cm, &session);
      if (!stop_requested() || !end.is_never()) continue;
      session.stop();
      end = steady_now() + kGoodbye;
    }
    outcome_.times = session.times();
    outcome_.connections = session.connections();
    if (!session.error().empty()) outcome_.fail(session.error());
    outcome_.seconds = (steady_now() - started).seconds();
  }
  for (const Instant end = steady_now() + kFlush; steady_now() < end;) turn(host, cm, nullptr);
}

void Rping::print() const {
  if (!outcome_.error.empty()) fmt::print(stderr, "h4a rping: {}\n", outcome_.error);
  if (outcome_.times.pings > 0) {
    fmt::print("{} pings", outcome_.times.pings);
    if (arguments_.client)
      fmt::print(" of {} bytes, each {:.1f}/{:.1f}/{:.1f} µs (least/average/most)", arguments_.size,
                 microseconds(outcome_.times.least),
                 microseconds(outcome_.times.sum) / static_cast<double>(outcome_.times.pings),
                 microseconds(outcome_.times.most));
    fmt::print("\n");
  }
  print_counters(outcome_.error.empty() ? stdout : stderr, outcome_.counters);
}

void Rping::print_json() const {
  nlohmann::json j = counters_json(outcome_.counters);
  j["role"] = arguments_.server ? "server" : "client";
  j["exit_code"] = outcome_.exit_code;
  j["connections"] = outcome_.connections;
  j["pings"] = outcome_.times.pings;
  j["seconds"] = outcome_.seconds;
  if (arguments_.client) {
    j["size"] = arguments_.size;
    if (outcome_.times.pings > 0)
      j["round_trip_us"] = {
          {"least", microseconds(outcome_.times.least)},
          {"average", microseconds(outcome_.times.sum) / static_cast<double>(outcome_.times.pings)},
          {"most", microseconds(outcome_.times.most)}};
  }
  if (!outcome_.error.empty()) j["error"] = outcome_.error;
  fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void add_rping_command(CLI::App& app, RpingArguments& a) {
  CLI::App* c = app.add_subcommand("rping", "Ping by RDMA, as rdma-core's rping does");
  c->add_flag("-s,--server", a.server, "Be the server");
  c->add_flag("-c,--client", a.client, "Be the client");
  c->add_option("-a,--address", a.address,
                "Client: the server's address. Server: the address to listen on (default: all)")
      ->type_name("ADDR");
  c->add_option("-I,--source", a.source, "Client: own address to use")->type_name("ADDR");
  c->add_option("-p,--service-port", a.port, "Port of the service")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  c->add_option("-C,--count", a.count, "Client: pings; 0 goes on until Ctrl-C")
      ->capture_default_str();
  c->add_option("-S,--size", a.size, "Client: bytes of each ping")
      ->check(CLI::Range(kRpingSizeMin, kRpingSizeMax))
      ->capture_default_str();
  c->add_flag("-v,--verbose", a.verbose, "Print the data of each ping");
  c->add_flag("-V,--validate", a.validate, "Client: compare what comes back");
  c->add_flag("-P,--persistent", a.persistent, "Server: serve many clients, until Ctrl-C");
  add_host_arguments(*c, a.host);
  c->add_flag("--json", a.json, "Print one JSON object at the end");
}

int run_rping(const RpingArguments& a) {
  catch_stop_signals();
  return Rping(a).run();
}

}  // namespace h4a::apps
