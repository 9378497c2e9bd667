// Unreliable traffic: each seed is another network and another mix of UC or UD messages. What arrives is
// a message that was sent, whole and intact; where nothing is lost everything arrives, once and in order;
// each work request completes once and in order; nothing clear leaves a protected pair; every frame comes
// home. H4A_SEEDS=FIRST:COUNT chooses; a failure names its seed.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "net/packet_view.h"
#include "sim/world.h"

#include "test/test_support.h"

namespace h4a::sim {
namespace {

using verbs::CompletionOpcode;
using verbs::QpType;

constexpr std::uint32_t kMessages = 40;
constexpr std::uint32_t kQkey = 0x0bad'cafe;

struct Scenario {
  WorldOptions world;
  PairOptions pair;
  bool is_protected = false;
  bool may_lose = false;
  bool may_reorder = false;  // or duplicate: order and "once" are off
  std::uint32_t length_max = 0;
};

Scenario draw(std::uint64_t seed) {
  SeededRandom r(seed * 104'729);
  const auto probability = [&](double most) {
    return r.below(2) == 0 ? 0.0 : static_cast<double>(r.below(1001)) / 1000 * most;
  };
  Scenario s;
  s.world.seed = seed;
  s.world.ipv6 = r.below(2) == 0;
  s.world.link.loss = probability(0.1);
  s.world.link.corrupt = probability(0.05);
  s.world.link.duplicate = probability(0.05);
  s.world.link.reorder = probability(0.05);
  s.world.link.bits_per_second = 100'000'000ULL << r.below(8);
  constexpr std::uint16_t kMtus[] = {256, 512, 1024, 2048, 4096};
  s.pair.type = r.below(2) == 0 ? QpType::kUc : QpType::kUd;
  s.pair.path_mtu = kMtus[r.below(5)];
  s.pair.queue_depth = kMessages;
  s.pair.first_psn[0] = Psn(0xffffff - static_cast<std::uint32_t>(r.below(40)));
  s.pair.first_psn[1] = Psn(r.u32());
  s.is_protected = r.below(2) == 0;
  s.length_max = s.pair.type == QpType::kUd ? s.pair.path_mtu : 6 * s.pair.path_mtu;
  s.may_lose = s.world.link.loss + s.world.link.corrupt > 0;
  s.may_reorder = s.world.link.duplicate + s.world.link.reorder > 0;
  return s;
}

/// Two UD queue pairs with address handles, in the shape of connect_pair().
struct DatagramPair {
  Pair pair;
  verbs::AhId to_peer[2];
};

DatagramPair connect_ud(World& world, const Scenario& s, const Protection& protection) {
  DatagramPair d;
  for (std::size_t i = 0; i < 2; ++i) {
    stack::Stack& host = world.host(i);
    Endpoint& e = d.pair.of_host[i];
    e.pd = *host.alloc_pd();
    e.cq = *host.create_cq(4 * s.pair.queue_depth);
    e.qpn = *host.create_qp({.type = QpType::kUd,
                             .pd = e.pd,
                             .send_cq = e.cq,
                             .recv_cq = e.cq,
                             .max_send_wr = s.pair.queue_depth,
                             .max_recv_wr = s.pair.queue_depth});
    assert_ok(host.to_init(e.qpn, {.qkey = kQkey}));
    assert_ok(
        host.to_rtr(e.qpn, {.path_mtu = s.pair.path_mtu, .association = protection.of_host[i]}));
    assert_ok(host.to_rts(e.qpn, {.sq_psn = s.pair.first_psn[i]}));
    d.to_peer[i] = *host.create_ah(e.pd, {.local_address = world.address(i),
                                          .remote_address = world.address(1 - i),
                                          .association = protection.of_host[i]});
  }
  return d;
}

class Traffic {
 public:
  Traffic(World& world, const Scenario& s, const Protection& protection)
      : world_(world), scenario_(s) {
    DatagramPair d;
    if (s.pair.type == QpType::kUd) {
      d = connect_ud(world, s, protection);
    } else {
      d.pair = connect_pair(world, s.pair, protection);
    }
    for (std::size_t i = 0; i < 2; ++i) start(i, d.pair.of_host[i], d.to_peer[i]);
    for (std::size_t i = 0; i < 2; ++i) exchange_keys(i);
  }

  void poll() {
    for (std::size_t i = 0; i < 2; ++i) {
      verbs::Completion batch[16];
      while (const std::size_t n = world_.host(i).poll_cq(sides_[i].e.cq, batch))
        for (std::size_t k = 0; k < n; ++k) complete(i, batch[k]);
      if (world_.random().below(4) == 0) post(i);
    }
  }
  [[nodiscard]] bool all_sent() const {
    return sides_[0].completed == kMessages && sides_[1].completed == kMessages;
  }
  [[nodiscard]] const std::string& error() const { return error_; }
  void check_complete() {
    if (scenario_.may_lose || scenario_.may_reorder) return;
    for (const Side& s : sides_)
      if (s.delivered != kMessages) error_ = "a message was lost where nothing is lost";
  }
  [[nodiscard]] std::uint64_t delivered() const {
    return sides_[0].delivered + sides_[1].delivered;
  }

 private:
  struct Message {
    std::uint32_t length;
    bool write;
  };
  struct Side {
    Endpoint e;
    verbs::AhId to_peer;
    std::vector<std::uint8_t> source, target, receive;
    verbs::MemoryRegion source_mr, target_mr, receive_mr;
    std::uint64_t target_address = 0;  // of the peer
    Rkey target_rkey;
    std::vector<Message> messages;
    std::deque<std::uint64_t> posted_receives;
    std::uint32_t posted = 0, completed = 0, delivered = 0;
    std::int64_t last = -1;  // number of the last message that came
  };

  void fail_with(const char* what) {
    if (error_.empty()) error_ = what;
  }
  [[nodiscard]] std::size_t grh() const {
    return scenario_.pair.type == QpType::kUd ? verbs::kGrhBytes : 0;
  }
  [[nodiscard]] std::size_t slot_size() const { return grh() + scenario_.length_max; }

  void start(std::size_t i, const Endpoint& e, verbs::AhId to_peer) {
    Side& s = sides_[i];
    s.e = e;
    s.to_peer = to_peer;
    s.source.resize(kMessages * scenario_.length_max);
    world_.random().fill(s.source);
    s.target.resize(kMessages * scenario_.length_max);
    s.receive.resize(kMessages * slot_size());
    auto& host = world_.host(i);
    using verbs::Access;
    s.source_mr =
        *host.register_memory(e.pd, s.source.data(), s.source.size(), Access::kNone, kClear);
    s.target_mr = *host.register_memory(e.pd, s.target.data(), s.target.size(),
                                        Access::kLocalWrite | Access::kRemoteWrite, kClear);
    s.receive_mr = *host.register_memory(e.pd, s.receive.data(), s.receive.size(),
                                         Access::kLocalWrite, kClear);
    for (std::uint64_t n = 0; n < kMessages; ++n) post_receive(i, n);
    for (std::uint32_t n = 0; n < kMessages; ++n) {
      const bool write = scenario_.pair.type == QpType::kUc && world_.random().below(2) == 0;
      s.messages.push_back({random_length(), write});
    }
  }
  std::uint32_t random_length() {
    const std::uint32_t mtu = scenario_.pair.path_mtu;
    const std::uint32_t edges[] = {0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 2};
    const auto pick = world_.random().below(12);
    const auto any = static_cast<std::uint32_t>(world_.random().below(scenario_.length_max + 1));
    return pick < std::size(edges) ? std::min(edges[pick], scenario_.length_max) : any;
  }
  void exchange_keys(std::size_t i) {
    const Side& peer = sides_[1 - i];
    sides_[i].target_address = reinterpret_cast<std::uintptr_t>(peer.target.data());
    sides_[i].target_rkey = peer.target_mr.rkey;
  }
  void post_receive(std::size_t i, std::uint64_t slot) {
    Side& s = sides_[i];
    verbs::RecvWr wr;
    wr.wr_id = slot;
    wr.sge_count = 1;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.receive.data()) + slot * slot_size(),
                  static_cast<std::uint32_t>(slot_size()), s.receive_mr.lkey};
    if (!world_.host(i).post_recv(s.e.qpn, {&wr, 1})) return fail_with("post_recv");
    s.posted_receives.push_back(slot);
  }
  void post(std::size_t i) {
    Side& s = sides_[i];
    if (s.posted == kMessages) return;
    const std::uint32_t n = s.posted;
    const Message& m = s.messages[n];
    const std::uint64_t at = std::uint64_t{n} * scenario_.length_max;
    verbs::SendWr wr;
    wr.wr_id = 1000 + n;
    wr.opcode = m.write ? verbs::WrOpcode::kRdmaWriteWithImm : verbs::WrOpcode::kSendWithImm;
    wr.sge_count = 1;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.source.data()) + at, m.length,
                  s.source_mr.lkey};
    wr.imm = n;
    wr.remote_address = s.target_address + at;
    wr.rkey = s.target_rkey;
    wr.ah = s.to_peer;
    wr.remote_qpn = sides_[1 - i].e.qpn;
    wr.remote_qkey = kQkey;
    if (!world_.host(i).post_send(s.e.qpn, {&wr, 1})) return fail_with("post_send");
    ++s.posted;
  }
  void complete(std::size_t i, const verbs::Completion& c) {
    Side& s = sides_[i];
    if (c.status != verbs::CompletionStatus::kSuccess) return fail_with("a completion failed");
    const bool receive =
        c.opcode == CompletionOpcode::kRecv || c.opcode == CompletionOpcode::kRecvRdmaWithImm;
    if (receive) return complete_receive(i, c);
    if (c.wr_id != 1000 + s.completed) return fail_with("a send completed twice or out of order");
    ++s.completed;
  }
  void complete_receive(std::size_t i, const verbs::Completion& c) {
    Side& s = sides_[i];
    const Side& peer = sides_[1 - i];
    if (s.posted_receives.empty() || s.posted_receives.front() != c.wr_id)
      return fail_with("a receive completed twice or out of order");
    s.posted_receives.pop_front();
    if (!c.has_imm || c.imm >= peer.posted) return fail_with("a message that nobody sent");
    const Message& m = peer.messages[c.imm];
    if (m.write != (c.opcode == CompletionOpcode::kRecvRdmaWithImm)) return fail_with("wrong kind");
    if (c.byte_len != m.length + (m.write ? 0 : grh())) return fail_with("wrong length");
    const std::size_t at = std::size_t{c.imm} * scenario_.length_max;
    const std::uint8_t* got =
        m.write ? s.target.data() + at : s.receive.data() + c.wr_id * slot_size() + grh();
    if (!std::equal(got, got + m.length, peer.source.data() + at)) return fail_with("wrong bytes");
    if (!scenario_.may_reorder && c.imm <= s.last) return fail_with("twice, or out of order");
    s.last = c.imm;
    ++s.delivered;
    post_receive(i, c.wr_id);
  }

  World& world_;
  Scenario scenario_;
  Side sides_[2];
  std::string error_;
};

