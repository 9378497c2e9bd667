// A peer that means harm and knows the protocol: bytes choose what happens next from a model of the
// conversation. The model knows what a correct peer would send now (the next packet of the message in
// progress, a new request, the answer to a request of ours), and mostly sends that with one thing
// changed: opcode, PSN, key, address, length, payload, flags. So packets get deep into the checks.
//
// The fuzz target and a seeded test drive it. After each step:
// - memory outside what the peer was given holds a pattern that nothing may change;
// - each work request completes once, and all of them once the QP is in ERROR;
// - numbers that atomics work on are what the accepted atomics make of them, and what they found is
//   answered the same again and again;
// - a second QP of the same engine, and all that is its own, is as it was: no packet of one QP can
//   change another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "net/bth.h"
#include "packet/frame_pool.h"
#include "roce/engine.h"
#include "roce/hostile_peer.h"

namespace h4a::roce::test {

/// True once in `n` times.
inline bool one_in(ByteSource& in, std::uint32_t n) noexcept {
  return in.u8() % n == n - 1;
}

/// A packet of the peer before it becomes bytes.
struct Forged {
  net::Opcode opcode = net::Opcode::kRcSendOnly;
  Psn psn;
  bool ack_req = true;
  bool solicited = false;
  std::uint16_t pkey = 0xffff;
  std::uint64_t address = 0;  // RETH, AtomicETH
  Rkey rkey;
  std::uint32_t length = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;
  std::uint8_t syndrome = 0x1f;
  Msn msn;
  std::uint64_t original = 0;
  Rkey invalidate;
  std::size_t payload = 0;
};

class ModelWorld {
 public:
  static constexpr std::size_t kMemory = 8192;
  static constexpr std::size_t kNumbers = 512;  // four numbers that only atomics may change
  static constexpr std::size_t kWindow = 1024;  // [kWindow, +kWindowSize)
  static constexpr std::size_t kWindowSize = 1000;
  static constexpr std::size_t kReceive = 4096;  // [kReceive, +kReceiveSize)
  static constexpr std::size_t kReceiveSize = 700;
  static constexpr std::size_t kSink = 6000;  // [kSink, +kSinkSize)
  static constexpr std::size_t kSinkSize = 600;
  static constexpr std::uint8_t kPattern = 0xa5;
  static constexpr std::size_t kNumberCount = 4;

  /// @param shared receives come from a shared queue, which the bystander uses too.
  explicit ModelWorld(bool shared = false)
      : random_(11),
        engine_({.pd_max = 1,
                 .mr_max = 4,
                 .mw_max = 2,
                 .cq_max = 2,
                 .srq_max = 1,
                 .qp_max = 2,
                 .window_packets = 8},
                random_),
        pool_(64, 4096),
        memory_(kMemory, kPattern) {
    using verbs::Access;
    pd_ = engine_.alloc_pd().value();
    cq_ = engine_.create_cq(64).value();
    bystander_cq_ = engine_.create_cq(8).value();
    region_ = engine_
                  .register_memory(pd_, memory_.data(), memory_.size(),
                                   Access::kLocalWrite | Access::kWindowBind, kClear)
                  .value();
    numbers_ = engine_
                   .register_memory(pd_, &memory_[kNumbers], sizeof(model_),
                                    Access::kLocalWrite | Access::kRemoteAtomic, kClear)
                   .value();
    fast_ = engine_.alloc_fast_region(pd_, kClear).value();
    if (shared) srq_ = engine_.create_srq({.pd = pd_, .max_wr = 4}).value();
    qpn_ = create(cq_);
    bystander_ = create(bystander_cq_);
    window_ = engine_.alloc_window(pd_).value().id;
    connect(bystander_);
    std::memset(&memory_[kNumbers], 0, sizeof(model_));
    revive();
  }

