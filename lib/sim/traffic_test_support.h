// Traffic: two applications that exchange random messages over an RC pair and check every byte of it.
//
// Each side posts sends, writes (with and without immediate) and reads of lengths around 0, 1 and the
// MTU, and atomics on numbers in the peer's memory. What must arrive is known beforehand; what arrives
// is compared, in order; each work request may complete once. An atomic that were executed twice, or
// not, would show in what the next one finds and in what is left. Receive buffers run short now and
// then, so that RNR is part of the mix.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "sim/world.h"

namespace h4a::sim {

struct TrafficOptions {
  std::size_t messages = 40;  // of each side
  std::size_t length_max = 12'000;
  std::uint16_t mtu = 1024;
  std::uint32_t max_inline = 0;  // some payloads up to this length are inlined
  double starve = 0.1;           // how often receive buffers are not replenished in a turn
};

class Traffic {
 public:
  Traffic(World& world, const Pair& pair, const TrafficOptions& options)
      : world_(world), options_(options) {
    for (std::size_t i = 0; i < 2; ++i) start(i, pair.of_host[i]);
    for (std::size_t i = 0; i < 2; ++i) plan(i);
  }

  /// One turn of both applications.
  void poll() {
    for (std::size_t i = 0; i < 2; ++i) {
      collect(i);
      replenish(i);
      post(i);
    }
  }
  [[nodiscard]] bool done() const {
    for (const Side& s : sides_)
      if (!s.planned.empty() || !s.outstanding.empty() || !s.expected.empty()) return false;
    return true;
  }
  /// Empty if everything was right so far.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  [[nodiscard]] bool failed() const noexcept { return !error_.empty(); }
  /// After done(): what the writes left in memory.
  void check_written() {
    for (std::size_t i = 0; i < 2; ++i)
      for (const Message& m : sides_[i].written)
        if (!equal(sides_[1 - i].target.data() + m.slot, m)) error_ = "a written range differs";
    for (const Side& s : sides_)
      if (s.numbers != s.numbers_planned) error_ = "an atomic was lost or executed twice";
  }

 private:
  static constexpr std::size_t kRecvDepth = 16;
  static constexpr std::size_t kNumbers = 4;
  enum class Kind : std::uint8_t {
    kSend,
    kSendWithImm,
    kWrite,
    kWriteWithImm,
    kRead,
    kFetchAdd,
    kCompareSwap,
  };
  struct Message {
    Kind kind = Kind::kSend;
    std::uint32_t length = 0;
    std::size_t source = 0;  // offset in the sender's (read: the peer's) source memory
    std::size_t slot = 0;    // offset in the peer's target memory; read: in our own
    std::uint32_t imm = 0;
    std::uint64_t id = 0;
    std::size_t origin = 0;  // whose source memory holds the bytes
    // Atomics: on which of the peer's numbers, with what, and what must be found.
    std::size_t number = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    std::uint64_t found = 0;
  };
  static bool is_atomic(const Message& m) {
    return m.kind == Kind::kFetchAdd || m.kind == Kind::kCompareSwap;
  }
  struct Side {
    Endpoint e;
    std::vector<std::uint8_t> source, target, receive;
    verbs::MemoryRegion source_mr, target_mr, receive_mr;
    std::deque<Message> planned, outstanding, expected;
    std::vector<Message> written;
    std::deque<std::size_t> free_slots, posted_slots;
    std::size_t target_used = 0;
    // What the peer's atomics work on, and what will be left of it.
    std::array<std::uint64_t, kNumbers> numbers{};
    std::array<std::uint64_t, kNumbers> numbers_planned{};
    verbs::MemoryRegion numbers_mr;
  };

