// For tests: one engine with one QP, and a peer that is a script. receive() gives the engine a
// packet that names only what differs from a template, expect_sent() says what it answers.
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <vector>

#include "net/bth.h"
#include "packet/frame_pool.h"
#include "roce/engine.h"

#include "test/test_support.h"

namespace h4a::roce::test {

using net::Opcode;
using verbs::Access;
using verbs::Completion;
using verbs::CompletionStatus;
using verbs::SendWr;
using verbs::WrOpcode;

/// A packet as a test writes it. For expect_sent(), fields that are not set are not compared.
struct Packet {
  Opcode opcode = Opcode::kRcSendOnly;
  std::uint32_t psn = 0;
  std::string payload = {};
  std::optional<bool> ack_req = std::nullopt;
  std::optional<std::uint64_t> address = std::nullopt;  // RETH
  std::optional<Rkey> rkey = std::nullopt;
  std::optional<std::uint32_t> length = std::nullopt;
  std::optional<std::uint8_t> syndrome = std::nullopt;  // AETH
  std::optional<std::uint32_t> msn = std::nullopt;
  std::optional<std::uint32_t> imm = std::nullopt;
  std::optional<Rkey> invalidate = std::nullopt;
  std::optional<std::uint64_t> swap_or_add = std::nullopt;  // AtomicETH
  std::optional<std::uint64_t> compare = std::nullopt;
  std::optional<std::uint64_t> original = std::nullopt;  // AtomicAckETH
  std::optional<bool> solicited = std::nullopt;
  // For receive() only.
  std::uint16_t pkey = 0xffff;
  bool mig_req = true;
  AssociationId association = kClear;
  std::optional<IpAddress> source = std::nullopt;
  std::optional<Qpn> dest_qp = std::nullopt;
};

inline const IpAddress kLocal = IpAddress::v4(10, 0, 0, 1);
inline const IpAddress kPeer = IpAddress::v4(10, 0, 0, 2);
inline constexpr Qpn kPeerQpn{0x77};
inline constexpr Access kAllRights = Access::kLocalWrite | Access::kRemoteWrite |
                                     Access::kRemoteRead | Access::kRemoteAtomic |
                                     Access::kWindowBind;

/// The bytes of a packet from BTH to the pad.
inline std::vector<std::uint8_t> to_bytes(const Packet& p, Qpn dest) {
  const net::OpcodeInfo& row = net::info(p.opcode);
  std::vector<std::uint8_t> b(row.header_length());
  net::Bth bth;
  bth.opcode = p.opcode;
  bth.mig_req = p.mig_req;
  bth.pkey = p.pkey;
  bth.dest_qp = p.dest_qp.value_or(dest);
  bth.ack_req = p.ack_req.value_or(true);
  bth.solicited = p.solicited.value_or(false);
  bth.psn = Psn(p.psn);
  bth.pad_count = net::pad_for(p.payload.size());
  bth.build(b.data());
  if (row.has(net::Header::kReth))
    net::Reth{p.address.value_or(0), p.rkey.value_or(Rkey()),
              p.length.value_or(static_cast<std::uint32_t>(p.payload.size()))}
        .build(b.data() + row.offset(net::Header::kReth));
  if (row.has(net::Header::kAtomicEth))
    net::AtomicEth{p.address.value_or(0), p.rkey.value_or(Rkey()), p.swap_or_add.value_or(0),
                   p.compare.value_or(0)}
        .build(b.data() + row.offset(net::Header::kAtomicEth));
  if (row.has(net::Header::kAtomicAckEth))
    net::AtomicAckEth{p.original.value_or(0)}.build(b.data() +
                                                    row.offset(net::Header::kAtomicAckEth));
  if (row.has(net::Header::kAeth))
    net::Aeth{p.syndrome.value_or(0x1f), Msn(p.msn.value_or(0))}.build(
        b.data() + row.offset(net::Header::kAeth));
  if (row.has(net::Header::kImmDt))
    net::ImmDt{p.imm.value_or(0)}.build(b.data() + row.offset(net::Header::kImmDt));
  if (row.has(net::Header::kIeth))
    net::Ieth{p.invalidate.value_or(Rkey())}.build(b.data() + row.offset(net::Header::kIeth));
  b.insert(b.end(), p.payload.begin(), p.payload.end());
  b.insert(b.end(), bth.pad_count, 0);
  return b;
}

class Bench {
 public:
  struct Options {
    std::uint16_t mtu = 256;
    std::uint32_t sq_psn = 100;
    std::uint32_t rq_psn = 500;
    AssociationId association = kClear;
    std::uint16_t pkey = 0xffff;
    Access access = kAllRights;
    std::uint8_t max_rd_atomic = 16;
    std::uint8_t max_dest_rd_atomic = 16;
    std::uint8_t min_rnr_timer = 12;
    std::uint8_t timeout = 14;
    std::uint8_t retry_count = 7;
    std::uint8_t rnr_retry = 7;
    std::uint32_t window_packets = 256;
    std::uint32_t cq_depth = 256;
    verbs::QpType type = verbs::QpType::kRc;
    std::uint32_t srq_depth = 0;  // not 0: receives come from a shared queue
    std::uint32_t max_inline = 0;
    bool end_to_end_credits = false;
  };

