#include "apps/h4a_fetch.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <future>

#include "apps/report.h"
#include "apps/stop_signal.h"
#include "edge/address_policy.h"
#include "h4a/bootstrap_exchange.h"
#include "h4a/establish.h"

namespace h4a::apps {
namespace {

/// Sessions one after the other that end before a byte came: then something else is wrong.
constexpr int kFruitlessMax = 3;

constexpr Duration kFarewell = Duration::ms(200);

Attempt done() {
  return {Attempt::End::kDone, kExitOk, {}};
}
Attempt fall_back(std::string reason) {
  return {Attempt::End::kFallback, kExitFailed, std::move(reason)};
}
Attempt give_up(std::string reason, int exit_code = kExitFailed) {
  return {Attempt::End::kFailed, exit_code, std::move(reason)};
}

Attempt judge_offer(const edge::Failure& f) {
  switch (f.code) {
    case Error::kUnsupported:
    case Error::kBusy:
    case Error::kMalformed:
      return fall_back(f.text);
    case Error::kAuthentication:
      return give_up(f.text, kExitCertificate);
    default:
      return give_up(f.text);
  }
}

// Why we gave up by ourselves.
std::string ending() {
  return stop_requested() ? "stopped" : "the deadline passed";
}

std::string_view name_of(EspSuite suite) {
  return suite == EspSuite::kAesGcm256 ? "AES-256-GCM" : "AES-128-GCM";
}

}  // namespace

H4aFetch::~H4aFetch() {
  drop_session();
}

// Before the stack it lives on.
void H4aFetch::drop_session() noexcept {
  session_.reset();
  if (host_ && association_ != kClear) (void)host_->stack().destroy_association(association_);
  association_ = kClear;
}

Attempt H4aFetch::run(Instant deadline) {
  Attempt a = open_host();
  if (a.end == Attempt::End::kDone) a = one_session(deadline);
  for (int fruitless = 0; a.end == Attempt::End::kRenew;) {
    const std::uint64_t before = result_.delivered_bytes;
    a = one_session(deadline);
    fruitless = result_.delivered_bytes > before ? 0 : fruitless + 1;
    if (fruitless == kFruitlessMax && a.end == Attempt::End::kRenew)
      a = fall_back("the server ends its sessions before anything arrives");
  }
  progress_.clear();
  if (host_ && !host_->finish_capture() && a.end == Attempt::End::kDone)
    return give_up("the capture file is incomplete: is the disk full?");
  return a;
}

// From the Offer to the goodbye.
Attempt H4aFetch::one_session(Instant deadline) {
  Attempt a = open_session();
  if (a.end == Attempt::End::kDone) a = agree(deadline);
  if (a.end == Attempt::End::kDone) a = transfer(deadline);
  say_goodbye();
  drop_session();
  return a;
}

Attempt H4aFetch::open_host() {
  std::string error;
  if (!arguments_.host.esp_keys.empty() && !keys_.open(arguments_.host.esp_keys, error))
    return give_up(error);
  host_ = Host::open(arguments_.host, error);
  if (!host_) return give_up(error);
  const auto pd = host_->stack().alloc_pd();
  if (!pd) return give_up("no memory for the session");
  pd_ = *pd;
  return done();
}

Attempt H4aFetch::open_session() {
  session_ = std::make_unique<http::ClientSession>(host_->stack(), pd_, host_->random());
  if (const auto opened = session_->open(); !opened)
    return give_up(fmt::format("cannot open a session: {}", to_string(opened.error())));
  return done();
}

Attempt H4aFetch::agree(Instant deadline) {
  stack::Stack& stack = host_->stack();
  const IpAddress local_address = stack.addresses().front().address;
  const auto local = http::describe(stack, session_->local(), local_address);
  if (!local) return give_up("the port's MTU has no room for RoCEv2 inside ESP");
  auto exchange = bootstrap::ClientExchange::start(*local, host_->random());
  if (!exchange)
    return give_up(fmt::format("cannot make an offer: {}", to_string(exchange.error())));

  // The POST blocks in a thread of its own, so that the stack goes on answering its neighbours.
  std::atomic<bool> wanted{true};
  auto posted = std::async(std::launch::async, [&] {
    return edge_.post_offer(url_, exchange->offer(), [&wanted] { return wanted.load(); });
  });
  while (posted.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const stack::PollResult turn = host_->poll(steady_now());
    host_->wait(turn.more || turn.received > 0, steady_now() + Duration::us(100));
    if (steady_now() > deadline || stop_requested()) wanted = false;
  }
  const auto offered = posted.get();
  if (!wanted) return give_up(ending());
  if (!offered) return judge_offer(offered.error());
  auto agreed = exchange->finish(offered->answer);
  if (!agreed)
    return fall_back(
        fmt::format("the server's answer is of no use: {}", to_string(agreed.error())));
  return connect(*agreed, offered->server_address);
}

Attempt H4aFetch::connect(bootstrap::SessionParameters& agreed, const IpAddress& server) {
  const IpAddress local = host_->stack().addresses().front().address;
  const auto usable = std::find_if(agreed.peer_candidates.begin(), agreed.peer_candidates.end(),
                                   [&](const auto& c) {
                                     return c.udp_port == 0 && c.address.is_v4() == local.is_v4() &&
                                            edge::address_allowed(c.address, {&server, 1});
                                   });
  if (usable == agreed.peer_candidates.end())
    return fall_back("none of the server's addresses may be used from here");
  const IpAddress remote = usable->address;
  suite_ = agreed.suite;
  keys_.add(remote, local, agreed.inbound_spi, agreed.suite, agreed.inbound_key.bytes(), true);
  keys_.add(local, remote, agreed.outbound_spi, agreed.suite, agreed.outbound_key.bytes(), true);
  const auto association = http::establish(*session_, agreed, local, remote, steady_now());
  if (!association) {
    const bool no_route = association.error() == Error::kInvalidArgument;
    return fall_back(fmt::format("no way to {} from {}: {}", to_string(remote), to_string(local),
                                 no_route
                                     ? "it is not in the network of --ip, and there is no --gateway"
                                     : to_string(association.error())));
  }
  association_ = *association;
  path_mtu_ = agreed.path_mtu;
  ++sessions_;
  return done();
}

Attempt H4aFetch::transfer(Instant deadline) {
  http::FetchOptions options;
  options.authority = url_.authority;
  options.path = url_.target;
  options.chunk_bytes = std::uint64_t{arguments_.chunk_kib} * 1024;
  options.chunks_in_flight = arguments_.in_flight;
  for (const std::string& header : arguments_.headers) {
    const auto colon = header.find(':');
    const auto value = header.find_first_not_of(' ', colon + 1);
    options.headers.emplace_back(header.substr(0, colon),
                                 value == std::string::npos ? "" : header.substr(value));
  }
  if (result_.delivered_bytes > 0)
    options.resume = http::FetchResume{result_.delivered_bytes, result_.size, result_.etag,
                                       result_.last_modified};
  http::FetchOperation fetch(*session_, *this, std::move(options));
  if (!session_->carries(url_.authority))
    return fall_back(fmt::format("the server's answer does not name {}", url_.authority));
  if (const auto started = fetch.start(steady_now()); !started)
    return give_up(fmt::format("cannot send the request: {}", to_string(started.error())));
  return follow(fetch, deadline);
}

Attempt H4aFetch::follow(http::FetchOperation& fetch, Instant deadline) {
  bool timed_out = false;
  while (!fetch.finished()) {
    const Instant now = steady_now();
    const stack::PollResult turn = host_->poll(now);
    take_events();
    const std::size_t worked = session_->poll(now) + fetch.poll(now);
    if ((now > deadline || stop_requested()) && !timed_out) {
      timed_out = true;
      fetch.cancel();
    }
    const Instant wake = std::min({turn.next_deadline, session_->next_deadline(), deadline});
    host_->wait(turn.more || turn.received + turn.sent + worked > 0, wake);
  }
  take_result(fetch.result());
  return judge(fetch, timed_out);
}

// Of the fetch as a whole: a session that ended before its HEAD was answered knows nothing of the file.
void H4aFetch::take_result(const http::FetchResult& result) {
  const http::FetchResult before = std::move(result_);
  result_ = result;
  if (before.delivered_bytes == 0) return;
  result_.started = before.started;
  if (result_.delivered_bytes >= before.delivered_bytes) return;
  result_.delivered_bytes = before.delivered_bytes;
  result_.size = before.size;
  result_.etag = before.etag;
  result_.last_modified = before.last_modified;
}

// The keys of a session last for a while; then another one goes on.
void H4aFetch::take_events() noexcept {
  verbs::AsyncEvent events[8];
  const std::size_t n = host_->stack().poll_events(events);
  for (std::size_t i = 0; i < n; ++i) http::handle_sa_event(*session_, events[i]);
}

Attempt H4aFetch::judge(const http::FetchOperation& fetch, bool timed_out) const {
  if (fetch.succeeded()) return done();
  if (timed_out) return give_up(ending());
  switch (result_.error) {
    case http::FetchError::kStatus:
      return give_up(fmt::format("the server answered {}", result_.status), kExitHttpStatus);
    case http::FetchError::kSink:
      return give_up(file_.error());
    case http::FetchError::kSession:
      if (session_->may_be_renewed()) return {Attempt::End::kRenew, kExitFailed, {}};
      if (session_->error() == http::SessionError::kTransport) {
        return fall_back(with_top_drop(fmt::format(
            "the connection broke: {}", verbs::to_string(session_->transport_status()))));
      }
      return fall_back(
          with_top_drop(fmt::format("the session ended: {}", http::to_string(session_->error()))));
    default:
      return fall_back(with_top_drop(std::string(http::to_string(result_.error))));
  }
}

// What was dropped most often is most often the reason (DESIGN D11).
std::string H4aFetch::with_top_drop(std::string text) const {
  Drop top = Drop::kNone;
  std::uint64_t most = 0;
  counters().drops.for_each([&](Drop reason, std::uint64_t count) {
    if (count <= most || reason == Drop::kInjected) return;
    top = reason;
    most = count;
  });
  return most == 0 ? text : fmt::format("{} (dropped here: {} × {})", text, most, to_string(top));
}

void H4aFetch::say_goodbye() {
  if (!session_ || !host_) return;
  const Instant end = steady_now() + kFarewell;
  session_->close(steady_now());
  while (!session_->ended() && steady_now() < end) {
    (void)host_->poll(steady_now());
    (void)session_->poll(steady_now());
  }
  session_->abort();
}

Result<void> H4aFetch::on_head(const http::FetchHead& head) noexcept {
  total_ = head.size;
  return {};
}

Result<void> H4aFetch::on_data(std::uint64_t offset, Bytes data) noexcept {
  if (!file_.write(data)) return failure(Error::kIo);
  progress_.update(offset + data.size(), total_, steady_now());
  return {};
}

verbs::DeviceCounters H4aFetch::counters() const noexcept {
  return host_ ? host_->stack().counters() : verbs::DeviceCounters{};
}

std::string H4aFetch::protocol() const {
  return fmt::format("HTTP/4A (RoCEv2 in ESP, {}, path MTU {})", name_of(suite_), path_mtu_);
}

}  // namespace h4a::apps
