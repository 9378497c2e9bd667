// Two engines back to back over a bad link, from a seed: each message arrives exactly once, in
// order, intact; each work request completes once; all frames come back; then nothing is left to
// do.
#include <deque>
#include <memory>
#include <queue>

#include "packet/frame_pool.h"
#include "roce/engine.h"
#include "roce/test_bench.h"

namespace h4a::roce {
namespace {

using test::pattern;
using verbs::Access;
using verbs::Completion;
using verbs::CompletionStatus;
using verbs::SendWr;
using verbs::WrOpcode;

constexpr std::size_t kSlot = 4096;  // bytes of a message's place at either end
constexpr std::size_t kSlots = 64;
constexpr std::size_t kReceives = 16;
constexpr std::size_t kMessages = 200;
constexpr std::uint8_t kUsedUp = 0xee;

struct Faults {
  std::uint32_t loss = 0;  // of 1000
  std::uint32_t duplication = 0;
  std::uint32_t reordering = 0;
};

/// One direction of the link.
class Link {
 public:
  Link(Random& random, const Faults& faults) : random_(random), faults_(faults) {}
  void send(std::vector<std::uint8_t> bytes, Instant now) {
    if (hit(faults_.loss)) return;  // a corrupted packet ends here too: the ICRC is the stack's
    if (hit(faults_.duplication)) queue(bytes, now);
    queue(std::move(bytes), now);
  }
  [[nodiscard]] Instant next_at() const {
    return queue_.empty() ? Instant::never() : queue_.top().at;
  }
  [[nodiscard]] std::vector<std::uint8_t> take() {
    std::vector<std::uint8_t> bytes = queue_.top().bytes;
    queue_.pop();
    return bytes;
  }
  void heal() { faults_ = {}; }

 private:
  struct Entry {
    Instant at;
    std::uint64_t order;
    std::vector<std::uint8_t> bytes;
    bool operator<(const Entry& o) const { return at != o.at ? at > o.at : order > o.order; }
  };
  bool hit(std::uint32_t of_1000) { return random_.below(1000) < of_1000; }
  void queue(std::vector<std::uint8_t> bytes, Instant now) {
    const Duration extra = hit(faults_.reordering)
                               ? Duration::us(static_cast<std::int64_t>(random_.below(200)))
                               : Duration();
    queue_.push({now + Duration::us(20) + extra, ++sent_, std::move(bytes)});
  }
  Random& random_;
  Faults faults_;
  std::uint64_t sent_ = 0;
  std::priority_queue<Entry> queue_;
};

/// What one side has asked for and not yet seen complete.
struct Operation {
  WrOpcode opcode;
  std::size_t slot;
  std::uint32_t length;
  std::size_t seed;
};

struct Node {
  Node(Random& random, std::uint32_t window, IpAddress own, IpAddress other)
      : engine({.pd_max = 2,
                .mr_max = 8,
                .mw_max = 128,
                .cq_max = 2,
                .qp_max = 2,
                .window_packets = window},
               random),
        pool(512),
        source(kSlots * kSlot),
        sink(kSlots * kSlot),
        inbox(kSlots * kSlot),
        receives(kReceives * kSlot),
        address(own),
        peer_address(other) {
    pd = engine.alloc_pd().value();
    cq = engine.create_cq(4096).value();
    qpn = engine.create_qp({.pd = pd, .send_cq = cq, .recv_cq = cq}).value();
    source_region = add(source);
    sink_region = add(sink);
    inbox_region = add(inbox);
    receives_region = add(receives);
  }
  verbs::MemoryRegion add(std::vector<std::uint8_t>& v) {
    return engine.register_memory(pd, v.data(), v.size(), test::kAllRights, kClear).value();
  }
  static std::uint64_t at(std::vector<std::uint8_t>& v, std::size_t slot) {
    return reinterpret_cast<std::uint64_t>(v.data() + slot * kSlot);
  }

