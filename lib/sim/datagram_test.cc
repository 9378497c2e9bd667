// Datagrams between two whole stacks: the header that is delivered is the one that was on the wire, a
// reply finds its way by it, through ESP too; the marks of an address handle are in every frame.
#include "verbs/datagram.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "net/packet_view.h"
#include "sim/world.h"

#include "test/test_support.h"

namespace h4a::sim {
namespace {

using verbs::kGrhBytes;

constexpr std::uint32_t kQkey = 0x0123'4567;

/// A UD queue pair with one receive of 2 KiB posted, and a buffer to send from.
class Side {
 public:
  Side(World& world, std::size_t host, AssociationId association)
      : world_(world), stack_(world.host(host)), address_(world.address(host)), memory_(8192) {
    pd_ = *stack_.alloc_pd();
    cq_ = *stack_.create_cq(16);
    region_ = *stack_.register_memory(pd_, memory_.data(), memory_.size(),
                                      verbs::Access::kLocalWrite, kClear);
    qpn_ =
        *stack_.create_qp({.type = verbs::QpType::kUd, .pd = pd_, .send_cq = cq_, .recv_cq = cq_});
    assert_ok(stack_.to_init(qpn_, {.qkey = kQkey}));
    assert_ok(stack_.to_rtr(qpn_, {.path_mtu = 1024, .association = association}));
    assert_ok(stack_.to_rts(qpn_, {}));
    verbs::RecvWr wr;
    wr.sge_count = 1;
    wr.sges[0] = {at(0), 2048, region_.lkey};
    assert_ok(stack_.post_recv(qpn_, {&wr, 1}));
  }
  Result<verbs::AhId> address(const verbs::AhAttributes& a) { return stack_.create_ah(pd_, a); }
  void send(verbs::AhId to, Qpn qpn, const std::string& text) {
    std::memcpy(memory_.data() + 4096, text.data(), text.size());
    verbs::SendWr wr;
    wr.sge_count = 1;
    wr.sges[0] = {at(4096), static_cast<std::uint32_t>(text.size()), region_.lkey};
    wr.ah = to;
    wr.remote_qpn = qpn;
    wr.remote_qkey = kQkey;
    assert_ok(stack_.post_send(qpn_, {&wr, 1}));
  }
  /// The next completion of a receive.
  verbs::Completion receive() {
    std::optional<verbs::Completion> got;
    const bool came = world_.run_until(
        [&] {
          verbs::Completion c;
          if (stack_.poll_cq(cq_, {&c, 1}) == 1 && c.opcode == verbs::CompletionOpcode::kRecv)
            got = c;
          return got.has_value();
        },
        Duration::s(2));
    assert_true(came);
    return *got;
  }
  [[nodiscard]] Qpn qpn() const { return qpn_; }
  [[nodiscard]] const IpAddress& ip() const { return address_; }
  [[nodiscard]] Bytes grh() const { return Bytes(memory_).first(kGrhBytes); }
  [[nodiscard]] std::string text(std::size_t n) const {
    return {reinterpret_cast<const char*>(memory_.data()) + kGrhBytes, n};
  }
  [[nodiscard]] stack::Stack& stack() { return stack_; }
  [[nodiscard]] verbs::PdId pd() const { return pd_; }

