// Two connection managers and their applications over a network that loses, duplicates, reorders and
// corrupts: thousands of seeds. Checked in each: every connect ends in exactly one outcome on either
// side, the events of an id come in a legal order, what two connected queue pairs were told fits, and
// nothing is left in the tables when all is over.
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "roce/cm/test_pair.h"

#include "test/test_support.h"

namespace h4a::roce::cm {
namespace {

using test::host_address;
using Type = verbs::CmEvent::Type;

struct Faults {
  double loss = 0;
  double duplicate = 0;
  double delay = 0;    // by up to two seconds, past others
  double corrupt = 0;  // one bit of what arrives; otherwise corruption is loss, by the ICRC
  double forge = 0;    // a random MAD beside a real one
};

/// Messages between the two hosts.
class Network {
 public:
  Network(Random& random, Faults faults) : random_(random), faults_(faults) {}

  void send(std::size_t from, const Output& o, Instant now) {
    if (chance(faults_.loss)) return;
    schedule(from, o, now);
    if (chance(faults_.duplicate)) schedule(from, o, now);
    if (chance(faults_.forge)) {
      Output forged = o;
      random_.fill(MutableBytes(forged.mad).subspan(24, 40));
      schedule(from, forged, now);
    }
  }
  [[nodiscard]] Instant next() const {
    return packets_.empty() ? Instant::never() : packets_.begin()->first;
  }
  /// The next message that has arrived by `now`, and who sent it.
  [[nodiscard]] bool take(Instant now, std::size_t& from, Output& out) {
    if (next() > now) return false;
    from = packets_.begin()->second.first;
    out = packets_.begin()->second.second;
    packets_.erase(packets_.begin());
    return true;
  }
  void heal() { faults_ = {}; }

 private:
  [[nodiscard]] bool chance(double p) {
    return p > 0 && static_cast<double>(random_.below(1'000'000)) < p * 1e6;
  }
  void schedule(std::size_t from, Output o, Instant now) {
    auto delay = static_cast<std::int64_t>(10 + random_.below(1000));
    if (chance(faults_.delay)) delay += static_cast<std::int64_t>(random_.below(2'000'000));
    if (chance(faults_.corrupt)) {
      const auto bit = random_.below(o.mad.size() * 8);
      o.mad[bit / 8] = static_cast<std::uint8_t>(o.mad[bit / 8] ^ (1U << bit % 8));
    }
    packets_.emplace(now + Duration::us(delay), std::pair(from, o));
  }

  Random& random_;
  Faults faults_;
  std::multimap<Instant, std::pair<std::size_t, Output>> packets_;
};

/// What an application saw of one id.
struct Life {
  bool active = false;
  bool answered = false;  // passive: accept() or reject() was called
  bool accepted = false;
  bool established = false;
  bool ended = false;
  bool destroyed = false;
  std::uint32_t qpn = 0;
  verbs::QpType type = verbs::QpType::kRc;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, Faults faults)
      : honest_(faults.corrupt == 0 && faults.forge == 0),
        random_(seed),
        network_(random_, faults) {
    for (auto& m : managers_) m = std::make_unique<Manager>(Options{}, random_);
  }

  /// @return nullptr if all is well, else what is wrong.
  [[nodiscard]] const char* run() {
    auto ud = test::Pair::listen_options(verbs::QpType::kUd);
    static_cast<void>(managers_[1]->listen(test::Pair::listen_options()));
    static_cast<void>(managers_[1]->listen(ud));
    const std::size_t connects = 1 + random_.below(8);
    for (std::size_t i = 0; i < connects; ++i)
      plan(now_ + Duration::ms(static_cast<std::int64_t>(random_.below(5000))),
           [this] { connect(); });
    advance(Duration::s(20));
    network_.heal();
    advance(Duration::s(60));
    if (problem_ != nullptr) return problem_;
    for (std::size_t host = 0; host < 2; ++host)
      for (const auto& [id, life] : lives_[host])
        if (!life.destroyed && !settled(life)) return "an id without an outcome";
    for (std::size_t host = 0; host < 2; ++host)
      for (auto& [id, life] : lives_[host]) destroy(host, id);
    advance(Duration::s(30));
    for (auto& m : managers_)
      if (m->connections() != 0) return "connections are left";
    return problem_;
  }
  [[nodiscard]] std::size_t established() const { return established_; }