std::string run(std::uint64_t seed, std::uint64_t& delivered) {
  const Scenario s = draw(seed);
  World world(s.world);
  std::string leak;
  Protection protection;
  if (s.is_protected) {
    protection = protect(world);
    world.link().set_tap([&](std::size_t, Bytes frame, Instant) {
      const auto view = net::parse_packet(frame);
      if (!view || (view->ip_version != 0 && view->protocol == net::IpProtocol::kUdp))
        leak = "a clear packet left a protected queue pair";
    });
  }
  Traffic traffic(world, s, protection);
  world.set_application([&](Instant now) {
    traffic.poll();
    return now + Duration::us(20);
  });
  const bool sent = world.run_until([&] { return traffic.all_sent() || !traffic.error().empty(); },
                                    Duration::s(5));
  world.run_for(Duration::ms(50));  // the last ones arrive
  traffic.check_complete();
  delivered += traffic.delivered();
  if (!traffic.error().empty()) return traffic.error();
  if (!leak.empty()) return leak;
  if (!sent) return "sends did not complete";
  world.set_application({});
  if (!world.run_until([&] { return world.link().all_frames_home(); }, Duration::s(2)))
    return "frames are missing from their pools";
  return {};
}

void what_arrives_was_sent(void**) {
  unsigned long long first = 1, count = 300;
  if (const char* text = std::getenv("H4A_SEEDS"))
    static_cast<void>(std::sscanf(text, "%llu:%llu", &first, &count));
  std::uint64_t delivered = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string error = run(seed, delivered);
    if (!error.empty())
      fail_msg("seed %llu: %s (run with H4A_SEEDS=%llu:1)", static_cast<unsigned long long>(seed),
               error.c_str(), static_cast<unsigned long long>(seed));
  }
  assert_true(delivered > count * kMessages);  // of twice as many that were sent
}

}  // namespace
}  // namespace h4a::sim

int main() {
  using namespace h4a::sim;
  const CMUnitTest tests[] = {cmocka_unit_test(what_arrives_was_sent)};
  return cmocka_run_group_tests_name("unreliable", tests, nullptr, nullptr);
}