  /// One step: a packet, time, transmission, or a work request, as the bytes say.
  void step(ByteSource& in) {
    switch (in.u8() % 10) {
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
      case 4:
        receive(in, answer(in));
        break;
      case 5:
        modify(in);
        break;
      default:
        receive(in, request(in));
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
  [[nodiscard]] std::uint64_t atomics_executed() const { return atomics_executed_; }
  [[nodiscard]] std::uint64_t completed_ok() const { return completed_ok_; }

 private:
  // ---- objects ----

  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory_.data()) + offset;
  }
  void must(bool ok) const { H4A_ASSERT(ok); }
  Qpn create(verbs::CqId cq) {
    return engine_
        .create_qp({.pd = pd_,
                    .send_cq = cq,
                    .recv_cq = cq,
                    .max_send_wr = 16,
                    .max_recv_wr = 4,
                    .srq = srq_,
                    .max_inline = 64})
        .value();
  }
  void connect(Qpn qpn) {
    using verbs::Access;
    must(engine_
             .to_init(qpn, {.access =
                                Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic})
             .has_value());
    verbs::RtrAttributes rtr;
    rtr.remote_qpn = Qpn(0x55);
    rtr.rq_psn = Psn(kRqPsn);
    rtr.path_mtu = kMtu;
    rtr.max_dest_rd_atomic = 2;
    rtr.end_to_end_credits = true;
    must(engine_.to_rtr(qpn, rtr, PathId()).has_value());
    verbs::RtsAttributes rts;
    rts.sq_psn = Psn(kSqPsn);
    rts.timeout = 4;
    must(engine_.to_rts(qpn, rts).has_value());
  }
  /// Brings the QP to RTS with a freshly bound window and region, whatever it died of.
  void revive() {
    must(engine_.to_reset(qpn_).has_value());
    connect(qpn_);
    outstanding_.clear();
    atomics_.clear();
    left_ = 0;
    completed_ = 0;
    posted_ = srq_ == verbs::SrqId() ? 0 : engine_.srq_status(srq_)->used;
    rkey_ = engine_.fresh_rkey(window_).value();
    verbs::SendWr w;
    w.opcode = verbs::WrOpcode::kBindWindow;
    w.window = window_;
    w.region = region_.id;
    w.bind_address = at(kWindow);
    w.bind_length = kWindowSize;
    w.bind_access = verbs::Access::kRemoteWrite | verbs::Access::kRemoteRead;
    w.rkey = rkey_;
    must(post_one(w));
    must(engine_.deregister_memory(fast_.id).has_value());
    fast_ = engine_.alloc_fast_region(pd_, kClear).value();
    fast_key_ = Rkey((fast_.rkey.value() & ~std::uint32_t{0xff}) | ++variant_);
    transmit();
  }

  // ---- our own side ----

