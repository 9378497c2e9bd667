// UD and QP 1, against a peer that is a script: what goes on the wire, what is delivered and how, and
// what is dropped under which name.
#include "roce/datagram.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "net/bth.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "packet/frame_pool.h"
#include "roce/engine.h"
#include "verbs/datagram.h"

#include "test/test_support.h"

namespace h4a::roce {
namespace {

using net::Opcode;
using verbs::Access;
using verbs::Completion;
using verbs::CompletionStatus;
using verbs::kGrhBytes;
using verbs::QpState;
using verbs::QpType;
using verbs::SendWr;
using verbs::WrOpcode;

constexpr std::uint32_t kQkey = 0x1111'1111;
constexpr Qpn kPeerQpn{0x3456};
constexpr PathId kPath{7};
constexpr AssociationId kOther{0xa5};
const IpAddress kLocal = IpAddress::v4(10, 0, 0, 1);
const IpAddress kPeer = IpAddress::v4(10, 0, 0, 2);
const IpAddress kLocal6 = *IpAddress::parse("fd77::1");
const IpAddress kPeer6 = *IpAddress::parse("fd77::2");

/// A datagram as the peer sends it; what a case does not name is right.
struct Datagram {
  std::string payload = "hello";
  Opcode opcode = Opcode::kUdSendOnly;
  std::uint32_t qkey = kQkey;
  std::uint16_t pkey = 0xffff;
  AssociationId association = kClear;
  bool ipv6 = false;
  std::uint32_t imm = 0xcafe;
  std::optional<IpAddress> group = std::nullopt;
};

struct Bench {
  explicit Bench(QpType type = QpType::kUd, AssociationId association = kClear)
      : engine({.pd_max = 4, .mr_max = 8, .mw_max = 4, .cq_max = 4, .qp_max = 4, .ah_max = 3},
               random),
        memory(8192, 0xee) {
    pd = engine.alloc_pd().value();
    cq = engine.create_cq(64).value();
    region = engine.register_memory(pd, memory.data(), memory.size(), Access::kLocalWrite, kClear)
                 .value();
    qpn = engine
              .create_qp({.type = type,
                          .pd = pd,
                          .send_cq = cq,
                          .recv_cq = cq,
                          .max_send_wr = 8,
                          .max_recv_wr = 4})
              .value();
    ah = engine.create_ah(pd, {.association = association}, kPath).value();
    assert_ok(engine.to_init(qpn, {.qkey = kQkey}));
    assert_ok(engine.to_rtr(qpn, {.path_mtu = 256, .association = association}, PathId()));
    assert_ok(engine.to_rts(qpn, {.sq_psn = Psn(0xfffffe)}));
  }

  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  SendWr wr(std::uint32_t length, std::uint64_t id = 1) const {
    SendWr w;
    w.wr_id = id;
    w.sge_count = 1;
    w.sges[0] = {at(4096), length, region.lkey};
    w.ah = ah;
    w.remote_qpn = kPeerQpn;
    w.remote_qkey = kQkey;
    return w;
  }
  Result<void> post(const SendWr& w) { return engine.post_send(qpn, {&w, 1}); }
  void post_recv(std::uint32_t length, std::uint64_t id = 9) {
    verbs::RecvWr w;
    w.wr_id = id;
    w.sge_count = 1;
    w.sges[0] = {at(0), length, region.lkey};
    assert_ok(engine.post_recv(qpn, {&w, 1}));
  }
  /// What the engine sends, as flat bytes.
  std::vector<std::vector<std::uint8_t>> transmit() {
    std::vector<std::vector<std::uint8_t>> sent;
    packet::Frame* out[kBurstMax];
    while (const std::size_t n = engine.transmit(pool, out, now))
      for (std::size_t i = 0; i < n; ++i) {
        assert_eq(out[i]->path, kPath);
        sent_association = out[i]->association;
        out[i]->flatten();
        sent.emplace_back(out[i]->data(), out[i]->data() + out[i]->size());
        pool.release_one(out[i]);
      }
    return sent;
  }
  Drop receive(const Datagram& d) {
    packet::Frame* f = pool.allocate_one();
    const std::size_t network = append_network(*f, d);
    const net::OpcodeInfo& row = net::info(d.opcode);
    std::uint8_t* p = f->append(row.header_length());
    net::Bth bth;
    bth.opcode = d.opcode;
    bth.pkey = d.pkey;
    bth.dest_qp = d.group ? verbs::kMulticastQpn : qpn;
    bth.psn = Psn(77);
    bth.pad_count = net::pad_for(d.payload.size());
    bth.build(p);
    if (row.has(net::Header::kDeth))
      net::Deth{d.qkey, kPeerQpn}.build(p + row.offset(net::Header::kDeth));
    if (row.has(net::Header::kImmDt)) net::ImmDt{d.imm}.build(p + row.offset(net::Header::kImmDt));
    std::memcpy(f->append(d.payload.size()), d.payload.data(), d.payload.size());
    std::memset(f->append(bth.pad_count), 0, bth.pad_count);
    f->trim_front(network);
    f->network_size = static_cast<std::uint8_t>(network);
    f->association = d.association;
    f->source = d.ipv6 ? kPeer6 : kPeer;
    f->destination = d.group.value_or(d.ipv6 ? kLocal6 : kLocal);
    if (misaddressed) f->destination = *misaddressed;
    engine.receive({&f, 1}, now);
    const Drop drop = f->drop;
    pool.release_one(f);
    return drop;
  }
  /// IP header, and room for UDP's.
  static std::size_t append_network(packet::Frame& f, const Datagram& d) {
    if (d.ipv6) {
      net::Ipv6Fields ip;
      ip.traffic_class = 0x2b;
      ip.hop_limit = 33;
      ip.source = kPeer6;
      ip.destination = kLocal6;
      net::build(f.append(net::Ipv6View::kSize), ip);
    } else {
      net::Ipv4Fields ip;
      ip.tos = 0x2b;
      ip.ttl = 33;
      ip.source = kPeer;
      ip.destination = kLocal;
      net::build(f.append(net::Ipv4View::kSize), ip);
    }
    std::memset(f.append(8), 0x77, 8);
    return f.size();
  }
  std::optional<Completion> poll() {
    Completion c;
    return engine.poll_cq(cq, {&c, 1}) == 1 ? std::optional(c) : std::nullopt;
  }
  [[nodiscard]] QpState state() const { return engine.qp_status(qpn)->state; }
  [[nodiscard]] std::string text(std::size_t offset, std::size_t n) const {
    return {reinterpret_cast<const char*>(memory.data()) + offset, n};
  }

