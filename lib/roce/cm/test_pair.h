// Two managers and the messages between them, one by one: for the tests of the connection manager.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "roce/cm/manager.h"

namespace h4a::roce::cm::test {

inline IpAddress host_address(std::size_t i) {
  return IpAddress::v4(10, 77, 0, static_cast<std::uint8_t>(i + 1));
}

class Pair {
 public:
  static constexpr std::uint16_t kPort = 7174;

  explicit Pair(Options options = {}) : a(options, random), b(options, random) {}

  /// Parameters of a queue pair with this number.
  static verbs::CmQpParameters qp(std::uint32_t qpn) {
    verbs::CmQpParameters p;
    p.qpn = Qpn(qpn);
    return p;
  }
  static verbs::CmConnectOptions connect_options(verbs::QpType type = verbs::QpType::kRc) {
    verbs::CmConnectOptions o;
    o.type = type;
    o.local_address = host_address(0);
    o.remote_address = host_address(1);
    o.port = kPort;
    o.path_mtu = 1024;
    o.qp = qp(0x100);
    return o;
  }
  static verbs::CmListenOptions listen_options(verbs::QpType type = verbs::QpType::kRc) {
    verbs::CmListenOptions o;
    o.type = type;
    o.port = kPort;
    return o;
  }

  /// Everything that waits at one side. `from_a` tells the direction.
  std::vector<Output> take(bool from_a) {
    std::vector<Output> out;
    Output o;
    while ((from_a ? a : b).next_output(o)) out.push_back(o);
    return out;
  }
  /// Hands one message over. @return what the receiver made of it.
  Received deliver(bool to_b, const Output& o) {
    const Peer from{o.peer.remote, o.peer.local, o.peer.association};
    Manager& to = to_b ? b : a;
    const Received r = to.receive(from, o.mad, max_path_mtu, now);
    if (r.replied != verbs::CmId{}) {
      replied_settings = *to.settings(r.replied, {});
      to.ready(r.replied);
    }
    return r;
  }
  /// Hands all messages over until none is left.
  void settle() {
    for (;;) {
      const auto ab = take(true);
      const auto ba = take(false);
      if (ab.empty() && ba.empty()) return;
      for (const Output& o : ab) static_cast<void>(deliver(true, o));
      for (const Output& o : ba) static_cast<void>(deliver(false, o));
    }
  }
  /// Time passes with messages handed over.
  void run(Duration span) {
    const Instant end = now + span;
    for (;;) {
      settle();
      const Instant next = std::min(a.next_deadline(), b.next_deadline());
      if (next > end) break;
      now = next;
      a.run_timers(now);
      b.run_timers(now);
    }
    now = end;
  }
  static std::vector<verbs::CmEvent> events(Manager& m) {
    std::vector<verbs::CmEvent> out;
    verbs::CmEvent e;
    while (m.poll_event(e)) out.push_back(e);
    return out;
  }
  /// "connect_request established …", for comparing.
  static std::string event_names(Manager& m) {
    std::string names;
    for (const auto& e : events(m)) names += std::string(to_string(e.type)) + " ";
    return names;
  }
  template <class Message>
  static Message as(const Output& o) {
    return std::get<Message>(net::parse_cm(o.mad)->message);
  }

  /// A connection in RTS at both ends; ids in `id_a` and `id_b`, events read.
  void establish() {
    static_cast<void>(b.listen(listen_options()));
    id_a = *a.connect(connect_options(), now);
    settle();
    id_b = events(b).at(0).id;
    verbs::CmAcceptOptions accept;
    accept.qp = qp(0x200);
    static_cast<void>(b.accept(id_b, accept, now));
    settle();
    events(a);
    events(b);
  }

  SeededRandom random{1};
  Manager a, b;
  Instant now = Instant::from_ns(1'000'000'000);
  std::uint16_t max_path_mtu = 4096;
  QpSettings replied_settings;
  verbs::CmId id_a, id_b;
};

/// The pair of the case that runs; CM_TEST makes a new one for each.
inline std::unique_ptr<Pair> g_pair;

inline int make_pair(void**) {
  g_pair = std::make_unique<Pair>();
  return 0;
}
inline int drop_pair(void**) {
  g_pair.reset();
  return 0;
}

}  // namespace h4a::roce::cm::test

#define CM_TEST(f) \
  cmocka_unit_test_setup_teardown(f, h4a::roce::cm::test::make_pair, h4a::roce::cm::test::drop_pair)