  bool post_one(const verbs::SendWr& w) {
    if (!engine_.post_send(qpn_, {&w, 1})) return false;
    ++posted_;
    return true;
  }
  void post(ByteSource& in) {
    using verbs::WrOpcode;
    verbs::SendWr w;
    constexpr WrOpcode kinds[] = {WrOpcode::kSend,         WrOpcode::kRdmaWrite,
                                  WrOpcode::kRdmaRead,     WrOpcode::kCompareSwap,
                                  WrOpcode::kFetchAdd,     WrOpcode::kSendWithInvalidate,
                                  WrOpcode::kFastRegister, WrOpcode::kLocalInvalidate};
    w.opcode = kinds[in.u8() % std::size(kinds)];
    w.sge_count = 1;
    const bool atomic = w.opcode == WrOpcode::kCompareSwap || w.opcode == WrOpcode::kFetchAdd;
    const std::uint32_t length = atomic ? 8 : in.below(static_cast<std::uint32_t>(kSinkSize) + 1);
    w.sges[0] = {at(kSink), length, region_.lkey};
    w.inlined = !atomic && w.opcode != WrOpcode::kRdmaRead && length <= 64 && one_in(in, 2);
    w.fence = one_in(in, 8);
    w.wr_id = 1;
    if (w.opcode == WrOpcode::kFastRegister) {
      w.region = fast_.id;
      w.rkey = fast_key_;
      w.bind_address = at(kWindow);
      w.bind_length = kWindowSize;
      w.bind_access = verbs::Access::kLocalWrite | verbs::Access::kRemoteWrite;
      w.inlined = false;
    } else if (w.opcode == WrOpcode::kLocalInvalidate) {
      w.invalidate_rkey = fast_key_;
      w.inlined = false;
    }
    static_cast<void>(post_one(w));
  }
  void post_receive() {
    verbs::RecvWr w;
    w.wr_id = 2;
    w.sge_count = 1;
    w.sges[0] = {at(kReceive), kReceiveSize, region_.lkey};
    if (srq_ == verbs::SrqId() ? engine_.post_recv(qpn_, {&w, 1}).has_value()
                               : engine_.post_srq_recv(srq_, {&w, 1}).has_value())
      ++posted_;
  }
  void modify(ByteSource& in) {
    if (one_in(in, 4)) {
      static_cast<void>(engine_.to_sqd(qpn_));
    } else if (engine_.qp_status(qpn_)->state == verbs::QpState::kSqd) {
      verbs::RtsAttributes rts;
      rts.timeout = 4;
      must(engine_.to_rts(qpn_, rts).has_value());
    }
  }
  void transmit() {
    packet::Frame* out[16];
    while (const std::size_t n = engine_.transmit(pool_, out, now_)) {
      for (std::size_t i = 0; i < n; ++i) {
        out[i]->flatten();
        const auto packet = net::parse_transport(out[i]->bytes());
        H4A_ASSERT(packet.has_value());
        see(*packet);
      }
      pool_.release(std::span(out).first(n));
    }
  }
  /// What we sent: requests wait for answers of the peer; answers to atomics are compared.
  void see(const net::TransportPacket& packet) {
    const net::OpcodeInfo& row = packet.row();
    if (row.is_request()) {
      if (outstanding_.size() == 32) outstanding_.pop_front();
      const std::uint32_t length =
          row.operation == net::Operation::kReadRequest ? packet.reth().dma_length : 0;
      outstanding_.push_back({row.operation, packet.bth().psn(), length});
    } else if (row.operation == net::Operation::kAtomicAcknowledge) {
      const auto found = atomics_.find(packet.bth().psn().value());
      H4A_ASSERT(found != atomics_.end());
      H4A_ASSERT(found->second == packet.atomic_ack_eth().original);
    }
  }

  // ---- the peer ----