  SeededRandom random{3};
  Engine engine;
  packet::HeapFramePool pool{64};
  std::vector<std::uint8_t> memory;
  Instant now = Instant::from_ns(1'000'000);
  verbs::PdId pd;
  verbs::CqId cq;
  verbs::MemoryRegion region;
  Qpn qpn;
  verbs::AhId ah;
  AssociationId sent_association;
  std::optional<IpAddress> misaddressed;  // the IP header goes elsewhere than the QPN
};

void a_datagram_completes_when_it_is_sent(void**) {
  Bench b;
  std::memcpy(b.memory.data() + 4096, "datagram!", 9);
  SendWr w = b.wr(9);
  w.opcode = WrOpcode::kSendWithImm;
  w.imm = 0x01020304;
  w.solicited = true;
  assert_ok(b.post(w));
  assert_ok(b.post(b.wr(0, 2)));
  assert_ok(b.post(b.wr(256, 3)));
  const auto sent = b.transmit();
  assert_int_equal(sent.size(), 3);
  const auto first = net::parse_transport(sent[0]);
  assert_true(first.has_value());
  assert_eq(first->opcode(), Opcode::kUdSendOnlyWithImm);
  assert_eq(first->bth().dest_qp(), kPeerQpn);
  assert_eq(first->bth().psn(), Psn(0xfffffe));
  assert_true(first->bth().solicited());
  assert_false(first->bth().ack_req());
  assert_int_equal(first->deth().qkey, kQkey);
  assert_eq(first->deth().source_qp, b.qpn);
  assert_int_equal(first->imm().value, 0x01020304);
  assert_int_equal(first->payload().size(), 9);
  assert_memory_equal(first->payload().data(), "datagram!", 9);
  const auto third = net::parse_transport(sent[2]);
  assert_eq(third->opcode(), Opcode::kUdSendOnly);
  assert_eq(third->bth().psn(), Psn(0));  // each datagram takes one, over the wrap too
  assert_int_equal(third->payload().size(), 256);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const auto c = b.poll();
    assert_true(c && c->wr_id == id && c->status == CompletionStatus::kSuccess);
    assert_eq(c->opcode, verbs::CompletionOpcode::kSend);
  }
  assert_true(b.engine.next_deadline().is_never());  // nothing is waited for
}

void the_high_bit_stands_for_the_own_qkey(void**) {
  Bench b;
  SendWr w = b.wr(4);
  w.remote_qkey = 0x8000'1234;
  assert_ok(b.post(w));
  w.remote_qkey = 0x7fff'1234;
  assert_ok(b.post(w));
  const auto sent = b.transmit();
  assert_int_equal(net::parse_transport(sent[0])->deth().qkey, kQkey);
  assert_int_equal(net::parse_transport(sent[1])->deth().qkey, 0x7fff'1234);
}

void what_cannot_be_a_datagram_is_refused(void**) {
  Bench b;
  const verbs::PdId other = b.engine.alloc_pd().value();
  const verbs::AhId foreign = b.engine.create_ah(other, {}, kPath).value();
  const verbs::AhId guarded = b.engine.create_ah(b.pd, {.association = kOther}, kPath).value();
  struct Case {
    int line;
    void (*spoil)(SendWr&);
    verbs::AhId ah;
    Error error;
  };
  const Case cases[] = {
      {1, [](SendWr& w) { w.sges[0].length = 257; }, b.ah, Error::kInvalidArgument},
      {2, [](SendWr& w) { w.opcode = WrOpcode::kRdmaWrite; }, b.ah, Error::kInvalidArgument},
      {3, [](SendWr& w) { w.opcode = WrOpcode::kRdmaRead; }, b.ah, Error::kInvalidArgument},
      {4, [](SendWr& w) { w.opcode = WrOpcode::kSendWithInvalidate; }, b.ah,
       Error::kInvalidArgument},
      {5, [](SendWr& w) { w.opcode = WrOpcode::kBindWindow; }, b.ah, Error::kInvalidArgument},
      {6, [](SendWr& w) { w.remote_qpn = Qpn(1U << 24); }, b.ah, Error::kInvalidArgument},
      {7, [](SendWr&) {}, verbs::AhId(), Error::kNotFound},
      {8, [](SendWr&) {}, foreign, Error::kAccess},
      {9, [](SendWr&) {}, guarded, Error::kAccess},  // a clear QP has no business in there
  };
  for (const Case& c : cases) {
    SendWr w = b.wr(4);
    w.ah = c.ah;
    c.spoil(w);
    const auto posted = b.post(w);
    if (posted || posted.error() != c.error) fail_msg("case %d", c.line);
  }
  assert_int_equal(b.transmit().size(), 0);
  assert_eq(b.state(), QpState::kRts);
  assert_false(b.engine.create_ah(b.pd, {}, kPath).has_value());  // the table is full
  assert_ok(b.engine.destroy_ah(foreign));
  assert_ok(b.engine.dealloc_pd(other));
}

void a_failed_send_stops_the_send_queue_alone(void**) {
  Bench b;
  b.post_recv(200, 50);
  assert_ok(b.post(b.wr(4, 1)));
  SendWr bad = b.wr(4, 2);
  bad.sges[0].lkey = Lkey(b.region.lkey.value() + 1);
  assert_ok(b.post(bad));
  assert_ok(b.post(b.wr(4, 3)));
  assert_int_equal(b.transmit().size(), 1);
  assert_true(b.poll()->status == CompletionStatus::kSuccess);
  auto c = b.poll();
  assert_true(c->wr_id == 2 && c->status == CompletionStatus::kLocalProtection);
  c = b.poll();
  assert_true(c->wr_id == 3 && c->status == CompletionStatus::kFlushed);
  assert_eq(b.state(), QpState::kSqe);
  assert_ok(b.post(b.wr(4, 4)));  // taken and flushed
  c = b.poll();
  assert_true(c->wr_id == 4 && c->status == CompletionStatus::kFlushed);
  assert_eq(b.receive({}), Drop::kNone);  // receiving goes on
  assert_true(b.poll()->wr_id == 50);
  assert_ok(b.engine.to_rts(b.qpn, {}));
  assert_ok(b.post(b.wr(4, 5)));
  const auto sent = b.transmit();
  assert_int_equal(sent.size(), 1);
  assert_eq(net::parse_transport(sent[0])->bth().psn(), Psn(0xffffff));  // the PSN goes on
}

void an_address_that_is_gone_fails_the_send(void**) {
  Bench b;
  assert_ok(b.post(b.wr(4, 1)));
  const auto path = b.engine.destroy_ah(b.ah);
  assert_true(path.has_value() && *path == kPath);
  assert_int_equal(b.transmit().size(), 0);
  assert_true(b.poll()->status == CompletionStatus::kLocalQpOperation);
  assert_eq(b.engine.destroy_ah(b.ah).error(), Error::kNotFound);
}

void ipv4_is_delivered_behind_twenty_bytes(void**) {
  Bench b;
  b.post_recv(200);
  assert_eq(b.receive({.opcode = Opcode::kUdSendOnlyWithImm}), Drop::kNone);
  const auto c = b.poll();
  assert_true(c && c->status == CompletionStatus::kSuccess);
  assert_int_equal(c->byte_len, kGrhBytes + 5);
  assert_true(c->has_grh && c->grh_is_ipv4 && c->has_imm);
  assert_int_equal(c->imm, 0xcafe);
  assert_eq(c->source_qpn, kPeerQpn);
  assert_int_equal(c->pkey, 0xffff);
  assert_eq(b.text(kGrhBytes, 5), "hello");
  assert_int_equal(b.memory[kGrhBytes + 5], 0xee);
  assert_int_equal(b.memory[20], 0x45);
  assert_int_equal(b.memory[28], 33);  // its TTL
  const auto to = verbs::reply_address(*c, b.memory);
  assert_true(to.has_value());
  assert_eq(to->remote_address, kPeer);
  assert_eq(to->local_address, kLocal);
  assert_int_equal(to->traffic_class, 0x28);  // without the ECN bits
}

void ipv6_is_delivered_as_it_came(void**) {
  Bench b;
  b.post_recv(200);
  assert_eq(b.receive({.ipv6 = true}), Drop::kNone);
  const auto c = b.poll();
  assert_true(c && c->has_grh && !c->grh_is_ipv4 && !c->has_imm);
  assert_int_equal(b.memory[0] >> 4, 6);
  assert_int_equal(b.memory[7], 33);
  const auto to = verbs::reply_address(*c, b.memory);
  assert_eq(to->remote_address, kPeer6);
  assert_eq(to->local_address, kLocal6);
  assert_int_equal(to->traffic_class, 0x28);
}

void a_reply_needs_a_whole_header(void**) {
  Completion c;
  const std::vector<std::uint8_t> grh(kGrhBytes);
  assert_eq(verbs::reply_address(c, grh).error(), Error::kInvalidArgument);
  c.has_grh = true;
  assert_eq(verbs::reply_address(c, Bytes(grh).first(39)).error(), Error::kTruncated);
  assert_ok(verbs::reply_address(c, grh));
}

void what_does_not_fit_is_dropped_under_its_name(void**) {
  Bench b;
  assert_eq(b.receive({}), Drop::kNoReceive);
  b.post_recv(kGrhBytes + 4);
  struct Case {
    int line;
    Datagram datagram;
    Drop drop;
  };
  const Case cases[] = {
      {1, {.qkey = kQkey + 1}, Drop::kBadQkey},
      {2, {.qkey = 0}, Drop::kBadQkey},
      {3, {.payload = "five!"}, Drop::kReceiveTooShort},
      {4, {.pkey = 0xfffe}, Drop::kBadPkey},
      {5, {.payload = "", .opcode = Opcode::kRcSendOnly}, Drop::kBadOpcode},
      {6, {.payload = "", .opcode = Opcode::kUcSendOnly}, Drop::kBadOpcode},
      {7, {.payload = "", .association = kOther}, Drop::kWrongAssociation},
  };
  for (const Case& c : cases) {
    const Drop drop = b.receive(c.datagram);
    if (drop != c.drop) fail_msg("case %d: %s", c.line, std::string(to_string(drop)).c_str());
    if (b.poll()) fail_msg("case %d: it completed", c.line);
  }
  assert_eq(b.receive({.payload = "four"}), Drop::kNone);  // the receive was not used up
  assert_int_equal(b.poll()->byte_len, kGrhBytes + 4);
  assert_int_equal(b.transmit().size(), 0);  // nobody was answered
  assert_eq(b.state(), QpState::kRts);
}

void pkeys_match_as_the_table_says(void**) {
  struct Case {
    std::uint16_t packet, own;
    bool ok;
  };
  const Case cases[] = {{0xffff, 0xffff, true},  {0x7fff, 0xffff, true},  {0xffff, 0x7fff, true},
                        {0x7fff, 0x7fff, false}, {0xfffe, 0xffff, false}, {0x0000, 0xffff, false}};
  for (const Case& c : cases) {
    Bench b;
    assert_ok(b.engine.to_reset(b.qpn));
    assert_ok(b.engine.to_init(b.qpn, {.pkey = c.own, .qkey = kQkey}));
    assert_ok(b.engine.to_rtr(b.qpn, {.path_mtu = 256}, PathId()));
    b.post_recv(200);
    assert_eq(b.receive({.pkey = c.packet}), c.ok ? Drop::kNone : Drop::kBadPkey);
  }
}

void a_receive_that_cannot_be_written_ends_the_qp(void**) {
  Bench b;
  verbs::RecvWr w;
  w.wr_id = 4;
  w.sge_count = 1;
  w.sges[0] = {b.at(0), 200, Lkey(b.region.lkey.value() + 1)};
  assert_ok(b.engine.post_recv(b.qpn, {&w, 1}));
  assert_eq(b.receive({}), Drop::kRemoteOperational);
  assert_true(b.poll()->status == CompletionStatus::kLocalProtection);
  assert_eq(b.state(), QpState::kError);
}

void a_protected_qp_never_speaks_or_hears_clear(void**) {
  Bench b(QpType::kUd, kOther);
  b.post_recv(200);
  assert_eq(b.receive({}), Drop::kNeedsEsp);
  assert_eq(b.receive({.association = AssociationId(1)}), Drop::kWrongAssociation);
  assert_eq(b.receive({.association = kOther}), Drop::kNone);
  const auto c = b.poll();
  assert_eq(c->association, kOther);
  assert_eq(verbs::reply_address(*c, b.memory)->association, kOther);
  SendWr w = b.wr(4);
  assert_ok(b.post(w));
  assert_int_equal(b.transmit().size(), 1);
  assert_eq(b.sent_association, kOther);
  w.ah = b.engine.create_ah(b.pd, {}, kPath).value();  // a clear address
  assert_eq(b.post(w).error(), Error::kAccess);
}

void qp_1_is_the_management_qp(void**) {
  Bench b(QpType::kGsi);
  assert_eq(b.qpn, Qpn(1));
  const verbs::QpOptions second{.type = QpType::kGsi, .pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq};
  assert_eq(b.engine.create_qp(second).error(), Error::kExists);
  b.post_recv(200);
  assert_eq(b.receive({}), Drop::kBadQkey);  // what was given at to_init does not count
  assert_eq(b.receive({.qkey = verbs::kGsiQkey, .association = kOther}), Drop::kNone);
  assert_eq(b.poll()->association, kOther);  // it hears everybody, and is told whom
  SendWr w = b.wr(4);
  w.remote_qkey = verbs::kGsiQkey;
  w.remote_qpn = verbs::kGsiQpn;
  assert_ok(b.post(w));
  w.ah = b.engine.create_ah(b.pd, {.association = kOther}, kPath).value();
  assert_ok(b.post(w));
  const auto sent = b.transmit();
  assert_int_equal(sent.size(), 2);
  assert_int_equal(net::parse_transport(sent[0])->deth().qkey, verbs::kGsiQkey);
  assert_eq(net::parse_transport(sent[0])->deth().source_qp, Qpn(1));
  assert_eq(b.sent_association, kOther);
  assert_ok(b.engine.destroy_qp(b.qpn));
  assert_ok(b.engine.create_qp(second));
}

void a_group_reaches_its_members(void**) {
  Bench b;
  const IpAddress group = *IpAddress::parse("ff12:401b::1");
  const IpAddress other = IpAddress::v4(239, 1, 2, 3);
  assert_eq(b.receive({.group = group}), Drop::kNoQp);
  const Qpn second =
      b.engine.create_qp({.type = QpType::kUd, .pd = b.pd, .send_cq = b.cq, .recv_cq = b.cq})
          .value();
  assert_ok(b.engine.to_init(second, {.qkey = kQkey}));
  assert_ok(b.engine.to_rtr(second, {.path_mtu = 256}, PathId()));
  assert_false(b.engine.hears(group));
  assert_ok(b.engine.attach_multicast(b.qpn, group));
  assert_ok(b.engine.attach_multicast(second, group));
  assert_ok(b.engine.attach_multicast(second, other));
  assert_true(b.engine.hears(group) && b.engine.hears(other));
  assert_error(b.engine.attach_multicast(second, group), Error::kExists);
  assert_error(b.engine.attach_multicast(second, kPeer), Error::kInvalidArgument);
  assert_error(b.engine.attach_multicast(Qpn(5), group), Error::kNotFound);

  b.post_recv(200, 1);  // the second member has none: it counts that, the first one is served
  assert_eq(b.receive({.ipv6 = true, .group = group}), Drop::kNone);
  assert_int_equal(b.poll()->wr_id, 1);
  assert_int_equal(b.engine.counters().drops[Drop::kNoReceive], 1);
  assert_eq(b.receive({.group = other}), Drop::kNoReceive);
  assert_eq(b.receive({.qkey = 5, .group = group}), Drop::kBadQkey);

  // A group's QPN and a group's address belong together.
  b.misaddressed = kLocal;
  assert_eq(b.receive({.group = group}), Drop::kNoQp);
  b.misaddressed = group;
  assert_eq(b.receive({}), Drop::kNoQp);
  b.misaddressed.reset();

  assert_ok(b.engine.detach_multicast(b.qpn, group));
  assert_error(b.engine.detach_multicast(b.qpn, group), Error::kNotFound);
  assert_ok(b.engine.destroy_qp(second));  // takes its memberships along
  assert_false(b.engine.hears(group));
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_datagram_completes_when_it_is_sent),
      cmocka_unit_test(the_high_bit_stands_for_the_own_qkey),
      cmocka_unit_test(what_cannot_be_a_datagram_is_refused),
      cmocka_unit_test(a_failed_send_stops_the_send_queue_alone),
      cmocka_unit_test(an_address_that_is_gone_fails_the_send),
      cmocka_unit_test(ipv4_is_delivered_behind_twenty_bytes),
      cmocka_unit_test(ipv6_is_delivered_as_it_came),
      cmocka_unit_test(a_reply_needs_a_whole_header),
      cmocka_unit_test(what_does_not_fit_is_dropped_under_its_name),
      cmocka_unit_test(pkeys_match_as_the_table_says),
      cmocka_unit_test(a_receive_that_cannot_be_written_ends_the_qp),
      cmocka_unit_test(a_protected_qp_never_speaks_or_hears_clear),
      cmocka_unit_test(qp_1_is_the_management_qp),
      cmocka_unit_test(a_group_reaches_its_members),
  };
  return cmocka_run_group_tests_name("roce_datagram", tests, nullptr, nullptr);
}