  Engine engine;
  packet::HeapFramePool pool;
  std::vector<std::uint8_t> source;  // SENDs and WRITEs come from here, the peer READs it
  std::vector<std::uint8_t> sink;    // the peer WRITEs here; READs of ours land in `inbox`
  std::vector<std::uint8_t> inbox;
  std::vector<std::uint8_t> receives;
  IpAddress address;
  IpAddress peer_address;
  verbs::PdId pd;
  verbs::CqId cq;
  Qpn qpn;
  verbs::MemoryRegion source_region;
  verbs::MemoryRegion sink_region;
  verbs::MemoryRegion inbox_region;
  verbs::MemoryRegion receives_region;
  std::deque<Operation> outstanding;
  std::deque<Operation> expected_receives;  // what the peer sent, in order
  std::size_t posted = 0;
  std::size_t completed = 0;
  std::size_t received = 0;
  std::size_t receives_posted = 0;
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : seed_(seed),
        random_(seed),
        faults_{static_cast<std::uint32_t>(random_.below(60)),
                static_cast<std::uint32_t>(random_.below(60)),
                static_cast<std::uint32_t>(random_.below(100))},
        mtu_(static_cast<std::uint16_t>(256 << random_.below(4))),
        window_(static_cast<std::uint32_t>(2 + random_.below(60))),
        a_(random_, window_, IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2)),
        b_(random_, window_, a_.peer_address, a_.address),
        to_a_(random_, faults_),
        to_b_(random_, faults_) {
    const Psn psn_a(random_.u32());
    const Psn psn_b(random_.u32());
    connect(a_, b_.qpn, psn_a, psn_b);
    connect(b_, a_.qpn, psn_b, psn_a);
  }