  static net::Opcode pick(ByteSource& in, std::initializer_list<net::Opcode> of) {
    return of.begin()[in.u8() % of.size()];
  }
  /// The next request of a correct peer: the message in progress goes on, or a new one begins.
  Forged request(ByteSource& in) {
    using net::Opcode;
    Forged f;
    f.psn = engine_.qp_attributes(qpn_)->rtr.rq_psn;
    f.rkey = rkey_;
    f.invalidate = one_in(in, 2) ? rkey_ : fast_key_;
    f.address = at(kWindow) + in.below(200);
    if (left_ > 0) return go_on(in, f);
    switch (in.u8() % 8) {
      case 0:
        f.opcode = pick(in, {Opcode::kRcFetchAdd, Opcode::kRcCompareSwap});
        f.rkey = numbers_.rkey;
        f.address = at(kNumbers) + 8 * in.below(kNumberCount);
        f.swap_or_add = in.u8();
        f.compare = one_in(in, 2) ? in.u8() : model_[in.u8() % kNumberCount];
        return f;
      case 1:
        f.opcode = Opcode::kRcReadRequest;
        f.length = in.below(800);
        return f;
      case 2:
      case 3:
        f.opcode = pick(in, {Opcode::kRcWriteFirst, Opcode::kRcSendFirst});
        f.payload = kMtu;
        f.length = kMtu + 1 + in.below(500);
        if (one_in(in, 4)) f.rkey = fast_key_;
        begin_ = f.opcode;
        left_ = f.length - kMtu;
        return f;
      case 4:
        f.opcode = pick(in, {Opcode::kRcSendOnlyWithInvalidate, Opcode::kRcSendOnlyWithImm});
        f.payload = in.below(kMtu + 1);
        return f;
      default:
        f.opcode =
            pick(in, {Opcode::kRcSendOnly, Opcode::kRcWriteOnly, Opcode::kRcWriteOnlyWithImm});
        f.payload = in.below(kMtu + 1);
        f.length = static_cast<std::uint32_t>(f.payload);
        return f;
    }
  }
  Forged go_on(ByteSource& in, Forged f) {
    using net::Opcode;
    const bool write = begin_ == Opcode::kRcWriteFirst;
    f.payload = std::min<std::uint32_t>(left_, kMtu);
    left_ -= static_cast<std::uint32_t>(f.payload);
    if (left_ > 0)
      f.opcode = write ? Opcode::kRcWriteMiddle : Opcode::kRcSendMiddle;
    else if (write)
      f.opcode = pick(in, {Opcode::kRcWriteLast, Opcode::kRcWriteLastWithImm});
    else
      f.opcode = pick(
          in, {Opcode::kRcSendLast, Opcode::kRcSendLastWithImm, Opcode::kRcSendLastWithInvalidate});
    return f;
  }
  /// An answer to a request that we sent: the right one, or an ACK or NAK of it.
  Forged answer(ByteSource& in) {
    using net::Opcode;
    Forged f;
    f.opcode = Opcode::kRcAcknowledge;
    f.msn = Msn(in.u8());
    constexpr std::uint8_t kinds[] = {0x1f, 0x1f, 0x1f, 0x00, 0x05, 0x60, 0x21, 0x62};
    f.syndrome = kinds[in.u8() % std::size(kinds)];
    f.psn = engine_.qp_attributes(qpn_)->rts.sq_psn - 1;
    if (outstanding_.empty()) return f;
    const Sent& sent = outstanding_[in.u8() % outstanding_.size()];
    f.psn = sent.psn;
    if (one_in(in, 3)) return f;
    if (sent.operation == net::Operation::kReadRequest) {
      const std::uint32_t packets = sent.length <= kMtu ? 1 : (sent.length - 1) / kMtu + 1;
      const std::uint32_t index = in.u8() % packets;
      const bool last = index + 1 == packets;
      f.psn = sent.psn + index;
      f.payload = last ? sent.length - index * kMtu : kMtu;
      if (packets == 1)
        f.opcode = Opcode::kRcReadResponseOnly;
      else
        f.opcode = last         ? Opcode::kRcReadResponseLast
                   : index == 0 ? Opcode::kRcReadResponseFirst
                                : Opcode::kRcReadResponseMiddle;
      f.syndrome = 0x1f;
    } else if (sent.operation == net::Operation::kCompareSwap ||
               sent.operation == net::Operation::kFetchAdd) {
      f.opcode = Opcode::kRcAtomicAcknowledge;
      f.original = in.u8();
      f.syndrome = 0x1f;
    }
    return f;
  }
  /// Changes one thing.
  void mutate(ByteSource& in, Forged& f) {
    switch (in.u8() % 12) {
      case 0:
        f.opcode = net::kOpcodeTable[in.below(net::kOpcodeTable.size())].opcode;
        break;
      case 1:
        f.psn = f.psn + in.below(12);
        break;
      case 2:
        f.psn = f.psn - (1 + in.below(12));
        break;
      case 3:
        f.psn = f.psn + 0x800000 + in.u8();
        break;
      case 4:
        f.rkey = Rkey(one_in(in, 2) ? region_.lkey.value() : f.rkey.value() ^ (1U << in.u8() % 32));
        break;
      case 5:
        f.address = one_in(in, 2) ? f.address ^ (std::uint64_t{1} << in.u8() % 64)
                                  : ~std::uint64_t{0} - in.below(300);
        break;
      case 6:
        f.address = at(kWindow + kWindowSize) - in.below(600);
        break;
      case 7:
        f.length = one_in(in, 2) ? 0xffff'ffff - in.below(600) : in.below(3000);
        break;
      case 8:
        f.payload = in.below(300);
        break;
      case 9:
        f.syndrome = in.u8();
        break;
      case 10:
        f.pkey = static_cast<std::uint16_t>(in.u8() << 8);
        break;
      default:
        f.invalidate = Rkey(one_in(in, 2) ? numbers_.rkey.value() : in.u8());
        break;
    }
  }
  void receive(ByteSource& in, Forged f) {
    f.ack_req = one_in(in, 2);
    f.solicited = one_in(in, 4);
    const bool replay = one_in(in, 8) && last_.has_value();
    if (replay)
      f = *last_;
    else if (one_in(in, 3))
      mutate(in, f);
    last_ = f;
    packet::Frame* frame = forge(f);
    if (one_in(in, 32) && frame->size() > 0)
      frame->data()[in.below(static_cast<std::uint32_t>(frame->size()))] ^= in.u8();
    const bool whole = net::parse_transport(frame->bytes()).has_value();
    if (whole) note_atomic(net::parse_transport(frame->bytes()).value());
    engine_.receive({&frame, 1}, now_);
    if (!noted_ || frame->drop != Drop::kNone) noted_ = false;
    if (noted_) execute_in_model();
    noted_ = false;
    if (frame->drop != Drop::kNone) left_ = 0;
    pool_.release_one(frame);
  }
  packet::Frame* forge(const Forged& f) {
    using net::Header;
    const net::OpcodeInfo& row = net::info(f.opcode);
    packet::Frame* frame = pool_.allocate_one();
    std::uint8_t* p = frame->append(row.header_length());
    std::memset(p, 0, row.header_length());
    const std::size_t payload = row.has_payload ? f.payload : 0;
    net::Bth bth;
    bth.opcode = f.opcode;
    bth.dest_qp = qpn_;
    bth.ack_req = f.ack_req;
    bth.solicited = f.solicited;
    bth.pkey = f.pkey;
    bth.psn = f.psn;
    bth.pad_count = net::pad_for(payload);
    bth.build(p);
    if (row.has(Header::kReth))
      net::Reth{f.address, f.rkey, f.length}.build(p + row.offset(Header::kReth));
    if (row.has(Header::kAtomicEth))
      net::AtomicEth{f.address, f.rkey, f.swap_or_add, f.compare}.build(
          p + row.offset(Header::kAtomicEth));
    if (row.has(Header::kAeth)) net::Aeth{f.syndrome, f.msn}.build(p + row.offset(Header::kAeth));
    if (row.has(Header::kAtomicAckEth))
      net::AtomicAckEth{f.original}.build(p + row.offset(Header::kAtomicAckEth));
    if (row.has(Header::kIeth)) net::Ieth{f.invalidate}.build(p + row.offset(Header::kIeth));
    if (payload > 0) std::memset(frame->append(payload), 0x5a, payload);
    if (bth.pad_count > 0) std::memset(frame->append(bth.pad_count), 0, bth.pad_count);
    return frame;
  }