  Bench() : Bench(Options{}) {}
  explicit Bench(const Options& o)
      : random(1),
        engine({.pd_max = 4,
                .mr_max = 16,
                .mw_max = 16,
                .cq_max = 4,
                .qp_max = 4,
                .window_packets = o.window_packets},
               random),
        pool(256),
        memory(65536),
        options(o) {
    pd = engine.alloc_pd().value();
    cq = engine.create_cq(o.cq_depth).value();
    region = engine.register_memory(pd, memory.data(), memory.size(), kAllRights, kClear).value();
    if (o.srq_depth > 0) srq = engine.create_srq({.pd = pd, .max_wr = o.srq_depth}).value();
    qpn = engine
              .create_qp({.type = o.type,
                          .pd = pd,
                          .send_cq = cq,
                          .recv_cq = cq,
                          .srq = srq,
                          .max_inline = o.max_inline})
              .value();
    connect();
  }

  void connect() {
    assert_ok(engine.to_init(qpn, {.access = options.access, .pkey = options.pkey}));
    verbs::RtrAttributes rtr;
    rtr.local_address = kLocal;
    rtr.remote_address = kPeer;
    rtr.remote_qpn = kPeerQpn;
    rtr.rq_psn = Psn(options.rq_psn);
    rtr.path_mtu = options.mtu;
    rtr.max_dest_rd_atomic = options.max_dest_rd_atomic;
    rtr.min_rnr_timer = options.min_rnr_timer;
    rtr.association = options.association;
    rtr.end_to_end_credits = options.end_to_end_credits;
    assert_ok(engine.to_rtr(qpn, rtr, PathId(9)));
    verbs::RtsAttributes rts;
    rts.sq_psn = Psn(options.sq_psn);
    rts.timeout = options.timeout;
    rts.retry_count = options.retry_count;
    rts.rnr_retry = options.rnr_retry;
    rts.max_rd_atomic = options.max_rd_atomic;
    assert_ok(engine.to_rts(qpn, rts));
  }

  // ---- packets ----

  Drop receive(const Packet& p) { return receive_bytes(to_bytes(p, qpn), p); }
  Drop receive_bytes(Bytes b, const Packet& p = {}) {
    packet::Frame* f = pool.allocate_one();
    std::copy(b.begin(), b.end(), f->append(b.size()));
    f->association = p.association;
    f->source = p.source.value_or(kPeer);
    f->destination = kLocal;
    engine.receive({&f, 1}, now);
    const Drop drop = f->drop;
    pool.release_one(f);
    return drop;
  }

  /// Lets the engine send all it has, in order.
  void collect() {
    packet::Frame* out[kBurstMax];
    while (const std::size_t n = engine.transmit(pool, out, now)) {
      for (std::size_t i = 0; i < n; ++i) {
        assert_eq(out[i]->path, PathId(9));
        assert_eq(out[i]->association, options.association);
        out[i]->flatten();
        sent.emplace_back(out[i]->data(), out[i]->data() + out[i]->size());
        pool.release_one(out[i]);
      }
    }
  }
  void expect_sent(const Packet& want) {
    collect();
    if (sent.empty())
      fail_msg("nothing was sent, wanted %s", std::string(net::info(want.opcode).name).c_str());
    const std::vector<std::uint8_t> b = sent.front();
    sent.erase(sent.begin());
    const auto got = net::parse_transport(b);
    assert_true(got.has_value());
    compare(*got, want);
  }
  void expect_nothing() {
    collect();
    if (!sent.empty())
      fail_msg("unexpected: %s", net::to_string(*net::parse_transport(sent.front())).c_str());
  }
  /// Forgets what was sent. @return how many packets that were.
  std::size_t skip_sent() {
    collect();
    const std::size_t n = sent.size();
    sent.clear();
    return n;
  }