  void fail_with(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  void start(std::size_t i, const Endpoint& e) {
    Side& s = sides_[i];
    s.e = e;
    s.source.resize(64 * 1024);
    world_.random().fill(s.source);
    s.target.resize(options_.messages * 2 * options_.length_max);
    s.receive.resize(kRecvDepth * options_.length_max);
    auto& host = world_.host(i);
    using verbs::Access;
    s.source_mr =
        *host.register_memory(e.pd, s.source.data(), s.source.size(), Access::kRemoteRead, kClear);
    s.target_mr = *host.register_memory(e.pd, s.target.data(), s.target.size(),
                                        Access::kLocalWrite | Access::kRemoteWrite, kClear);
    s.receive_mr = *host.register_memory(e.pd, s.receive.data(), s.receive.size(),
                                         Access::kLocalWrite, kClear);
    s.numbers_mr = *host.register_memory(e.pd, s.numbers.data(), sizeof s.numbers,
                                         Access::kLocalWrite | Access::kRemoteAtomic, kClear);
    for (std::size_t n = 0; n < kRecvDepth; ++n) s.free_slots.push_back(n);
  }

  std::uint32_t random_length() {
    const std::uint32_t mtu = options_.mtu;
    const std::uint32_t edges[] = {0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1};
    const std::uint64_t pick = world_.random().below(14);
    return pick < std::size(edges)
               ? edges[pick]
               : static_cast<std::uint32_t>(world_.random().below(options_.length_max + 1));
  }

  void plan(std::size_t i) {
    for (std::size_t n = 0; n < options_.messages; ++n) {
      Message m;
      m.kind = static_cast<Kind>(world_.random().below(7));
      m.length = is_atomic(m) ? 8 : random_length();
      m.source = world_.random().below(sides_[i].source.size() - m.length + 1);
      m.origin = m.kind == Kind::kRead ? 1 - i : i;
      m.imm = world_.random().u32();
      m.id = n;
      // Where it lands: writes in the peer's target memory, reads and what atomics found in ours.
      const bool comes_back = m.kind == Kind::kRead || is_atomic(m);
      Side& to = sides_[comes_back ? i : 1 - i];
      const bool is_send = m.kind == Kind::kSend || m.kind == Kind::kSendWithImm;
      if (!is_send) {
        m.slot = to.target_used;
        to.target_used += m.length;
      }
      if (is_atomic(m)) plan_atomic(m, sides_[1 - i]);
      sides_[i].planned.push_back(m);
      if (is_send || m.kind == Kind::kWriteWithImm) sides_[1 - i].expected.push_back(m);
    }
  }

  /// Atomics of one side are executed in order, so what each finds is known.
  void plan_atomic(Message& m, Side& peer) {
    m.number = world_.random().below(kNumbers);
    std::uint64_t& value = peer.numbers_planned[m.number];
    m.found = value;
    m.compare_add = std::uint64_t{world_.random().u32()} << 32 | world_.random().u32();
    m.swap = world_.random().u32();
    if (m.kind == Kind::kFetchAdd) {
      value += m.compare_add;
    } else if (world_.random().below(2) == 0) {  // else it compares with something else
      m.compare_add = value;
      value = m.swap;
    }
  }

  void post(std::size_t i) {
    Side& s = sides_[i];
    const Side& peer = sides_[1 - i];
    while (!s.planned.empty()) {
      const Message& m = s.planned.front();
      verbs::SendWr wr;
      wr.wr_id = m.id;
      wr.sge_count = m.length > 0 ? 1 : 0;
      wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.source.data()) + m.source, m.length,
                    s.source_mr.lkey};
      // Some payloads are gathered from two places.
      if (m.length > 1 && m.imm % 3 == 0 && m.kind != Kind::kRead && !is_atomic(m)) {
        const std::uint32_t half = m.length / 2;
        wr.sge_count = 2;
        wr.sges[0].length = half;
        wr.sges[1] = {wr.sges[0].address + half, m.length - half, s.source_mr.lkey};
      }
      wr.imm = m.imm;
      wr.remote_address = reinterpret_cast<std::uintptr_t>(peer.target.data()) + m.slot;
      wr.rkey = peer.target_mr.rkey;
      wr.inlined = m.imm % 2 == 0 && m.length <= options_.max_inline && m.kind != Kind::kRead &&
                   !is_atomic(m);
      switch (m.kind) {
        case Kind::kFetchAdd:
        case Kind::kCompareSwap:
          wr.opcode = m.kind == Kind::kFetchAdd ? verbs::WrOpcode::kFetchAdd
                                                : verbs::WrOpcode::kCompareSwap;
          wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.target.data()) + m.slot, m.length,
                        s.target_mr.lkey};
          wr.remote_address = reinterpret_cast<std::uintptr_t>(&peer.numbers[m.number]);
          wr.rkey = peer.numbers_mr.rkey;
          wr.compare_add = m.compare_add;
          wr.swap = m.swap;
          break;
        case Kind::kSend:
          wr.opcode = verbs::WrOpcode::kSend;
          break;
        case Kind::kSendWithImm:
          wr.opcode = verbs::WrOpcode::kSendWithImm;
          break;
        case Kind::kWrite:
          wr.opcode = verbs::WrOpcode::kRdmaWrite;
          break;
        case Kind::kWriteWithImm:
          wr.opcode = verbs::WrOpcode::kRdmaWriteWithImm;
          break;
        case Kind::kRead:
          wr.opcode = verbs::WrOpcode::kRdmaRead;
          wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.target.data()) + m.slot, m.length,
                        s.target_mr.lkey};
          wr.remote_address = reinterpret_cast<std::uintptr_t>(peer.source.data()) + m.source;
          wr.rkey = peer.source_mr.rkey;
          break;
      }
      const auto posted = world_.host(i).post_send(s.e.qpn, {&wr, 1});
      if (!posted && posted.error() == Error::kFull) return;
      if (!posted) return fail_with("post_send: " + std::string(to_string(posted.error())));
      s.outstanding.push_back(m);
      s.planned.pop_front();
    }
  }

  void replenish(std::size_t i) {
    Side& s = sides_[i];
    if (world_.random().below(1000) < static_cast<std::uint64_t>(options_.starve * 1000)) return;
    while (!s.free_slots.empty()) {
      const std::size_t slot = s.free_slots.front();
      verbs::RecvWr wr;
      wr.wr_id = slot;
      wr.sge_count = 1;
      wr.sges[0] = {reinterpret_cast<std::uintptr_t>(s.receive.data()) + slot * options_.length_max,
                    static_cast<std::uint32_t>(options_.length_max), s.receive_mr.lkey};
      if (!(s.e.srq == verbs::SrqId() ? world_.host(i).post_recv(s.e.qpn, {&wr, 1})
                                      : world_.host(i).post_srq_recv(s.e.srq, {&wr, 1})))
        return;
      s.posted_slots.push_back(slot);
      s.free_slots.pop_front();
    }
  }

  bool equal(const std::uint8_t* p, const Message& m) const {
    return m.length == 0 || std::equal(p, p + m.length, sides_[m.origin].source.data() + m.source);
  }

  void collect(std::size_t i) {
    verbs::Completion batch[16];
    while (const std::size_t n = world_.host(i).poll_cq(sides_[i].e.cq, batch))
      for (std::size_t k = 0; k < n; ++k) complete(i, batch[k]);
  }

  void complete(std::size_t i, const verbs::Completion& c) {
    if (c.status != verbs::CompletionStatus::kSuccess)
      return fail_with("completion: " + std::string(verbs::to_string(c.status)));
    const bool receive = c.opcode == verbs::CompletionOpcode::kRecv ||
                         c.opcode == verbs::CompletionOpcode::kRecvRdmaWithImm;
    receive ? complete_receive(i, c) : complete_send(i, c);
  }

  void complete_send(std::size_t i, const verbs::Completion& c) {
    Side& s = sides_[i];
    if (s.outstanding.empty() || s.outstanding.front().id != c.wr_id)
      return fail_with("a send completed twice or out of order");
    const Message m = s.outstanding.front();
    s.outstanding.pop_front();
    if (m.kind == Kind::kRead && !equal(s.target.data() + m.slot, m))
      fail_with("a read brought wrong bytes");
    if (is_atomic(m) && std::memcmp(s.target.data() + m.slot, &m.found, sizeof m.found) != 0)
      fail_with("an atomic found what cannot have been there");
    if (m.kind == Kind::kWrite || m.kind == Kind::kWriteWithImm) s.written.push_back(m);
  }

  void complete_receive(std::size_t i, const verbs::Completion& c) {
    Side& s = sides_[i];
    if (s.posted_slots.empty() || s.posted_slots.front() != c.wr_id)
      return fail_with("a receive completed twice or out of order");
    s.posted_slots.pop_front();
    if (s.expected.empty()) return fail_with("a message arrived that nobody sent");
    const Message m = s.expected.front();
    s.expected.pop_front();
    const bool write = m.kind == Kind::kWriteWithImm;
    if (write != (c.opcode == verbs::CompletionOpcode::kRecvRdmaWithImm))
      return fail_with("messages out of order");
    if (c.byte_len != m.length) return fail_with("wrong length");
    if (c.has_imm != (m.kind != Kind::kSend) || (c.has_imm && c.imm != m.imm))
      return fail_with("wrong immediate");
    const std::uint8_t* at =
        write ? s.target.data() + m.slot : s.receive.data() + c.wr_id * options_.length_max;
    if (!equal(at, m)) fail_with("a message arrived with wrong bytes");
    s.free_slots.push_back(c.wr_id);
  }

  World& world_;
  TrafficOptions options_;
  Side sides_[2];
  std::string error_;
};

}  // namespace h4a::sim