  // ---- what must hold ----

  void note_atomic(const net::TransportPacket& packet) {
    noted_ = packet.row().has(net::Header::kAtomicEth);
    if (!noted_) return;
    atomic_ = packet.atomic_eth();
    atomic_adds_ = packet.row().operation == net::Operation::kFetchAdd;
    atomic_psn_ = packet.bth().psn();
  }
  /// An atomic that was accepted: it can only have been one on our numbers.
  void execute_in_model() {
    const std::uint64_t offset = atomic_.virtual_address - at(kNumbers);
    H4A_ASSERT(offset % 8 == 0 && offset < sizeof(model_) && atomic_.rkey == numbers_.rkey);
    std::uint64_t& value = model_[offset / 8];
    atomics_[atomic_psn_.value()] = value;
    if (atomic_adds_)
      value += atomic_.swap_or_add;
    else if (value == atomic_.compare)
      value = atomic_.swap_or_add;
    ++atomics_executed_;
  }
  void drain() {
    verbs::Completion c[8];
    while (const std::size_t n = engine_.poll_cq(cq_, c)) {
      completed_ += n;
      for (std::size_t i = 0; i < n; ++i)
        completed_ok_ += c[i].status == verbs::CompletionStatus::kSuccess ? 1U : 0U;
    }
    verbs::AsyncEvent events[8];
    while (engine_.poll_events(events) > 0) {
    }
    H4A_ASSERT(completed_ <= posted_);  // each work request completes once
    if (engine_.qp_status(qpn_)->state == verbs::QpState::kError) {
      const std::size_t left = srq_ == verbs::SrqId() ? 0 : engine_.srq_status(srq_)->used;
      H4A_ASSERT(completed_ + left == posted_);
      transmit();
      revive();
    }
  }
  void check() {
    check_gap(0, kNumbers);
    H4A_ASSERT(std::memcmp(&memory_[kNumbers], model_, sizeof(model_)) == 0);
    check_gap(kNumbers + sizeof(model_), kWindow);
    check_gap(kWindow + kWindowSize, kReceive);
    check_gap(kReceive + kReceiveSize, kSink);
    check_gap(kSink + kSinkSize, kMemory);
    const verbs::QpAttributes a = engine_.qp_attributes(bystander_).value();
    H4A_ASSERT(a.state == verbs::QpState::kRts && a.rtr.rq_psn == Psn(kRqPsn) &&
               a.rts.sq_psn == Psn(kSqPsn));
    verbs::Completion c;
    H4A_ASSERT(engine_.poll_cq(bystander_cq_, {&c, 1}) == 0);
  }
  void check_gap(std::size_t from, std::size_t to) const {
    H4A_ASSERT(memory_[from] == kPattern);
    H4A_ASSERT(std::memcmp(&memory_[from], &memory_[from + 1], to - from - 1) == 0);
  }

