// A peer that means harm: it turns bytes into plausible packets for one QP. The fuzz target and a seeded
// test drive it; the invariants are checked after each packet.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "net/bth.h"
#include "packet/frame_pool.h"
#include "roce/engine.h"

namespace h4a::roce::test {

/// Reads values from a byte string, zero when it is used up.
class ByteSource {
 public:
  explicit ByteSource(Bytes b) noexcept : b_(b) {}
  [[nodiscard]] bool empty() const noexcept { return b_.empty(); }
  [[nodiscard]] std::uint8_t u8() noexcept {
    if (b_.empty()) return 0;
    const std::uint8_t v = b_[0];
    b_ = b_.subspan(1);
    return v;
  }
  [[nodiscard]] std::uint32_t below(std::uint32_t n) noexcept {
    const auto v = static_cast<std::uint32_t>(u8() << 8);
    return (v | u8()) % n;
  }

 private:
  Bytes b_;
};

/// An engine whose QP has a window, receives and requests of its own outstanding. Memory outside the
/// window, the receive buffers and the READ's sink holds a pattern that nothing may change.
class HostileWorld {
 public:
  static constexpr std::size_t kMemory = 8192;
  static constexpr std::size_t kWindow = 1024;  // [kWindow, +kWindowSize)
  static constexpr std::size_t kWindowSize = 1000;
  static constexpr std::size_t kReceive = 4096;  // [kReceive, +kReceiveSize)
  static constexpr std::size_t kReceiveSize = 700;
  static constexpr std::size_t kSink = 6000;  // [kSink, +kSinkSize)
  static constexpr std::size_t kSinkSize = 600;
  static constexpr std::uint8_t kPattern = 0xa5;

  explicit HostileWorld(verbs::QpType type = verbs::QpType::kRc)
      : type_(type),
        random_(11),
        engine_(
            {.pd_max = 1, .mr_max = 2, .mw_max = 1, .cq_max = 1, .qp_max = 1, .window_packets = 8},
            random_),
        pool_(64, 4096),
        memory_(kMemory, kPattern) {
    pd_ = engine_.alloc_pd().value();
    cq_ = engine_.create_cq(64).value();
    using verbs::Access;
    region_ = engine_
                  .register_memory(pd_, memory_.data(), memory_.size(),
                                   Access::kLocalWrite | Access::kWindowBind, kClear)
                  .value();
    qpn_ = engine_
               .create_qp({.type = type_,
                           .pd = pd_,
                           .send_cq = cq_,
                           .recv_cq = cq_,
                           .max_send_wr = 16,
                           .max_recv_wr = 4})
               .value();
    window_ = engine_.alloc_window(pd_).value().id;
    ah_ = engine_.create_ah(pd_, {}, PathId()).value();
    revive();
  }

  /// One step: a packet, time, transmission, or a work request, as the bytes say.
  void step(ByteSource& in) {
    switch (in.u8() % 8) {
      case 0:
        transmit();
        break;
      case 1:
        now_ = now_ + Duration::us(in.below(200));
        engine_.run_timers(now_);
        break;
      case 2:
        post(in);
        break;
      case 3:
        post_receive();
        break;
      default:
        receive(in);
        break;
    }
    drain();
    check();
  }
  /// Every frame must be back; nothing else may have changed.
  void finish() {
    transmit();
    check();
    H4A_ASSERT(pool_.available() == pool_.count());
  }

  [[nodiscard]] const verbs::DeviceCounters& counters() const { return engine_.counters(); }

