#include "apps/pingpong.h"

#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/host.h"
#include "apps/pingpong_end.h"
#include "apps/pingpong_exchange.h"
#include "apps/report.h"
#include "apps/stop_signal.h"

namespace h4a::apps {
namespace {

/// How long an RC end goes on after its last message, to acknowledge again what the peer may send again:
/// twice the peer's time-out of 67 ms.
constexpr Duration kLinger = Duration::ms(140);

verbs::QpType type_of(const std::string& name) {
  if (name == "ud") return verbs::QpType::kUd;
  return name == "uc" ? verbs::QpType::kUc : verbs::QpType::kRc;
}

class Pingpong {
 public:
  explicit Pingpong(const PingpongArguments& a) : arguments_(a) {
    size_ = a.size != 0 ? a.size : a.type == "ud" ? 1024U : 4096U;
  }
  int run();

 private:
  [[nodiscard]] bool open();
  [[nodiscard]] bool exchange();
  [[nodiscard]] bool serve_exchange(PingpongChannel& channel);
  [[nodiscard]] bool join_exchange(PingpongChannel& channel);
  [[nodiscard]] bool play();
  void linger();
  /// One turn while nothing of the game happens. @return false if the user wants to stop.
  [[nodiscard]] bool idle(int fd);
  [[nodiscard]] bool fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
    return false;
  }
  void print_contacts() const;
  void print() const;
  void print_json() const;