 private:
  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(memory_.data()) + offset;
  }
  World& world_;
  stack::Stack& stack_;
  IpAddress address_;
  std::vector<std::uint8_t> memory_;
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::MemoryRegion region_;
  Qpn qpn_;
};

void exchange(bool ipv6, bool with_esp) {
  World world({.link = {}, .ipv6 = ipv6, .engine = {}});
  const Protection protection = with_esp ? protect(world) : Protection{};
  std::vector<std::vector<std::uint8_t>> kept;
  world.link().set_tap(
      [&](std::size_t, Bytes frame, Instant) { kept.emplace_back(frame.begin(), frame.end()); });
  Side a(world, 0, protection.of_host[0]);
  Side b(world, 1, protection.of_host[1]);
  const auto to_b = a.address({.local_address = a.ip(),
                               .remote_address = b.ip(),
                               .hop_limit = 9,
                               .traffic_class = 0x28,
                               .priority = 5,
                               .association = protection.of_host[0]});
  assert_ok(to_b);
  a.send(*to_b, b.qpn(), "question");
  const verbs::Completion question = b.receive();
  assert_true(question.status == verbs::CompletionStatus::kSuccess);
  assert_int_equal(question.byte_len, kGrhBytes + 8);
  assert_eq(b.text(8), "question");
  assert_eq(question.source_qpn, a.qpn());
  const auto back = verbs::reply_address(question, b.grh());
  assert_ok(back);
  assert_eq(back->remote_address, a.ip());
  assert_eq(back->local_address, b.ip());
  assert_int_equal(back->traffic_class, 0x28);
  assert_eq(back->association, protection.of_host[1]);
  assert_int_equal(b.grh()[ipv6 ? 7 : 28], 9);  // hop limit, TTL
  const auto to_a = b.address(*back);
  assert_ok(to_a);
  b.send(*to_a, question.source_qpn, "an answer");
  const verbs::Completion answer = a.receive();
  assert_eq(a.text(9), "an answer");
  assert_eq(answer.source_qpn, b.qpn());
  assert_ok(a.stack().destroy_ah(*to_b));
  assert_ok(b.stack().destroy_ah(*to_a));
  assert_error(b.stack().destroy_ah(*to_a), Error::kNotFound);

  std::size_t tagged = 0;
  for (const auto& frame : kept) {
    const auto view = net::parse_packet(frame);
    assert_true(view.has_value());
    const bool datagram = view->ip_version != 0 && (view->protocol == net::IpProtocol::kUdp ||
                                                    view->protocol == net::IpProtocol::kEsp);
    if (!datagram || view->source != a.ip()) continue;
    assert_true(with_esp == (view->protocol == net::IpProtocol::kEsp));
    assert_int_equal(view->tag_count, 1);
    assert_int_equal(view->tag(0).priority, 5);
    assert_int_equal(view->tag(0).id, 0);
    assert_int_equal(view->tos, 0x28);
    assert_int_equal(view->ttl, 9);
    ++tagged;
  }
  assert_int_equal(tagged, 1);
}

void ipv4_clear(void**) {
  exchange(false, false);
}
void ipv4_protected(void**) {
  exchange(false, true);
}
void ipv6_clear(void**) {
  exchange(true, false);
}
void ipv6_protected(void**) {
  exchange(true, true);
}

void a_group_is_heard(bool ipv6) {
  World world({.link = {}, .ipv6 = ipv6, .engine = {}});
  const IpAddress group =
      ipv6 ? *IpAddress::parse("ff12:401b:ffff::5") : IpAddress::v4(239, 255, 0, 5);
  Side a(world, 0, kClear);
  Side b(world, 1, kClear);
  const auto to_group = a.address({.local_address = a.ip(), .remote_address = group});
  assert_ok(to_group);
  a.send(*to_group, verbs::kMulticastQpn, "nobody hears it");
  world.run_for(Duration::ms(1));
  assert_int_equal(b.stack().counters().drops[Drop::kBadAddress], 1);
  assert_ok(b.stack().attach_multicast(b.qpn(), group));
  a.send(*to_group, verbs::kMulticastQpn, "to all");
  const verbs::Completion c = b.receive();
  assert_eq(b.text(6), "to all");
  const auto back = verbs::reply_address(c, b.grh());
  assert_ok(back);
  assert_eq(back->remote_address, a.ip());
  assert_eq(back->local_address, group);  // as it came: the caller knows its own address
  assert_ok(b.stack().detach_multicast(b.qpn(), group));
}
void a_group_is_heard_v4(void**) {
  a_group_is_heard(false);
}
void a_group_is_heard_v6(void**) {
  a_group_is_heard(true);
}

void an_address_must_make_sense(void**) {
  World world({.link = {}, .engine = {}});
  const Protection protection = protect(world);
  Side a(world, 0, kClear);
  const IpAddress off_link = IpAddress::v4(192, 168, 9, 9);
  const struct {
    int line;
    verbs::AhAttributes attributes;
    Error error;
  } cases[] = {
      {1,
       {.local_address = world.address(1), .remote_address = world.address(1)},
       Error::kInvalidArgument},
      {2, {.local_address = a.ip(), .remote_address = a.ip()}, Error::kInvalidArgument},
      {3, {.local_address = a.ip(), .remote_address = off_link}, Error::kInvalidArgument},
      {4,
       {.local_address = a.ip(), .remote_address = *IpAddress::parse("fd77::2")},
       Error::kInvalidArgument},
      {5,
       {.local_address = a.ip(), .remote_address = world.address(1), .priority = 8},
       Error::kInvalidArgument},
      {6,
       {.local_address = a.ip(),
        .remote_address = world.address(1),
        .association = AssociationId(protection.of_host[0].value() + 1)},
       Error::kNotFound},
  };
  for (const auto& c : cases) {
    const auto ah = a.address(c.attributes);
    if (ah || ah.error() != c.error) fail_msg("case %d", c.line);
  }
}

void paths_come_back(void**) {
  World world({.link = {}, .engine = {.ah_max = 2}});
  Side a(world, 0, kClear);
  const verbs::AhAttributes to{.local_address = a.ip(), .remote_address = world.address(1)};
  for (int i = 0; i < 5000; ++i) {
    const auto ah = a.address(to);
    assert_ok(ah);
    assert_ok(a.stack().destroy_ah(*ah));
  }
  assert_ok(a.address(to));
  assert_ok(a.address(to));
  assert_error(a.address(to), Error::kNoMemory);
}

}  // namespace
}  // namespace h4a::sim

int main() {
  using namespace h4a::sim;
  const CMUnitTest tests[] = {
      cmocka_unit_test(ipv4_clear),
      cmocka_unit_test(ipv4_protected),
      cmocka_unit_test(ipv6_clear),
      cmocka_unit_test(ipv6_protected),
      cmocka_unit_test(a_group_is_heard_v4),
      cmocka_unit_test(a_group_is_heard_v6),
      cmocka_unit_test(an_address_must_make_sense),
      cmocka_unit_test(paths_come_back),
  };
  return cmocka_run_group_tests_name("datagram", tests, nullptr, nullptr);
}
