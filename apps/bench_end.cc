#include "apps/bench_end.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "apps/bench_json.h"
#include "apps/host.h"
#include "base/cycles.h"

namespace h4a::apps {
namespace {

using verbs::Access;

constexpr EspSuite kSuite = EspSuite::kAesGcm128;
/// Requests that one turn posts at most; the queue is kept full over several turns.
constexpr std::size_t kPostBurst = 32;
/// A turn moves at most two bursts: tens of microseconds. Longer ones were interrupted.
constexpr double kInterruptedUs = 500;
/// Work requests that each queue pair but the first takes.
constexpr unsigned kOtherDepth = 8;

std::uint8_t pattern(std::size_t i, std::uint8_t seed) noexcept {
  return static_cast<std::uint8_t>(i * 7 + (i >> 8) * 13 + seed);
}

Bytes bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Rate of the time-stamp counter, roughly.
double cycles_per_us() noexcept {
  const Instant begin = steady_now();
  const std::uint64_t cycles = read_cycles();
  while (steady_now() - begin < Duration::ms(2)) {
  }
  return static_cast<double>(read_cycles() - cycles) / ((steady_now() - begin).seconds() * 1e6);
}

BenchStages stages_of(const stack::Stack& stack) noexcept {
  const stack::StageCycles& c = stack.stage_cycles();
  return {c.port_receive, c.classify,           c.esp_open, c.icrc_check,   c.transport_receive,
          c.timers,       c.transport_transmit, c.build,    c.port_transmit};
}

/// `after` - `before`, reason by reason.
DropCounters difference(const DropCounters& after, const DropCounters& before) noexcept {
  DropCounters d;
  after.for_each([&](Drop reason, std::uint64_t n) {
    if (n > before[reason]) d.add(reason, n - before[reason]);
  });
  return d;
}

}  // namespace

BenchEnd::BenchEnd(Host& host, const BenchOptions& options)
    : host_(host),
      options_(options),
      region_(std::make_unique<std::uint8_t[]>(kBenchRegionBytes)),
      source_(std::make_unique<std::uint8_t[]>(kBenchMessageMax)),
      interrupted_cycles_(kInterruptedUs * cycles_per_us()) {}

std::unique_ptr<BenchEnd> BenchEnd::create(Host& host, const BenchOptions& options,
                                           std::string& error) {
  auto end = std::make_unique<BenchEnd>(host, options);
  if (!end->make_objects(error)) return nullptr;
  return end;
}

bool BenchEnd::make_objects(std::string& error) {
  verbs::Device& device = host_.stack();
  const IpAddress ip = device.addresses().front().address;
  const std::uint16_t largest = device.max_path_mtu(!options_.clear, !ip.is_v4());
  if (options_.path_mtu > largest) {
    error = fmt::format("--mtu {}: the port carries payloads of {} bytes at most",
                        options_.path_mtu, largest);
    return false;
  }
  const auto pd = device.alloc_pd();
  const auto send_cq = device.create_cq(2 * options_.depth);
  const auto recv_cq = device.create_cq(4 * options_.depth);
  if (!pd || !send_cq || !recv_cq) {
    error = "no memory for the benchmark's queues: lower --depth";
    return false;
  }
  pd_ = *pd;
  send_cq_ = *send_cq;
  recv_cq_ = *recv_cq;
  const verbs::QpOptions qp{.pd = pd_,
                            .send_cq = send_cq_,
                            .recv_cq = recv_cq_,
                            .max_send_wr = options_.depth,
                            .max_recv_wr = 2 * options_.depth};
  const auto qpn = device.create_qp(qp);
  if (qpn) qpns_ = {*qpn};
  const auto keys = bootstrap::make_key_pair(host_.random());
  const auto spi = device.allocate_spi();
  const auto region =
      device.register_memory(pd_, region_.get(), kBenchRegionBytes,
                             Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead);
  const auto source = device.register_memory(pd_, source_.get(), kBenchMessageMax, Access::kNone);
  if (!qpn || !keys || !spi || !region || !source || !make_others()) {
    error = "no queue pair for the benchmark: lower --depth";
    return false;
  }
  region_mr_ = *region;
  source_mr_ = *source;
  private_key_ = keys->private_key.duplicate();
  own_ = BenchContact{.ip = ip,
                      .qpn = *qpn,
                      .psn = Psn(host_.random().u32()),
                      .spi = *spi,
                      .address = reinterpret_cast<std::uintptr_t>(region_.get()),
                      .rkey = region_mr_.rkey,
                      .path_mtu = options_.path_mtu != 0 ? options_.path_mtu : largest,
                      .clear = options_.clear,
                      .operation = options_.operation,
                      .public_key = keys->public_key};
  return true;
}

/// Short queues, so that what grows with their number is the queue pairs' own state.
bool BenchEnd::make_others() {
  const verbs::QpOptions qp{.pd = pd_,
                            .send_cq = send_cq_,
                            .recv_cq = recv_cq_,
                            .max_send_wr = std::min(options_.depth, kOtherDepth),
                            .max_recv_wr = 1};
  while (qpns_.size() < options_.qps) {
    const auto qpn = host_.stack().create_qp(qp);
    if (!qpn) return false;
    qpns_.push_back(*qpn);
  }
  return true;
}

bool BenchEnd::connect_others(const BenchEnd& peer, std::string& error) {
  for (std::size_t i = 1; i < qpns_.size(); ++i)
    if (!connect_qp(qpns_[i], peer.qpns_[i], error)) return false;
  return true;
}

bool BenchEnd::connect(const std::string& own_line, const std::string& peer_line, bool client,
                       EspKeyLog& key_log, std::string& error) {
  const auto peer = parse_contact(peer_line);
  if (!peer) {
    error = "the other end does not speak this benchmark's language: same version on both sides?";
    return false;
  }
  if (peer->operation != options_.operation) {
    error = fmt::format("the other end runs `h4a bench {}`: use the same on both",
                        name_of(peer->operation));
    return false;
  }
  if (peer->clear != options_.clear) {
    error = "one end runs with --clear and the other without: use it on both or none";
    return false;
  }
  peer_ = *peer;
  const std::string& offer = client ? own_line : peer_line;
  const std::string& answer = client ? peer_line : own_line;
  if (!options_.clear && !protect(offer, answer, client, key_log, error)) return false;

  own_.path_mtu = std::min(own_.path_mtu, peer_.path_mtu);
  receives_missing_ = 2 * options_.depth;
  return connect_qp(own_.qpn, peer_.qpn, error);
}

bool BenchEnd::connect_qp(Qpn own, Qpn remote, std::string& error) {
  verbs::Device& device = host_.stack();
  const verbs::InitAttributes init{.access = Access::kRemoteWrite | Access::kRemoteRead};
  const verbs::RtrAttributes rtr{.local_address = own_.ip,
                                 .remote_address = peer_.ip,
                                 .remote_qpn = remote,
                                 .rq_psn = peer_.psn,
                                 .path_mtu = own_.path_mtu,
                                 .association = association_};
  const verbs::RtsAttributes rts{.sq_psn = own_.psn};
  if (const auto r = device.to_init(own, init); !r) return (error = "QP to INIT failed"), false;
  if (const auto r = device.to_rtr(own, rtr); !r) {
    error = fmt::format("cannot reach {} from {}: {}", to_string(peer_.ip), to_string(own_.ip),
                        to_string(r.error()));
    return false;
  }
  if (const auto r = device.to_rts(own, rts); !r) return (error = "QP to RTS failed"), false;
  return true;
}

bool BenchEnd::protect(const std::string& offer, const std::string& answer, bool client,
                       EspKeyLog& key_log, std::string& error) {
  const auto shared = bootstrap::x25519(private_key_, peer_.public_key);
  private_key_.clear();
  const auto association =
      host_.stack().create_association({.local_address = own_.ip, .remote_address = peer_.ip});
  if (shared && association) {
    const auto transcript = bootstrap::transcript_hash(bytes_of(offer), bytes_of(answer));
    const auto prk = bootstrap::hkdf_extract(transcript, shared->bytes());
    association_ = *association;
    if (prk && install(*prk, client, true, key_log) && install(*prk, client, false, key_log))
      return true;
  }
  error = "the key exchange with the other end failed";
  return false;
}

bool BenchEnd::install(const bootstrap::PseudoRandomKey& prk, bool client, bool inbound,
                       EspKeyLog& key_log) {
  const bool to_server = client != inbound;
  const Spi spi = inbound ? own_.spi : peer_.spi;
  const auto key = bootstrap::derive_esp_key(
      prk,
      to_server ? bootstrap::Direction::kClientToServer : bootstrap::Direction::kServerToClient,
      kSuite, spi);
  if (!key) return false;
  key_log.add(inbound ? peer_.ip : own_.ip, inbound ? own_.ip : peer_.ip, spi, kSuite, key->bytes(),
              true);
  verbs::SaOptions sa;
  sa.direction = inbound ? verbs::SaDirection::kInbound : verbs::SaDirection::kOutbound;
  sa.spi = spi;
  sa.suite = kSuite;
  sa.key = key->duplicate();
  return host_.stack().install_sa(association_, std::move(sa)).has_value();
}

// ---- a row ----

void BenchEnd::poll(Instant now) noexcept {
  const BenchStages before = stages_of(host_.stack());
  const std::uint64_t begin = read_cycles();
  const stack::PollResult result = host_.poll(now);
  const std::uint64_t cycles = read_cycles() - begin;
  if (result.received + result.sent == 0) return;
  usage_.packets += result.received;
  if (static_cast<double>(cycles) > interrupted_cycles_) {
    ++usage_.interrupted_turns;
    return;
  }
  usage_.busy_packets += result.received;
  usage_.busy_cycles += cycles;
  const BenchStages after = stages_of(host_.stack());
  for (std::size_t i = 0; i < after.size(); ++i) usage_.stages[i] += after[i] - before[i];
}

void BenchEnd::reset_usage() noexcept {
  usage_ = {};
  reset_at_ = steady_now();
  cycles_at_reset_ = read_cycles();
  at_reset_ = host_.stack().counters();
  port_drops_at_reset_ = host_.port().counters().drops;
}

BenchUsage BenchEnd::usage() const noexcept {
  const verbs::DeviceCounters now = host_.stack().counters();
  BenchUsage u = usage_;
  u.cycles_per_second =
      static_cast<double>(read_cycles() - cycles_at_reset_) / (steady_now() - reset_at_).seconds();
  u.retransmitted = now.retransmitted_packets - at_reset_.retransmitted_packets;
  u.drops = difference(now.drops, at_reset_.drops);
  u.drops += difference(host_.port().counters().drops, port_drops_at_reset_);
  return u;
}

std::uint64_t BenchEnd::next_offset(std::size_t size) noexcept {
  if (offset_ + size > kBenchRegionBytes) offset_ = 0;
  const std::uint64_t at = offset_;
  offset_ += (size + 63) / 64 * 64;
  return at;
}

verbs::SendWr BenchEnd::next_request(std::size_t size) noexcept {
  verbs::SendWr wr;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(source_.get()), static_cast<std::uint32_t>(size),
                source_mr_.lkey};
  switch (options_.operation) {
    case BenchOperation::kSend:
      wr.opcode = verbs::WrOpcode::kSend;
      break;
    case BenchOperation::kWrite:
      wr.opcode = verbs::WrOpcode::kRdmaWrite;
      wr.remote_address = peer_.address + next_offset(size);
      wr.rkey = peer_.rkey;
      break;
    case BenchOperation::kRead:  // from the start of the peer's region into ours, walking
      wr.opcode = verbs::WrOpcode::kRdmaRead;
      wr.sges[0].address = reinterpret_cast<std::uintptr_t>(region_.get()) + next_offset(size);
      wr.sges[0].lkey = region_mr_.lkey;
      wr.remote_address = peer_.address;
      wr.rkey = peer_.rkey;
      break;
  }
  return wr;
}