 private:
  void plan(Instant at, std::function<void()> f) { plans_.emplace(at, std::move(f)); }
  void fail(const char* what) {
    if (problem_ == nullptr) problem_ = what;
  }
  [[nodiscard]] static bool settled(const Life& life) {
    if (life.active) return life.established || life.ended;
    return !life.accepted || life.established || life.ended;
  }

  void advance(Duration span) {
    const Instant end = now_ + span;
    while (problem_ == nullptr) {
      turn();
      Instant next = network_.next();
      for (auto& m : managers_) next = std::min(next, m->next_deadline());
      if (!plans_.empty()) next = std::min(next, plans_.begin()->first);
      if (next > end) break;
      now_ = std::max(now_, next);
    }
    now_ = end;
  }
  void turn() {
    while (!plans_.empty() && plans_.begin()->first <= now_) {
      const auto f = std::move(plans_.begin()->second);
      plans_.erase(plans_.begin());
      f();
    }
    std::size_t from;
    Output o;
    while (network_.take(now_, from, o)) receive(1 - from, o);
    for (std::size_t host = 0; host < 2; ++host) {
      managers_[host]->run_timers(now_);
      verbs::CmEvent e;
      while (managers_[host]->poll_event(e)) on_event(host, e);
      while (managers_[host]->next_output(o)) network_.send(host, o, now_);
    }
  }
  void receive(std::size_t host, const Output& o) {
    const Peer from{o.peer.remote, o.peer.local, o.peer.association};
    Manager& m = *managers_[host];
    const Received r = m.receive(from, o.mad, 4096, now_);
    if (r.replied == verbs::CmId{}) return;
    const auto s = m.settings(r.replied, {});
    if (!s) return fail("no settings for a REP");
    settings_[s->qpn.value()] = *s;
    random_.below(30) == 0 ? m.refuse(r.replied, now_) : m.ready(r.replied);
  }

  void connect() {
    const bool ud = random_.below(4) == 0;
    auto o = test::Pair::connect_options(ud ? verbs::QpType::kUd : verbs::QpType::kRc);
    o.qp = test::Pair::qp(next_qpn_++);
    if (random_.below(10) == 0) o.port = 9;  // nobody listens
    const auto id = managers_[0]->connect(o, now_);
    if (!id) return fail("connect");
    Life& life = lives_[0][*id];
    life.active = true;
    life.qpn = o.qp.qpn.value();
    life.type = o.type;
    if (random_.below(8) == 0) later(0, *id, &Simulation::destroy);
  }
  void later(std::size_t host, verbs::CmId id, void (Simulation::*f)(std::size_t, verbs::CmId)) {
    const auto ms = static_cast<std::int64_t>(random_.below(4) == 0 ? 0 : random_.below(8000));
    plan(now_ + Duration::ms(ms), [this, host, id, f] { (this->*f)(host, id); });
  }
  void answer(std::size_t host, verbs::CmId id) {
    Life& life = lives_[host].at(id);
    if (life.destroyed || life.answered) return;
    life.answered = true;
    if (random_.below(6) == 0) {
      static_cast<void>(managers_[host]->reject(id, {}, now_));
      return;
    }
    verbs::CmAcceptOptions accept;
    life.qpn = next_qpn_++;
    accept.qp = test::Pair::qp(life.qpn);
    const auto s = managers_[host]->settings(id, accept.qp);
    life.accepted =
        managers_[host]->accept(id, accept, now_).has_value() && life.type != verbs::QpType::kUd;
    if (life.accepted && s) settings_[life.qpn] = *s;
  }
  void disconnect(std::size_t host, verbs::CmId id) {
    const Life& life = lives_[host].at(id);
    if (!life.destroyed) static_cast<void>(managers_[host]->disconnect(id, {}, now_));
  }
  void destroy(std::size_t host, verbs::CmId id) {
    Life& life = lives_[host].at(id);
    if (life.destroyed) return;
    life.destroyed = true;
    if (!managers_[host]->destroy(id, now_)) fail("destroy");
  }

