// SAs that reach their limits: the event that says so, once for each SA and limit, in both directions.
//
// A packet of the tests costs its key three AES blocks, so that with limits of 6 and 12 the second packet
// reaches the soft one and the fourth the hard one.
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "ipsec/esp_fixture.h"
#include "net/arp.h"
#include "net/ether.h"
#include "packet/test_port.h"
#include "stack/stack.h"

#include "test/test_support.h"

namespace h4a::stack {
namespace {

using ipsec::test::EspPair;
using Type = verbs::AsyncEvent::Type;

constexpr Instant kNow = Instant::from_ns(1'000'000'000);
const MacAddress kOurMac({2, 0, 0, 0, 0, 1});  // TestPort's
const MacAddress kPeerMac({2, 0, 0, 0, 0, 2});
constexpr std::uint8_t kDummy = 59;  // RFC 4303 §2.6
const std::vector<std::uint8_t> kPayload(20);

struct Bench {
  packet::test::TestPort port{64};
  SeededRandom random{1};
  EspPair pair;  // 10.0.0.2 sends to 10.0.0.1
  IpAddress ours = pair.destination();
  IpAddress peer = IpAddress::v4(10, 0, 0, 2);
  Stack stack{port,
              {.addresses = {{ours, 24}},
               .gateways = {},
               .engine = {},
               .sa_limits = {.soft_blocks = 6, .hard_blocks = 12}},
              random};
  AssociationId association = *stack.create_association({ours, peer});

  void install(verbs::SaDirection direction, Spi spi) {
    verbs::SaOptions sa;
    sa.direction = direction;
    sa.spi = spi;
    sa.key = Secret<kEspKeyMaterialMax>(Bytes(pair.key()));
    assert_ok(stack.install_sa(association, std::move(sa)));
  }
  void receive(std::uint64_t sequence, Spi spi = Spi(ipsec::test::kSpi),
               std::uint8_t next_header = ipsec::test::kUdp) {
    packet::Frame* const f =
        pair.crafted(ipsec::test::text_of(kPayload, next_header), sequence, spi.value());
    std::vector<std::uint8_t> frame(f->data(), f->data() + f->size());
    pair.pool.release({&f, 1});
    net::EtherFields e;
    e.destination = kOurMac;
    e.source = kPeerMac;
    e.type = net::EtherType::kIpv4;
    net::build(frame.data(), e);
    port.deliver(frame);
    (void)stack.poll_once(kNow);
  }
  /// An ARP request of the peer, from which the stack learns its MAC address.
  void meet_peer() {
    net::EtherFields e;
    e.destination = MacAddress::broadcast();
    e.source = kPeerMac;
    e.type = net::EtherType::kArp;
    std::vector<std::uint8_t> frame(net::header_size(e) + net::ArpView::kSize);
    net::build(frame.data(), e);
    net::build(frame.data() + net::header_size(e), net::arp_request(kPeerMac, peer, ours));
    port.deliver(frame);
    (void)stack.poll_once(kNow);
  }
  /// Takes the events that are there; each is of our association.
  std::vector<Type> events() {
    std::array<verbs::AsyncEvent, 8> out;
    const std::size_t n = stack.poll_events(out);
    std::vector<Type> types;
    for (std::size_t i = 0; i < n; ++i) {
      assert_eq(out[i].association, association);
      types.push_back(out[i].type);
    }
    return types;
  }
};

const std::vector<Type> kNothing;
const std::vector<Type> kSoft = {Type::kSaSoftLimit};
const std::vector<Type> kHard = {Type::kSaHardLimit};

void an_inbound_sa_reports_each_limit_once(void**) {
  Bench b;
  b.install(verbs::SaDirection::kInbound, Spi(ipsec::test::kSpi));
  const std::vector<Type> expected[] = {kNothing, kSoft, kNothing, kHard, kNothing};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    b.receive(i + 1);
    assert_true(b.events() == expected[i]);
  }
  assert_int_equal(b.stack.counters().drops[Drop::kSaExpired], 1);
}

/// Packets that are dropped once they were opened use the key up all the same.
void dummies_count(void**) {
  Bench b;
  b.install(verbs::SaDirection::kInbound, Spi(ipsec::test::kSpi));
  b.receive(1, Spi(ipsec::test::kSpi), kDummy);
  assert_true(b.events() == kNothing);
  b.receive(2, Spi(ipsec::test::kSpi), kDummy);
  assert_true(b.events() == kSoft);
}

void the_next_sa_reports_its_own(void**) {
  Bench b;
  const Spi next(0x777);
  b.install(verbs::SaDirection::kInbound, Spi(ipsec::test::kSpi));
  for (std::uint64_t i = 1; i <= 2; ++i) b.receive(i);
  assert_true(b.events() == kSoft);
  b.install(verbs::SaDirection::kInbound, next);
  b.receive(1, next);
  assert_true(b.events() == kNothing);
  b.receive(2, next);
  assert_true(b.events() == kSoft);
  assert_ok(b.stack.remove_sa(b.association, verbs::SaDirection::kInbound, next));
  for (std::uint64_t i = 3; i <= 4; ++i) b.receive(i);
  assert_true(b.events() == kHard);
}

void replays_do_not_count(void**) {
  Bench b;
  b.install(verbs::SaDirection::kInbound, Spi(ipsec::test::kSpi));
  for (int i = 0; i < 20; ++i) b.receive(1);  // replays, but for the first
  assert_true(b.events() == kNothing);
  assert_int_equal(b.stack.counters().drops[Drop::kReplayed], 19);
}

/// Events that nobody fetches fill the queue; what found no room is raised when there is some.
void an_event_waits_for_room(void**) {
  Bench b;
  std::vector<Spi> spis;
  for (std::uint32_t i = 0; i < 257; ++i) {
    spis.emplace_back(1000 + i);
    b.install(verbs::SaDirection::kInbound, spis.back());
    for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) b.receive(sequence, spis.back());
  }
  std::size_t soft = 0;
  for (std::vector<Type> some = b.events(); !some.empty(); some = b.events()) soft += some.size();
  assert_int_equal(soft, 256);
  b.receive(3, spis.front());
  assert_true(b.events() == kSoft);
}

void an_outbound_sa_reports_each_limit_once(void**) {
  Bench b;
  b.install(verbs::SaDirection::kOutbound, Spi(0x888));
  verbs::QpOptions o;
  o.pd = *b.stack.alloc_pd();
  o.send_cq = o.recv_cq = *b.stack.create_cq(16);
  const Qpn qpn = *b.stack.create_qp(o);
  verbs::RtrAttributes a;
  a.local_address = b.ours;
  a.remote_address = b.peer;
  a.association = b.association;
  assert_ok(b.stack.to_init(qpn, {}));
  assert_ok(b.stack.to_rtr(qpn, a));
  assert_ok(b.stack.to_rts(qpn, {}));
  b.meet_peer();  // else the QP would wait after its first packet
  std::vector<Type> seen;
  for (int i = 0; i < 8; ++i) {  // an empty SEND is 24 octets behind the IP header: three blocks
    verbs::SendWr wr;
    assert_ok(b.stack.post_send(qpn, {&wr, 1}));
    (void)b.stack.poll_once(kNow);
    const auto now = b.events();
    seen.insert(seen.end(), now.begin(), now.end());
    if (i == 0) assert_true(seen == kNothing);
    if (i == 1) assert_true(seen == kSoft);
  }
  assert_true(seen == (std::vector<Type>{Type::kSaSoftLimit, Type::kSaHardLimit}));
  assert_int_equal(b.stack.counters().drops[Drop::kSaExpired], 4);
}

}  // namespace
}  // namespace h4a::stack

int main() {
  using namespace h4a::stack;
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_inbound_sa_reports_each_limit_once),
      cmocka_unit_test(dummies_count),
      cmocka_unit_test(the_next_sa_reports_its_own),
      cmocka_unit_test(replays_do_not_count),
      cmocka_unit_test(an_event_waits_for_room),
      cmocka_unit_test(an_outbound_sa_reports_each_limit_once),
  };
  return cmocka_run_group_tests_name("sa_limits", tests, nullptr, nullptr);
}