 private:
  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory_.data()) + offset;
  }
  void must(bool ok) const { H4A_ASSERT(ok); }

  /// Brings the QP to RTS with a freshly bound window, whatever it died of.
  void revive() {
    must(engine_.to_reset(qpn_).has_value());
    must(engine_
             .to_init(qpn_, {.access = verbs::Access::kRemoteWrite | verbs::Access::kRemoteRead,
                             .qkey = kQkey})
             .has_value());
    verbs::RtrAttributes rtr;
    rtr.remote_qpn = Qpn(0x55);
    rtr.rq_psn = Psn(kRqPsn);
    rtr.path_mtu = 256;
    rtr.max_dest_rd_atomic = 2;
    must(engine_.to_rtr(qpn_, rtr, PathId()).has_value());
    verbs::RtsAttributes rts;
    rts.sq_psn = Psn(kSqPsn);
    rts.timeout = 4;
    must(engine_.to_rts(qpn_, rts).has_value());
    received_ = 0;
    completed_ = 0;
    posted_ = 0;
    if (!verbs::is_datagram(type_)) bind();
  }
  void bind() {
    rkey_ = engine_.fresh_rkey(window_).value();
    verbs::SendWr w;
    w.opcode = verbs::WrOpcode::kBindWindow;
    w.window = window_;
    w.region = region_.id;
    w.bind_address = at(kWindow);
    w.bind_length = kWindowSize;
    w.bind_access = verbs::Access::kRemoteWrite | verbs::Access::kRemoteRead;
    w.rkey = rkey_;
    must(engine_.post_send(qpn_, {&w, 1}).has_value());
    transmit();
    posted_ = 1;
  }
  void post(ByteSource& in) {
    verbs::SendWr w;
    constexpr verbs::WrOpcode kinds[] = {verbs::WrOpcode::kSend, verbs::WrOpcode::kRdmaWrite,
                                         verbs::WrOpcode::kRdmaRead};
    w.opcode = kinds[in.below(3)];
    w.sge_count = 1;
    w.sges[0] = {at(kSink), in.below(static_cast<std::uint32_t>(kSinkSize) + 1), region_.lkey};
    w.wr_id = 1;
    w.ah = ah_;
    w.remote_qpn = Qpn(0x55);
    w.remote_qkey = kQkey;
    const auto posted = engine_.post_send(qpn_, {&w, 1});
    if (posted) ++posted_;
  }
  void post_receive() {
    verbs::RecvWr w;
    w.wr_id = 2;
    w.sge_count = 1;
    w.sges[0] = {at(kReceive), kReceiveSize, region_.lkey};
    if (engine_.post_recv(qpn_, {&w, 1})) ++posted_;
  }
  void transmit() {
    packet::Frame* out[16];
    while (const std::size_t n = engine_.transmit(pool_, out, now_)) {
      for (std::size_t i = 0; i < n; ++i) {
        out[i]->flatten();
        H4A_ASSERT(net::parse_transport(out[i]->bytes()).has_value());
      }
      pool_.release(std::span(out).first(n));
    }
  }
  /// Any row; if it does not fit an unreliable QP, mostly the next one that does.
  [[nodiscard]] const net::OpcodeInfo& row(ByteSource& in) const {
    std::size_t i = in.below(net::kOpcodeTable.size());
    if (type_ == verbs::QpType::kRc || in.u8() % 8 == 0) return net::kOpcodeTable[i];
    const auto fits = type_ == verbs::QpType::kUc ? net::Service::kUc : net::Service::kUd;
    while (net::kOpcodeTable[i].service != fits) i = (i + 1) % net::kOpcodeTable.size();
    return net::kOpcodeTable[i];
  }
  /// A packet near what is expected: opcode, PSN, key, address and length each may be off.
  void receive(ByteSource& in) {
    const net::OpcodeInfo& row = this->row(in);
    packet::Frame* f = pool_.allocate_one();
    std::uint8_t* p = f->append(row.header_length());
    for (std::size_t i = 0; i < row.header_length(); ++i) p[i] = 0;
    net::Bth bth;
    bth.opcode = row.opcode;
    bth.dest_qp = qpn_;
    bth.ack_req = in.u8() % 2 == 0;
    const std::uint32_t base = row.is_request() ? kRqPsn : kSqPsn;
    bth.psn = Psn(base + received_) + in.below(in.u8() % 4 == 0 ? 12 : 1);
    const std::size_t payload = row.has_payload ? payload_size(in) : 0;
    bth.pad_count = net::pad_for(payload);
    bth.build(p);
    build_extended(in, row, p, payload);
    if (payload > 0) std::memset(f->append(payload), 0x5a, payload);
    if (bth.pad_count > 0) std::memset(f->append(bth.pad_count), 0, bth.pad_count);
    if (in.u8() % 16 == 0 && f->size() > 0)
      f->data()[in.below(static_cast<std::uint32_t>(f->size()))] ^= in.u8();
    if (verbs::is_datagram(type_)) {  // IPv4 and UDP, in front
      std::memset(f->data() - 28, 0x45, 28);
      f->network_size = 28;
    }
    engine_.receive({&f, 1}, now_);
    if (row.is_request() && f->drop == Drop::kNone) ++received_;
    pool_.release_one(f);
  }
  static std::size_t payload_size(ByteSource& in) { return in.u8() % 4 == 0 ? in.below(300) : 256; }
  void build_extended(ByteSource& in, const net::OpcodeInfo& row, std::uint8_t* p,
                      std::size_t payload) {
    using net::Header;
    if (row.has(Header::kReth))
      net::Reth{address(in), key(in), length(in, payload)}.build(p + row.offset(Header::kReth));
    if (row.has(Header::kAeth)) {
      constexpr std::uint8_t kinds[] = {0x1f, 0x1f, 0x1f, 0x60, 0x21, 0x62, 0x40, 0x7f};
      net::Aeth{kinds[in.u8() % 8], Msn()}.build(p + row.offset(Header::kAeth));
    }
    if (row.has(Header::kDeth))
      net::Deth{in.u8() % 8 == 0 ? kQkey ^ 1 : kQkey, Qpn(0x55)}.build(p +
                                                                       row.offset(Header::kDeth));
    if (row.has(Header::kIeth)) net::Ieth{key(in)}.build(p + row.offset(Header::kIeth));
  }
  std::uint64_t address(ByteSource& in) const {
    switch (in.u8() % 6) {
      case 0:
        return at(kWindow) - in.below(600);
      case 1:
        return at(kWindow + kWindowSize) - in.below(600);
      case 2:
        return ~std::uint64_t{0} - in.below(300);
      default:
        return at(kWindow) + in.below(kWindowSize);
    }
  }
  Rkey key(ByteSource& in) const {
    switch (in.u8() % 8) {
      case 0:
        return Rkey(region_.lkey.value());
      case 1:
        return Rkey(rkey_.value() ^ 1);
      default:
        return rkey_;
    }
  }
  static std::uint32_t length(ByteSource& in, std::size_t payload) {
    switch (in.u8() % 8) {
      case 0:
        return 0xffff'ffff - in.below(600);
      case 1:
        return in.below(3000);
      case 2:
        return 700;
      default:
        return static_cast<std::uint32_t>(payload);
    }
  }
  void drain() {
    verbs::Completion c[8];
    while (const std::size_t n = engine_.poll_cq(cq_, c)) completed_ += n;
    verbs::AsyncEvent events[8];
    while (engine_.poll_events(events) > 0) {
    }
    H4A_ASSERT(completed_ <= posted_);  // each work request completes once
    if (engine_.qp_status(qpn_)->state == verbs::QpState::kError) {
      H4A_ASSERT(completed_ == posted_);
      transmit();
      revive();
    }
  }
  /// Between what the peer or we may write, the pattern stands.
  void check() const {
    check_gap(0, kWindow);
    check_gap(kWindow + kWindowSize, kReceive);
    check_gap(kReceive + kReceiveSize, kSink);
    check_gap(kSink + kSinkSize, kMemory);
  }
  void check_gap(std::size_t from, std::size_t to) const {
    H4A_ASSERT(memory_[from] == kPattern);
    H4A_ASSERT(std::memcmp(&memory_[from], &memory_[from + 1], to - from - 1) == 0);
  }

  static constexpr std::uint32_t kQkey = 0x1234;
  static constexpr std::uint32_t kRqPsn = 0xfffff0;
  static constexpr std::uint32_t kSqPsn = 0xfffffa;

  verbs::QpType type_;
  SeededRandom random_;
  Engine engine_;
  packet::HeapFramePool pool_;
  std::vector<std::uint8_t> memory_;
  Instant now_ = Instant::from_ns(1);
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::MemoryRegion region_;
  verbs::MwId window_;
  verbs::AhId ah_;
  Rkey rkey_;
  Qpn qpn_;
  std::uint32_t received_ = 0;
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
};

}  // namespace h4a::roce::test