  // ---- work ----

  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  [[nodiscard]] verbs::Sge sge(std::size_t offset, std::uint32_t length) const {
    return {address(offset), length, region.lkey};
  }
  void fill(std::size_t offset, std::string_view text) {
    std::copy(text.begin(), text.end(), memory.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  [[nodiscard]] std::string text(std::size_t offset, std::size_t length) const {
    const auto* p = reinterpret_cast<const char*>(memory.data());
    return std::string(p + offset, length);
  }
  SendWr wr(WrOpcode opcode, std::size_t offset, std::uint32_t length, std::uint64_t id = 1) {
    SendWr w;
    w.wr_id = id;
    w.opcode = opcode;
    w.sge_count = 1;
    w.sges[0] = sge(offset, length);
    w.remote_address = 0x10000;
    w.rkey = Rkey(0xabc);
    return w;
  }
  void post(const SendWr& w) { assert_ok(engine.post_send(qpn, {&w, 1})); }
  void post_recv(std::size_t offset, std::uint32_t length, std::uint64_t id = 1) {
    verbs::RecvWr w;
    w.wr_id = id;
    w.sge_count = 1;
    w.sges[0] = sge(offset, length);
    assert_ok(srq == verbs::SrqId() ? engine.post_recv(qpn, {&w, 1})
                                    : engine.post_srq_recv(srq, {&w, 1}));
  }
  /// A number in memory, in host order as the application sees it.
  [[nodiscard]] std::uint64_t number(std::size_t offset) const {
    std::uint64_t n = 0;
    std::memcpy(&n, memory.data() + offset, sizeof n);
    return n;
  }
  void set_number(std::size_t offset, std::uint64_t n) {
    std::memcpy(memory.data() + offset, &n, sizeof n);
  }
  /// A window bound by a work request that has completed.
  verbs::MemoryWindow bound_window(std::size_t offset, std::uint32_t length, Rkey& rkey,
                                   Access access = Access::kRemoteWrite | Access::kRemoteRead) {
    const verbs::MemoryWindow window = engine.alloc_window(pd).value();
    rkey = engine.fresh_rkey(window.id).value();
    post(bind_wr(window, offset, length, rkey, access));
    expect_nothing();
    expect_completion(77, CompletionStatus::kSuccess);
    return window;
  }
  SendWr bind_wr(verbs::MemoryWindow window, std::size_t offset, std::uint32_t length, Rkey rkey,
                 Access access) {
    SendWr w;
    w.wr_id = 77;
    w.opcode = WrOpcode::kBindWindow;
    w.window = window.id;
    w.region = region.id;
    w.bind_address = address(offset);
    w.bind_length = length;
    w.bind_access = access;
    w.rkey = rkey;
    return w;
  }

  /// The next event, which must be of this type.
  verbs::AsyncEvent expect_event(verbs::AsyncEvent::Type type) {
    verbs::AsyncEvent e;
    if (engine.poll_events({&e, 1}) != 1)
      fail_msg("no event, wanted type %d", static_cast<int>(type));
    assert_int_equal(static_cast<int>(e.type), static_cast<int>(type));
    return e;
  }
  void expect_no_event() {
    verbs::AsyncEvent e;
    if (engine.poll_events({&e, 1}) != 0)
      fail_msg("unexpected event of type %d", static_cast<int>(e.type));
  }

  Completion expect_completion(std::uint64_t id, CompletionStatus status) {
    Completion c;
    if (engine.poll_cq(cq, {&c, 1}) != 1)
      fail_msg("no completion, wanted one of %llu", static_cast<unsigned long long>(id));
    if (c.status != status)
      fail_msg("completion of %llu: %s", static_cast<unsigned long long>(c.wr_id),
               std::string(verbs::to_string(c.status)).c_str());
    assert_int_equal(c.wr_id, id);
    assert_eq(c.qpn, qpn);
    return c;
  }
  void expect_no_completion() {
    Completion c;
    if (engine.poll_cq(cq, {&c, 1}) != 0)
      fail_msg("unexpected completion of %llu: %s", static_cast<unsigned long long>(c.wr_id),
               std::string(verbs::to_string(c.status)).c_str());
  }
  [[nodiscard]] verbs::QpState state() const { return engine.qp_status(qpn)->state; }
  void advance(Duration d) {
    now = now + d;
    engine.run_timers(now);
  }

  SeededRandom random;
  Engine engine;
  packet::HeapFramePool pool;
  std::vector<std::uint8_t> memory;
  Options options;
  Instant now = Instant::from_ns(1'000'000);
  verbs::PdId pd;
  verbs::CqId cq;
  verbs::MemoryRegion region;
  verbs::SrqId srq;
  Qpn qpn;
  std::vector<std::vector<std::uint8_t>> sent;

 private:
  static void compare(const net::TransportPacket& got, const Packet& want) {
    std::string bad;
    const auto check = [&](const char* what, auto g, auto w) {
      if (!(g == w)) bad += fmt::format(" {}", what);
    };
    check("opcode", got.opcode(), want.opcode);
    check("psn", got.bth().psn(), Psn(want.psn));
    check("destination", got.bth().dest_qp(), kPeerQpn);
    check("migreq", got.bth().mig_req(), true);
    const Bytes p = got.payload();
    check("payload", std::string(p.begin(), p.end()), want.payload);
    if (want.solicited) check("solicited", got.bth().solicited(), *want.solicited);
    if (want.ack_req) check("ack_req", got.bth().ack_req(), *want.ack_req);
    if (got.opcode() == want.opcode) {
      const bool atomic = got.row().has(net::Header::kAtomicEth);
      if (want.address)
        check("address", atomic ? got.atomic_eth().virtual_address : got.reth().virtual_address,
              *want.address);
      if (want.rkey) check("rkey", atomic ? got.atomic_eth().rkey : got.reth().rkey, *want.rkey);
      if (want.swap_or_add) check("swap_or_add", got.atomic_eth().swap_or_add, *want.swap_or_add);
      if (want.compare) check("compare", got.atomic_eth().compare, *want.compare);
      if (want.original) check("original", got.atomic_ack_eth().original, *want.original);
      if (want.length) check("length", got.reth().dma_length, *want.length);
      if (want.syndrome) check("syndrome", got.aeth().syndrome, *want.syndrome);
      if (want.msn) check("msn", got.aeth().msn, Msn(*want.msn));
      if (want.imm) check("imm", got.imm().value, *want.imm);
      if (want.invalidate) check("invalidate", got.ieth().rkey, *want.invalidate);
    }
    if (!bad.empty())
      fail_msg("sent %s; wanted %s psn=%u; differs:%s", net::to_string(got).c_str(),
               std::string(net::info(want.opcode).name).c_str(), want.psn, bad.c_str());
  }
};

inline Packet ack(std::uint32_t psn, std::uint8_t syndrome = 0x1f) {
  return {.opcode = Opcode::kRcAcknowledge, .psn = psn, .syndrome = syndrome};
}

inline Packet send(std::uint32_t psn, std::string payload) {
  return {.opcode = Opcode::kRcSendOnly, .psn = psn, .payload = std::move(payload)};
}

inline Packet write(const Bench& b, std::uint32_t psn, std::size_t offset, std::string payload) {
  return {.opcode = Opcode::kRcWriteOnly,
          .psn = psn,
          .payload = std::move(payload),
          .address = b.address(offset),
          .rkey = b.region.rkey};
}

inline Packet fetch_add(const Bench& b, std::uint32_t psn, std::size_t offset, std::uint64_t add) {
  return {.opcode = Opcode::kRcFetchAdd,
          .psn = psn,
          .address = b.address(offset),
          .rkey = b.region.rkey,
          .swap_or_add = add};
}

inline Packet compare_swap(const Bench& b, std::uint32_t psn, std::size_t offset,
                           std::uint64_t compare, std::uint64_t swap) {
  return {.opcode = Opcode::kRcCompareSwap,
          .psn = psn,
          .address = b.address(offset),
          .rkey = b.region.rkey,
          .swap_or_add = swap,
          .compare = compare};
}

inline Packet atomic_ack(std::uint32_t psn, std::uint64_t original) {
  return {
      .opcode = Opcode::kRcAtomicAcknowledge, .psn = psn, .syndrome = 0x1f, .original = original};
}

inline Packet read(const Bench& b, std::uint32_t psn, std::size_t offset, std::uint32_t length) {
  return {.opcode = Opcode::kRcReadRequest,
          .psn = psn,
          .address = b.address(offset),
          .rkey = b.region.rkey,
          .length = length};
}

/// `p` is refused with this NAK, and the QP is dead.
inline void expect_refused(Bench& b, const Packet& p, std::uint8_t syndrome, Drop drop) {
  const Drop got = b.receive(p);
  if (got != drop) fail_msg("drop is %s", std::string(to_string(got)).c_str());
  b.expect_sent(ack(p.psn, syndrome));
  b.expect_nothing();
  assert_eq(b.state(), verbs::QpState::kError);
  verbs::AsyncEvent event;
  assert_int_equal(b.engine.poll_events({&event, 1}), 1);
  assert_true(event.type == verbs::AsyncEvent::Type::kQpFatal && event.qpn == b.qpn);
  assert_eq(b.receive(p), Drop::kBadQpState);
}

/// `n` bytes that differ from their neighbours and between messages.
inline std::string pattern(std::size_t n, std::size_t seed = 0) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i < n; ++i)
    s[i] = static_cast<char>((i * 7 + i / 251 + seed * 31) & 0xff);
  return s;
}

}  // namespace h4a::roce::test