  void run() {
    for (int step = 0; !finished(); ++step) {
      if (step == 400'000) give_up("did not finish");
      if (step == 5'000) {
        to_a_.heal();
        to_b_.heal();
      }
      turn(a_, b_, to_b_);
      turn(b_, a_, to_a_);
      deliver(a_, to_a_);
      deliver(b_, to_b_);
      move_time();
    }
    check_end(a_, b_);
    check_end(b_, a_);
  }

 private:
  void connect(Node& n, Qpn remote, Psn sq, Psn rq) {
    assert_ok(n.engine.to_init(n.qpn, {.access = test::kAllRights}));
    verbs::RtrAttributes rtr;
    rtr.local_address = n.address;
    rtr.remote_address = n.peer_address;
    rtr.remote_qpn = remote;
    rtr.rq_psn = rq;
    rtr.path_mtu = mtu_;
    rtr.max_dest_rd_atomic = 4;
    rtr.min_rnr_timer = 1;
    assert_ok(n.engine.to_rtr(n.qpn, rtr, PathId(1)));
    verbs::RtsAttributes rts;
    rts.sq_psn = sq;
    rts.timeout = 5;
    rts.max_rd_atomic = 4;
    assert_ok(n.engine.to_rts(n.qpn, rts));
  }

  void turn(Node& n, Node& peer, Link& out) {
    if (random_.below(4) == 0) post(n, peer);
    if (random_.below(6) == 0) post_receive(n);
    transmit(n, out);
    poll(n, peer);
  }

  /// A message into a slot that no other message in flight uses.
  void post(Node& n, Node& peer) {
    if (n.posted == kMessages || n.outstanding.size() >= 32) return;
    constexpr WrOpcode kinds[] = {WrOpcode::kSend, WrOpcode::kSendWithImm, WrOpcode::kRdmaWrite,
                                  WrOpcode::kRdmaWriteWithImm, WrOpcode::kRdmaRead};
    const Operation op{kinds[random_.below(std::size(kinds))], n.posted % kSlots,
                       static_cast<std::uint32_t>(random_.below(kSlot + 1)), n.posted};
    const std::string data = pattern(op.length, op.seed);
    Node& data_owner = op.opcode == WrOpcode::kRdmaRead ? peer : n;
    auto& from = op.opcode == WrOpcode::kRdmaRead ? data_owner.sink : data_owner.source;
    // The peer's sink is written by us alone, so it can also be what we READ.
    std::copy(data.begin(), data.end(),
              from.begin() + static_cast<std::ptrdiff_t>(op.slot * kSlot));
    SendWr w;
    w.wr_id = n.posted;
    w.opcode = op.opcode;
    w.sge_count = 1;
    w.imm = static_cast<std::uint32_t>(n.posted);
    w.fence = random_.below(8) == 0;
    w.sges[0] = op.opcode == WrOpcode::kRdmaRead
                    ? verbs::Sge{Node::at(n.inbox, op.slot), op.length, n.inbox_region.lkey}
                    : verbs::Sge{Node::at(n.source, op.slot), op.length, n.source_region.lkey};
    w.remote_address = Node::at(peer.sink, op.slot);
    w.rkey = peer.sink_region.rkey;
    assert_ok(n.engine.post_send(n.qpn, {&w, 1}));
    n.outstanding.push_back(op);
    ++n.posted;
    if (op.opcode != WrOpcode::kRdmaWrite && op.opcode != WrOpcode::kRdmaRead)
      peer.expected_receives.push_back(op);
  }

  void post_receive(Node& n) {
    if (n.receives_posted - n.received >= kReceives) return;
    verbs::RecvWr w;
    w.wr_id = n.receives_posted++;
    w.sge_count = 1;
    w.sges[0] = {Node::at(n.receives, w.wr_id % kReceives), kSlot, n.receives_region.lkey};
    assert_ok(n.engine.post_recv(n.qpn, {&w, 1}));
  }

  void transmit(Node& n, Link& out) {
    packet::Frame* frames[kBurstMax];
    const std::size_t count =
        n.engine.transmit(n.pool, std::span(frames).first(1 + random_.below(32)), now_);
    for (std::size_t i = 0; i < count; ++i) {
      frames[i]->flatten();
      out.send({frames[i]->data(), frames[i]->data() + frames[i]->size()}, now_);
    }
    n.pool.release(std::span(frames).first(count));
  }

  void deliver(Node& n, Link& in) {
    packet::Frame* frames[kBurstMax];
    std::size_t count = 0;
    for (; count < kBurstMax && in.next_at() <= now_; ++count) {
      const std::vector<std::uint8_t> bytes = in.take();
      frames[count] = n.pool.allocate_one();
      std::copy(bytes.begin(), bytes.end(), frames[count]->append(bytes.size()));
      frames[count]->source = n.peer_address;
    }
    n.engine.receive(std::span(frames).first(count), now_);
    n.pool.release(std::span(frames).first(count));
    n.engine.run_timers(now_);
  }

  void poll(Node& n, Node& peer) {
    Completion c;
    while (n.engine.poll_cq(n.cq, {&c, 1}) == 1) {
      if (c.status != CompletionStatus::kSuccess)
        give_up(std::string(verbs::to_string(c.status)).c_str());
      const bool receive = c.opcode == verbs::CompletionOpcode::kRecv ||
                           c.opcode == verbs::CompletionOpcode::kRecvRdmaWithImm;
      receive ? received(n, c) : completed(n, peer, c);
    }
  }

  void received(Node& n, const Completion& c) {
    if (c.wr_id != n.received || n.expected_receives.empty()) give_up("receive out of order");
    const Operation op = n.expected_receives.front();
    n.expected_receives.pop_front();
    ++n.received;
    if (c.byte_len != op.length) give_up("wrong length");
    if (op.opcode != WrOpcode::kSend && c.imm != op.seed) give_up("wrong immediate");
    const std::string want = pattern(op.length, op.seed);
    const std::uint8_t* got = op.opcode == WrOpcode::kRdmaWriteWithImm
                                  ? n.sink.data() + op.slot * kSlot
                                  : n.receives.data() + c.wr_id % kReceives * kSlot;
    if (std::memcmp(got, want.data(), want.size()) != 0) give_up("received data differs");
  }

  /// What a completed message wrote is used up by its owner; a late execution would show.
  void completed(Node& n, Node& peer, const Completion& c) {
    if (c.wr_id != n.completed || n.outstanding.empty()) give_up("completion out of order");
    const Operation op = n.outstanding.front();
    n.outstanding.pop_front();
    ++n.completed;
    const std::string want = pattern(op.length, op.seed);
    if (op.opcode == WrOpcode::kRdmaRead &&
        std::memcmp(n.inbox.data() + op.slot * kSlot, want.data(), want.size()) != 0)
      give_up("read data differs");
    if (op.opcode == WrOpcode::kRdmaRead) {
      std::memset(n.inbox.data() + op.slot * kSlot, kUsedUp, kSlot);
    } else if (op.opcode == WrOpcode::kRdmaWrite) {
      std::uint8_t* at = peer.sink.data() + op.slot * kSlot;
      if (std::memcmp(at, want.data(), want.size()) != 0) give_up("written data differs");
      std::memset(at, kUsedUp, kSlot);
    }
    used_up_[&n == &a_ ? 0 : 1][op.slot] = op.opcode;
  }

  bool finished() {
    return a_.completed == kMessages && b_.completed == kMessages && a_.expected_receives.empty() &&
           b_.expected_receives.empty() && to_a_.next_at().is_never() &&
           to_b_.next_at().is_never() && !a_.engine.has_work() && !b_.engine.has_work();
  }
  void move_time() {
    Instant next = std::min(
        {to_a_.next_at(), to_b_.next_at(), a_.engine.next_deadline(), b_.engine.next_deadline()});
    const Instant soon = now_ + Duration::us(2);
    now_ = std::min(std::max(next, now_ + Duration::ns(100)), soon);
  }
  void check_end(Node& n, Node& peer) {
    if (n.pool.available() != n.pool.count()) give_up("frames are missing");
    if (!n.engine.next_deadline().is_never()) give_up("a timer is left");
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const WrOpcode last = used_up_[&n == &a_ ? 0 : 1][slot];
      const std::uint8_t* at = last == WrOpcode::kRdmaRead    ? n.inbox.data() + slot * kSlot
                               : last == WrOpcode::kRdmaWrite ? peer.sink.data() + slot * kSlot
                                                              : nullptr;
      for (std::size_t i = 0; at != nullptr && i < kSlot; ++i)
        if (at[i] != kUsedUp) give_up("executed twice");
    }
  }
  void give_up(const char* why) {
    for (const Node* n : {&a_, &b_})
      n->engine.counters().drops.for_each([&](Drop d, std::uint64_t count) {
        print_message("%s: %s %llu\n", n == &a_ ? "a" : "b", std::string(to_string(d)).c_str(),
                      static_cast<unsigned long long>(count));
      });
    fail_msg(
        "seed %llu: %s (mtu %u, window %u, loss %u, dup %u, reorder %u of 1000; %zu and %zu done)",
        static_cast<unsigned long long>(seed_), why, mtu_, window_, faults_.loss,
        faults_.duplication, faults_.reordering, a_.completed, b_.completed);
  }

  std::uint64_t seed_;
  SeededRandom random_;
  Faults faults_;
  std::uint16_t mtu_;
  std::uint32_t window_;
  Node a_;
  Node b_;
  Link to_a_;
  Link to_b_;
  Instant now_ = Instant::from_ns(1);
  WrOpcode used_up_[2][kSlots] = {};
};

void every_message_once_and_intact(void**) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) std::make_unique<World>(seed)->run();
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {cmocka_unit_test(every_message_once_and_intact)};
  return cmocka_run_group_tests_name("roce_world", tests, nullptr, nullptr);
}