  void on_event(std::size_t host, const verbs::CmEvent& e) {
    if (e.type == Type::kConnectRequest) {
      if (!lives_[host].emplace(e.id, Life{}).second) return fail("a second request for one id");
      lives_[host][e.id].type = e.qp_type;
      later(host, e.id, random_.below(12) == 0 ? &Simulation::destroy : &Simulation::answer);
      return;
    }
    const auto at = lives_[host].find(e.id);
    if (at == lives_[host].end()) return fail("an event for an unknown id");
    Life& life = at->second;
    if (life.destroyed) return fail("an event after destroy");
    if (life.ended) return fail("an event after the end");
    if (e.type == Type::kEstablished) {
      if (life.established) fail("established twice");
      life.established = true;
      ++established_;
      if (life.type != verbs::QpType::kUd) check_agreement(life, e);
      if (random_.below(2) == 0)
        later(host, e.id,
              life.type != verbs::QpType::kUd ? &Simulation::disconnect : &Simulation::destroy);
      return;
    }
    if ((e.type == Type::kDisconnected) != life.established) fail("an end of the wrong kind");
    life.ended = true;
    if (random_.below(2) == 0) later(host, e.id, &Simulation::destroy);
  }
  /// What both queue pairs were told fits together.
  void check_agreement(const Life& life, const verbs::CmEvent& e) {
    const auto own = settings_.find(life.qpn);
    const auto other = settings_.find(e.remote_qpn.value());
    if (own == settings_.end()) return fail("established without settings");
    if (!honest_) return;
    if (other == settings_.end()) return fail("established with nobody");
    const QpSettings& a = own->second;
    const QpSettings& b = other->second;
    if (a.rtr.remote_qpn != b.qpn || b.rtr.remote_qpn != a.qpn) fail("queue pairs of two others");
    if (a.rtr.rq_psn != b.rts.sq_psn || b.rtr.rq_psn != a.rts.sq_psn) fail("PSNs differ");
    if (a.rtr.path_mtu != b.rtr.path_mtu) fail("path MTUs differ");
    if (a.rts.max_rd_atomic > b.rtr.max_dest_rd_atomic) fail("more READs than are served");
    if (b.rts.max_rd_atomic > a.rtr.max_dest_rd_atomic) fail("more READs than are served");
  }

  bool honest_;
  SeededRandom random_;
  Network network_;
  std::unique_ptr<Manager> managers_[2];
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::multimap<Instant, std::function<void()>> plans_;
  std::map<verbs::CmId, Life> lives_[2];
  std::map<std::uint32_t, QpSettings> settings_;  // by queue pair number, unique in the world
  std::uint32_t next_qpn_ = 0x100;
  std::size_t established_ = 0;
  const char* problem_ = nullptr;
};

void run_seeds(std::uint64_t first, std::uint64_t count, Faults faults) {
  std::size_t established = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Simulation s(seed, faults);
    const char* problem = s.run();
    established += s.established();
    if (problem != nullptr)
      fail_msg("seed %llu: %s", static_cast<unsigned long long>(seed), problem);
  }
  assert_true(established > count);  // the runs did something
}

void clean_network(void**) {
  run_seeds(1, 300, {});
}
void lossy_network(void**) {
  run_seeds(10'000, 1000, {.loss = 0.2, .duplicate = 0.1, .delay = 0.1, .corrupt = 0, .forge = 0});
}
void very_lossy_network(void**) {
  run_seeds(20'000, 300, {.loss = 0.6, .duplicate = 0.3, .delay = 0.3, .corrupt = 0, .forge = 0});
}
/// Nothing can be said about what connects; but every id has one outcome and nothing leaks.
void hostile_network(void**) {
  run_seeds(30'000, 1000,
            {.loss = 0.1, .duplicate = 0.1, .delay = 0.1, .corrupt = 0.2, .forge = 0.3});
}

}  // namespace
}  // namespace h4a::roce::cm

int main() {
  using namespace h4a::roce::cm;
  const CMUnitTest tests[] = {
      cmocka_unit_test(clean_network),
      cmocka_unit_test(lossy_network),
      cmocka_unit_test(very_lossy_network),
      cmocka_unit_test(hostile_network),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