std::uint64_t BenchEnd::request(std::size_t size, std::uint64_t& to_post) noexcept {
  std::array<verbs::Completion, kPostBurst> completions;
  std::uint64_t completed = 0;
  while (const std::size_t n = host_.stack().poll_cq(send_cq_, completions)) {
    for (std::size_t i = 0; i < n; ++i)
      if (completions[i].status != verbs::CompletionStatus::kSuccess) note_failure(completions[i]);
    completed += n;
  }
  in_flight_ -= completed;
  std::array<verbs::SendWr, kPostBurst> wrs;
  const std::size_t n = std::min<std::uint64_t>({to_post, options_.depth - in_flight_, kPostBurst});
  if (qpns_.size() > 1) {
    post_over_random(size, to_post, n);
    return completed;
  }
  for (std::size_t i = 0; i < n; ++i) wrs[i] = next_request(size);
  if (n > 0 && host_.stack().post_send(own_.qpn, {wrs.data(), n})) {
    in_flight_ += n;
    to_post -= n;
  }
  return completed;
}

/// A queue that is full is passed over: its completions come.
void BenchEnd::post_over_random(std::size_t size, std::uint64_t& to_post, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const verbs::SendWr wr = next_request(size);
    if (!host_.stack().post_send(qpns_[host_.random().below(qpns_.size())], {&wr, 1})) continue;
    ++in_flight_;
    --to_post;
  }
}