  const PingpongArguments& arguments_;
  std::uint32_t size_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<PingpongEnd> end_;
  PingpongContact remote_;
  double seconds_ = 0;
  std::string error_;
};

int Pingpong::run() {
  const bool played = open() && exchange() && play() && (end_->validate() || fail(end_->error()));
  if (host_ && !host_->finish_capture())
    static_cast<void>(fail("--pcap: the file could not be written completely"));
  arguments_.json ? print_json() : print();
  return played && error_.empty() ? kExitOk : kExitFailed;
}

bool Pingpong::open() {
  host_ = Host::open(arguments_.host, error_);
  if (!host_) return false;
  const PingpongOptions options{.type = type_of(arguments_.type),
                                .client = !arguments_.server.empty(),
                                .size = size_,
                                .iterations = arguments_.iterations,
                                .receives = arguments_.receives,
                                .path_mtu = arguments_.path_mtu,
                                .priority = static_cast<std::uint8_t>(arguments_.priority),
                                .gid_index = arguments_.gid_index,
                                .validate = arguments_.validate};
  end_ = PingpongEnd::create(host_->stack(), host_->random(), options, error_);
  return end_ != nullptr;
}

bool Pingpong::idle(int fd) {
  const Instant now = steady_now();
  const stack::PollResult r = host_->poll(now);
  host_->wait(r.received + r.sent > 0, r.next_deadline, fd);
  return !stop_requested();
}

bool Pingpong::exchange() {
  PingpongChannel channel([this](int fd) { return idle(fd); });
  const bool server = arguments_.server.empty();
  if (!(server ? serve_exchange(channel) : join_exchange(channel)))
    return fail(channel.error().empty() ? end_->error() : channel.error());
  if (!arguments_.json) print_contacts();
  return true;
}

bool Pingpong::serve_exchange(PingpongChannel& channel) {
  if (!channel.listen(arguments_.tcp_port)) return false;
  if (!arguments_.json) {
    fmt::print("waiting for a client on TCP port {}\n", arguments_.tcp_port);
    std::fflush(stdout);
  }
  if (!channel.accept()) return false;
  const auto remote = channel.receive();
  if (!remote) return false;
  remote_ = *remote;
  // The answer says that the queue pair can receive.
  return end_->connect(remote_) && channel.send(end_->local()) && channel.receive_done();
}

bool Pingpong::join_exchange(PingpongChannel& channel) {
  if (!channel.connect(arguments_.server, arguments_.tcp_port) || !channel.send(end_->local()))
    return false;
  const auto remote = channel.receive();
  if (!remote || !channel.send_done()) return false;
  remote_ = *remote;
  return end_->connect(remote_);
}

bool Pingpong::play() {
  const Instant started = steady_now();
  const Duration patience = Duration::s(arguments_.timeout_s);
  Instant progress = started;
  if (!end_->serve()) return fail(end_->error());
  while (!end_->done()) {
    const Instant now = steady_now();
    const stack::PollResult r = host_->poll(now);
    const std::size_t completions = end_->poll();
    if (!end_->error().empty()) return fail(end_->error());
    if (stop_requested()) return fail("stopped");
    if (completions > 0) progress = now;
    if (arguments_.timeout_s > 0 && now - progress > patience)
      return fail(fmt::format("nothing happened for {} s, after {} of {} messages",
                              arguments_.timeout_s, end_->received(), arguments_.iterations));
    host_->wait(completions + r.received + r.sent > 0, r.next_deadline);
  }
  seconds_ = (steady_now() - started).seconds();
  linger();
  return true;
}

void Pingpong::linger() {
  const Duration span = arguments_.type == "rc" ? kLinger : Duration{};
  Instant until = steady_now() + span;
  Instant now;
  do {
    now = steady_now();
    const stack::PollResult r = host_->poll(now);
    if (r.received > 0) until = now + span;
    host_->wait(r.received + r.sent > 0, std::min(until, r.next_deadline));
  } while (now < until && !stop_requested());
}

std::string contact_text(const PingpongContact& c) {
  return fmt::format("QPN {:#08x}, PSN {:#08x}, GID {}", c.qpn.value(), c.psn.value(),
                     to_string(c.gid));
}

void Pingpong::print_contacts() const {
  fmt::print("local:  {}\nremote: {}\n", contact_text(end_->local()), contact_text(remote_));
  std::fflush(stdout);
}

void Pingpong::print() const {
  if (!error_.empty()) {
    fmt::print(stderr, "h4a pingpong: {}\n", error_);
  } else {
    const std::uint64_t bytes = std::uint64_t{size_} * arguments_.iterations * 2;
    fmt::print("{} bytes in {:.2f} s, {}\n", bytes, seconds_, format_rate(bytes, seconds_));
    fmt::print("{} iterations in {:.2f} s, {:.2f} us each\n", arguments_.iterations, seconds_,
               seconds_ * 1e6 / arguments_.iterations);
  }
  if (host_) print_counters(error_.empty() ? stdout : stderr, host_->stack().counters());
}

nlohmann::json contact_json(const PingpongContact& c) {
  return {{"qpn", c.qpn.value()}, {"psn", c.psn.value()}, {"gid", to_string(c.gid)}};
}

void Pingpong::print_json() const {
  nlohmann::json j = host_ ? counters_json(host_->stack().counters()) : nlohmann::json::object();
  j["transport"] = arguments_.type;
  j["size"] = size_;
  j["iterations"] = arguments_.iterations;
  j["seconds"] = seconds_;
  j["usec_per_iteration"] = seconds_ * 1e6 / arguments_.iterations;
  j["exit_code"] = error_.empty() ? kExitOk : kExitFailed;
  if (end_) {
    j["local"] = contact_json(end_->local());
    j["received"] = end_->received();
  }
  if (remote_.qpn != Qpn()) j["remote"] = contact_json(remote_);
  if (!error_.empty()) j["error"] = error_;
  fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void add_pingpong_command(CLI::App& app, PingpongArguments& a) {
  CLI::App* c = app.add_subcommand(
      "pingpong", "Play ping-pong with ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong");
  c->add_option("type", a.type, "rc, uc or ud")
      ->required()
      ->check(CLI::IsMember({"rc", "uc", "ud"}))
      ->type_name("TYPE");
  c->add_option("server", a.server, "The server's host, reached by TCP; without it, be the server")
      ->type_name("HOST");
  add_host_arguments(*c, a.host);
  c->add_option("-p,--tcp-port", a.tcp_port, "TCP port of the exchange")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  c->add_option("-s,--size", a.size, "Bytes of a message (default: 4096, of ud 1024)")
      ->check(CLI::Range(1, 1 << 30));
  c->add_option("-n,--iters", a.iterations, "Messages each way")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  c->add_option("-m,--path-mtu", a.path_mtu, "Path MTU; a datagram has the port's")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
      ->capture_default_str();
  c->add_option("-r,--rx-depth", a.receives, "Receives posted at a time")
      ->check(CLI::Range(2, 65000))
      ->capture_default_str();
  c->add_option("-g,--gid-idx", a.gid_index, "Which --ip to use, counted from 0")
      ->capture_default_str();
  c->add_option("-l,--sl", a.priority, "802.1Q priority of what is sent; 0: no tag")
      ->check(CLI::Range(0, 7));
  c->add_flag("-c,--chk", a.validate, "Check what was received");
  c->add_option("--timeout", a.timeout_s, "Seconds without a message to give up after; 0: never")
      ->capture_default_str()
      ->type_name("S");
  c->add_flag("--json", a.json, "Print one JSON object at the end");
}

int run_pingpong(const PingpongArguments& a) {
  catch_stop_signals();
  return Pingpong(a).run();
}

}  // namespace h4a::apps