  static constexpr std::uint16_t kMtu = 256;
  static constexpr std::uint32_t kRqPsn = 0xfffff0;
  static constexpr std::uint32_t kSqPsn = 0xfffffa;
  struct Sent {
    net::Operation operation;
    Psn psn;
    std::uint32_t length;
  };

  SeededRandom random_;
  Engine engine_;
  packet::HeapFramePool pool_;
  std::vector<std::uint8_t> memory_;
  Instant now_ = Instant::from_ns(1);
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::CqId bystander_cq_;
  verbs::SrqId srq_;
  verbs::MemoryRegion region_;
  verbs::MemoryRegion numbers_;
  verbs::MemoryRegion fast_;
  verbs::MwId window_;
  Rkey rkey_;
  Rkey fast_key_;
  std::uint8_t variant_ = 0;
  Qpn qpn_;
  Qpn bystander_;
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
  std::uint64_t completed_ok_ = 0;
  // The model.
  std::deque<Sent> outstanding_;
  std::optional<Forged> last_;
  net::Opcode begin_ = net::Opcode::kRcSendFirst;  // of the message in progress
  std::uint32_t left_ = 0;                         // bytes of it that are to come
  std::uint64_t model_[kNumberCount] = {};
  std::map<std::uint32_t, std::uint64_t> atomics_;  // what they found, by PSN
  bool noted_ = false;
  net::AtomicEth atomic_;
  bool atomic_adds_ = false;
  Psn atomic_psn_;
  std::uint64_t atomics_executed_ = 0;
};

}  // namespace h4a::roce::test