void BenchEnd::refill_receives(std::size_t size) noexcept {
  std::array<verbs::Completion, kPostBurst> completions;
  while (const std::size_t n = host_.stack().poll_cq(recv_cq_, completions)) {
    for (std::size_t i = 0; i < n; ++i)
      if (completions[i].status != verbs::CompletionStatus::kSuccess) note_failure(completions[i]);
    arrived_at_ = completions[n - 1].wr_id;
    receives_missing_ += n;
  }
  // The slots are as far apart as messages are long, but each takes the longest message, so that
  // receives posted in one row serve the next.
  while (receives_missing_ > 0) {
    verbs::RecvWr wr;
    wr.sge_count = 1;
    const std::uint64_t at = next_offset(size);
    const std::uint64_t fits = std::min(at, kBenchRegionBytes - kBenchMessageMax);
    wr.wr_id = fits;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(region_.get()) + fits,
                  static_cast<std::uint32_t>(kBenchMessageMax), region_mr_.lkey};
    if (!host_.stack().post_recv(own_.qpn, {&wr, 1})) return;
    --receives_missing_;
  }
}

void BenchEnd::note_failure(const verbs::Completion& completion) {
  if (failure_.empty()) failure_ = verbs::to_string(completion.status);
}

void BenchEnd::fill_source(std::uint8_t seed) noexcept {
  std::uint8_t* p = options_.operation == BenchOperation::kRead ? region_.get() : source_.get();
  for (std::size_t i = 0; i < kBenchMessageMax; ++i) p[i] = pattern(i, seed);
  offset_ = 0;
}

void BenchEnd::clear_region() noexcept {
  std::memset(region_.get(), 0, kBenchRegionBytes);
  offset_ = 0;
}

bool BenchEnd::region_holds(std::size_t size, std::uint8_t seed) const noexcept {
  for (std::size_t i = 0; i < size; ++i)
    if (region_[arrived_at_ + i] != pattern(i, seed)) return false;
  return true;
}

}  // namespace h4a::apps
