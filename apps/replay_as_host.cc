#include "apps/replay_as_host.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

#include "apps/replay_as_answers.h"
#include "apps/replay_as_facts.h"
#include "apps/replay_as_memory.h"
#include "packet/frame_pool.h"
#include "roce/engine.h"

namespace h4a::apps {
namespace {

using net::AckKind;
using net::Header;
using net::Operation;
using net::TransportPacket;
using verbs::Access;
using verbs::WrOpcode;

constexpr std::uint32_t kQueueDepth = 1U << 15;
constexpr std::size_t kPoolFrames = 256;
/// Packets that ours may have sent beyond what the capture shows of the host. A capture can ask for more
/// than it holds: a READ of 2 GiB is one packet.
constexpr std::size_t kSurplusMax = 1U << 14;
/// The room that READs of the host put their data into; all of them the same.
constexpr std::uint64_t kSinkBytes = kMessageMaxBytes;

/// A packet that the engine sent and no recorded one has been found for.
struct OurPacket {
  std::uint64_t after_frame = 0;  // the packet of the capture that it followed
  std::vector<std::uint8_t> bytes;
  [[nodiscard]] TransportPacket packet() const noexcept { return *net::parse_transport(bytes); }
  [[nodiscard]] Psn psn() const noexcept { return packet().bth().psn(); }
};

bool is_plain_ack(const TransportPacket& p) noexcept {
  return p.row().operation == Operation::kAcknowledge && p.aeth().kind() == AckKind::kAck;
}
bool needs_receive(const TransportPacket& p) noexcept {
  return p.row().operation == Operation::kSend ||
         (p.row().operation == Operation::kWrite && p.row().has(Header::kImmDt));
}
/// The work request that a recorded message was made by.
WrOpcode wr_opcode(const Message& m) noexcept {
  const net::OpcodeInfo& last = m.last->packet().row();
  switch (last.operation) {
    case Operation::kReadRequest:
      return WrOpcode::kRdmaRead;
    case Operation::kCompareSwap:
      return WrOpcode::kCompareSwap;
    case Operation::kFetchAdd:
      return WrOpcode::kFetchAdd;
    case Operation::kWrite:
      return last.has(Header::kImmDt) ? WrOpcode::kRdmaWriteWithImm : WrOpcode::kRdmaWrite;
    default:
      if (last.has(Header::kIeth)) return WrOpcode::kSendWithInvalidate;
      return last.has(Header::kImmDt) ? WrOpcode::kSendWithImm : WrOpcode::kSend;
  }
}

class HostPlayer {
 public:
  explicit HostPlayer(const Conversation& c)
      : c_(c),
        facts_(facts_of(c)),
        answers_(c),
        engine_(options(facts_), random_),
        pool_(kPoolFrames) {
    result_.host = c.host;
    result_.peer = c.peer;
    result_.own = c.own;
    result_.remote = c.remote;
    result_.mtu = facts_.mtu;
  }

  PlayResult run() {
    if (std::none_of(c_.packets.begin(), c_.packets.end(),
                     [&](const RecordedPacket* p) { return c_.from_host(*p); })) {
      result_.silent = true;
      return std::move(result_);
    }
    if (!set_up()) {
      if (result_.obstacle.empty()) result_.obstacle = "the engine has no room for it";
      return std::move(result_);
    }
    for (std::size_t i = 0; i < c_.packets.size(); ++i) {
      const RecordedPacket& p = *c_.packets[i];
      frame_ = p.frame;
      if (requests_.size() + responses_.size() > c_.packets.size() + kSurplusMax) {
        result_.obstacle = "our engine sends far more than the capture holds of the host";
        return std::move(result_);
      }
      if (c_.from_host(p))
        expect(p);
      else
        hand_over(p, i);
    }
    count_leftovers();
    return std::move(result_);
  }

 private:
  // ---- setting up ----

  static roce::EngineOptions options(const Facts& facts) {
    roce::EngineOptions o;
    o.pd_max = 1;
    o.cq_max = 1;
    o.qp_max = 1;
    o.mr_max = facts.memory.size() + facts.messages.size() + 8;
    o.mw_max = facts.memory.size() + 1;
    o.window_packets = 1U << 20;
    return o;
  }

  bool set_up() {
    const auto pd = engine_.alloc_pd();
    const auto cq = engine_.create_cq(2 * kQueueDepth);
    if (!pd || !cq) return false;
    pd_ = *pd;
    cq_ = *cq;
    if (!memory_.create(engine_, pd_, facts_)) {
      result_.obstacle = "the memory that the peer reached is too large";
      return false;
    }
    if (!sink_.map(kSinkBytes) || !inbox_.map(facts_.inbound_bytes + verbs::kGrhBytes))
      return false;
    const auto sink = register_local(sink_.bytes());
    const auto inbox = register_local(inbox_.bytes());
    if (!sink || !inbox) return false;
    sink_lkey_ = sink->lkey;
    inbox_lkey_ = inbox->lkey;
    return set_up_qp() && post(memory_.binds());
  }

  Result<verbs::MemoryRegion> register_local(MutableBytes bytes) {
    return engine_.register_memory(pd_, bytes.data(), bytes.size(), Access::kLocalWrite, kClear);
  }

  [[nodiscard]] verbs::QpType qp_type() const noexcept {
    if (c_.service == net::Service::kUc) return verbs::QpType::kUc;
    if (c_.service == net::Service::kRc) return verbs::QpType::kRc;
    return c_.own == verbs::kGsiQpn ? verbs::QpType::kGsi : verbs::QpType::kUd;
  }

  bool set_up_qp() {
    verbs::QpOptions o;
    o.type = qp_type();
    o.pd = pd_;
    o.send_cq = o.recv_cq = cq_;
    o.max_send_wr = o.max_recv_wr = kQueueDepth;
    const auto qpn = engine_.create_qp(o);
    if (!qpn) return false;
    qpn_ = *qpn;
    verbs::InitAttributes init;
    init.access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
    verbs::RtrAttributes rtr;
    rtr.local_address = c_.host;
    rtr.remote_address = c_.peer;
    rtr.remote_qpn = c_.remote;
    rtr.rq_psn = facts_.rq_psn;
    rtr.path_mtu = facts_.mtu;
    rtr.min_rnr_timer = facts_.rnr_timer;
    verbs::RtsAttributes rts;
    rts.sq_psn = facts_.sq_psn;
    return engine_.to_init(qpn_, init) && engine_.to_rtr(qpn_, rtr, PathId{}) &&
           engine_.to_rts(qpn_, rts);
  }

  bool post(std::span<const verbs::SendWr> wrs) {
    const bool ok = wrs.empty() || engine_.post_send(qpn_, wrs).has_value();
    drain();
    return ok;
  }

  // ---- the engine ----

  /// Takes everything out that the engine wants to send now.
  void drain() {
    std::array<packet::Frame*, kBurstMax> frames;
    while (requests_.size() + responses_.size() <= c_.packets.size() + kSurplusMax) {
      const std::size_t n = engine_.transmit(pool_, frames, now_);
      if (n == 0) break;
      for (packet::Frame* f : std::span(frames).first(n)) {
        f->flatten();
        if (c_.service == net::Service::kUd) name_source(f->bytes());
        keep({frame_, {f->bytes().begin(), f->bytes().end()}});
      }
      pool_.release(std::span(frames).first(n));
    }
    std::array<verbs::Completion, 64> completions;
    while (engine_.poll_cq(cq_, completions) > 0) {
    }
  }

  /// A datagram tells who sent it: the recorded host's number takes the place of ours.
  void name_source(MutableBytes bytes) {
    const auto p = net::parse_transport(bytes);
    if (!p || !p->row().has(Header::kDeth)) return;
    net::Deth deth = p->deth();
    deth.source_qp = c_.own;
    deth.build(&bytes[p->row().offset(Header::kDeth)]);
  }

  void keep(OurPacket ours) {
    const TransportPacket p = ours.packet();
    if (p.row().is_request()) {
      sent_.insert_or_assign(ours.psn().value(), ours);
      requests_.push_back(std::move(ours));
      return;
    }
    const bool acknowledges = !p.row().has(Header::kAeth) || p.aeth().kind() == AckKind::kAck;
    if (acknowledges && (!acked_ || ours.psn().since(*acked_) > 0)) acked_ = ours.psn();
    responses_.push_back(std::move(ours));
  }

  /// @return false if nothing waits for a timer.
  bool fire_timer() {
    const Instant deadline = engine_.next_deadline();
    if (deadline.is_never()) return false;
    now_ = std::max(now_, deadline);
    engine_.run_timers(now_);
    drain();
    return true;
  }

  // ---- what the peer sent ----

  void hand_over(const RecordedPacket& recorded, std::size_t index) {
    const TransportPacket p = recorded.packet();
    if (p.row().is_request()) prepare(p, index);
    packet::Frame* frame = pool_.allocate_one();
    if (frame == nullptr || recorded.bytes.size() > frame->tailroom()) {
      if (frame != nullptr) pool_.release_one(frame);
      return;
    }
    std::memcpy(frame->append(recorded.bytes.size()), recorded.bytes.data(), recorded.bytes.size());
    translate(p, frame->bytes());
    frame->source = recorded.source;
    frame->destination = c_.host;
    packet::Frame* const frames[] = {frame};
    engine_.receive(frames, now_);
    pool_.release_one(frame);
    drain();
  }

  /// The host's numbers become ours.
  void translate(const TransportPacket& p, MutableBytes bytes) {
    store_be<3>(&bytes[5], qpn_.value());
    if (p.row().has(Header::kReth)) {
      net::Reth reth = p.reth();
      reth.virtual_address = memory_.address(reth.rkey, reth.virtual_address);
      reth.rkey = memory_.key(reth.rkey);
      reth.build(&bytes[p.row().offset(Header::kReth)]);
    }
    if (p.row().has(Header::kAtomicEth)) {
      net::AtomicEth atomic = p.atomic_eth();
      atomic.virtual_address = memory_.address(atomic.rkey, atomic.virtual_address);
      atomic.rkey = memory_.key(atomic.rkey);
      atomic.build(&bytes[p.row().offset(Header::kAtomicEth)]);
    }
    if (p.row().has(Header::kIeth))
      net::Ieth{memory_.key(p.ieth().rkey)}.build(&bytes[p.row().offset(Header::kIeth)]);
  }

  /// What the host had done before this request came.
  void prepare(const TransportPacket& p, std::size_t index) {
    if (needs_receive(p) && answers_.is_ready(p.bth().psn(), index)) post_receive(p);
    const Reach reach = reach_of(p);
    switch (p.row().operation) {
      case Operation::kWrite:
        note_write(p, reach);
        break;
      case Operation::kReadRequest:
        reveal_read(p, reach, c_.packets[index]->frame);
        break;
      case Operation::kCompareSwap:
      case Operation::kFetchAdd:
        reveal_atomic(p, reach, c_.packets[index]->frame);
        break;
      default:
        break;
    }
  }

  /// What the peer writes is known from then on.
  void note_write(const TransportPacket& p, const Reach& reach) {
    if (p.row().starts()) written_ = reach;
    const std::uint64_t size = std::min<std::uint64_t>(p.payload().size(), written_.length);
    memory_.note_written(written_.rkey, written_.address, size);
    written_.address += size;
    written_.length -= size;
  }

  void post_receive(const TransportPacket& p) {
    const auto status = engine_.qp_status(qpn_);
    if (!status || status->recv_queue_used > 0) return;
    verbs::RecvWr wr;
    wr.sge_count = 1;
    const auto refused = answers_.room_before_refusal(facts_.requests_in, p.bth().psn());
    const std::uint64_t room = refused.value_or(inbox_.bytes().size());
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(inbox_.bytes().data()),
                  static_cast<std::uint32_t>(std::min(room, kMessageMaxBytes)), inbox_lkey_};
    static_cast<void>(engine_.post_recv(qpn_, {&wr, 1}));
  }

  void reveal_read(const TransportPacket& p, const Reach& reach, std::uint64_t frame) {
    const std::size_t count = std::min<std::size_t>(psns_of(p, facts_.mtu), answers_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto* answer = answers_.after(p.bth().psn() + i, frame, Operation::kReadResponse);
      if (answer == nullptr) continue;
      result_.own_changes +=
          memory_.reveal(reach.rkey, reach.address + std::uint64_t{i} * facts_.mtu,
                         answer->packet().payload(), true);
    }
  }

  /// A value that is known is left as it is: then it is the engine that has to have it right.
  void reveal_atomic(const TransportPacket& p, const Reach& reach, std::uint64_t frame) {
    const auto* answer = answers_.after(p.bth().psn(), frame, Operation::kAtomicAcknowledge);
    if (answer == nullptr) return;
    // The value in memory is in the byte order of the host.
    const std::uint64_t original = answer->packet().atomic_ack_eth().original;
    std::array<std::uint8_t, 8> bytes;
    std::memcpy(bytes.data(), &original, sizeof(original));
    static_cast<void>(memory_.reveal(reach.rkey, reach.address, bytes, false));
  }

  // ---- what the host sent ----

  void expect(const RecordedPacket& recorded) {
    ++result_.recorded;
    const TransportPacket p = recorded.packet();
    if (p.row().is_request())
      expect_request(recorded, p);
    else
      expect_response(recorded, p);
  }

  void expect_request(const RecordedPacket& recorded, const TransportPacket& p) {
    post_up_to(p.bth().psn());
    if (is_cut(p.bth().psn())) {
      ++result_.incomparable;
      return;
    }
    const bool again = !recorded_requests_.insert(p.bth().psn().value()).second;
    auto ours = find(requests_, p);
    // The host repeats itself, or goes on after an RNR NAK: its timer fired, so ours does.
    if (ours == requests_.end() && fire_timer()) ours = find(requests_, p);
    if (ours != requests_.end()) {
      compare(recorded, p, ours->packet());
      requests_.erase(ours);
      return;
    }
    const auto earlier = sent_.find(p.bth().psn().value());
    if (again && earlier != sent_.end()) {
      ++result_.repeated;
      compare(recorded, p, earlier->second.packet(), false);
      return;
    }
    differ(recorded.frame, p, false);
  }

  void post_up_to(Psn psn) {
    for (; posted_ < facts_.messages.size(); ++posted_) {
      const Message& m = facts_.messages[posted_];
      if (m.first_psn.since(psn) > 0) return;
      const auto wr = work_request(m);
      if (!wr || !post({&*wr, 1})) return;
    }
  }

  Result<verbs::SendWr> work_request(const Message& m) {
    const TransportPacket first = m.first->packet();
    const TransportPacket last = m.last->packet();
    verbs::SendWr wr;
    wr.opcode = wr_opcode(m);
    wr.solicited = last.bth().solicited();
    if (last.row().has(Header::kImmDt)) wr.imm = last.imm().value;
    if (last.row().has(Header::kIeth)) wr.invalidate_rkey = last.ieth().rkey;
    const Reach reach = reach_of(first);
    wr.remote_address = reach.address;
    wr.rkey = reach.rkey;
    if (first.row().has(Header::kDeth)) {
      wr.remote_qpn = first.bth().dest_qp();
      wr.remote_qkey = first.deth().qkey;
      const auto ah = address_handle(m.first->destination);
      if (!ah) return failure(ah.error());
      wr.ah = *ah;
    }
    if (wr.opcode == WrOpcode::kRdmaRead) {
      set_sge(wr, sink_.bytes().data(), first.reth().dma_length, sink_lkey_);
      return wr;
    }
    if (first.row().has(Header::kAtomicEth)) {
      const net::AtomicEth atomic = first.atomic_eth();
      const bool swaps = wr.opcode == WrOpcode::kCompareSwap;
      wr.compare_add = swaps ? atomic.compare : atomic.swap_or_add;
      wr.swap = swaps ? atomic.swap_or_add : 0;
      set_sge(wr, sink_.bytes().data(), 8, sink_lkey_);
      return wr;
    }
    if (m.payload.empty()) return wr;
    // Messages stay where they are as long as the player lives; the engine only reads them.
    auto* data = const_cast<std::uint8_t*>(m.payload.data());
    const auto region = register_local({data, m.payload.size()});
    if (!region) return failure(region.error());
    set_sge(wr, data, static_cast<std::uint32_t>(m.payload.size()), region->lkey);
    return wr;
  }

  Result<verbs::AhId> address_handle(const IpAddress& remote) {
    if (const auto it = handles_.find(remote); it != handles_.end()) return it->second;
    verbs::AhAttributes a;
    a.local_address = c_.host;
    a.remote_address = remote;
    const auto ah = engine_.create_ah(pd_, a, PathId{});
    if (ah) handles_.emplace(remote, *ah);
    return ah;
  }

  static void set_sge(verbs::SendWr& wr, const std::uint8_t* data, std::uint32_t size, Lkey lkey) {
    wr.sge_count = size > 0 ? 1 : 0;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(data), size, lkey};
  }

  /// True for a packet of a message that the capture does not show as a whole.
  bool is_cut(Psn psn) const {
    if (!facts_.messages_cut) return false;
    if (facts_.messages.empty()) return true;
    const Message& last = facts_.messages.back();
    return psn.since(last.first_psn + last.packets) >= 0;
  }

  void expect_response(const RecordedPacket& recorded, const TransportPacket& p) {
    auto ours = find(responses_, p);
    if (ours != responses_.end()) {
      compare(recorded, p, ours->packet());
      responses_.erase(ours);
    } else if (is_plain_ack(p) && acked_ && acked_->since(p.bth().psn()) >= 0) {
      ++result_.coalesced;
    } else {
      differ(recorded.frame, p, false);
    }
    if (is_plain_ack(p) || !p.row().has(Header::kAeth) || p.aeth().kind() == AckKind::kAck)
      if (!recorded_ack_ || p.bth().psn().since(*recorded_ack_) > 0) recorded_ack_ = p.bth().psn();
  }

  /// Ours of the same PSN and operation; of acknowledgements rather one that says the same.
  std::deque<OurPacket>::iterator find(std::deque<OurPacket>& ours, const TransportPacket& p) {
    auto best = ours.end();
    for (auto it = ours.begin(); it != ours.end(); ++it) {
      const TransportPacket q = it->packet();
      if (q.bth().psn() != p.bth().psn() || q.row().operation != p.row().operation) continue;
      if (p.row().operation != Operation::kAcknowledge || q.aeth().kind() == p.aeth().kind())
        return it;
      if (!is_plain_ack(p) && !is_plain_ack(q)) best = it;
    }
    return best;
  }

  void compare(const RecordedPacket& recorded, const TransportPacket& p,
               const TransportPacket& ours, bool count = true) {
    if (p.row().has(Header::kAeth) && !msn_known_) {
      msn_known_ = true;
      result_.msn_offset = (p.aeth().msn - ours.aeth().msn.value()).value();
    }
    auto fields = compare_packets(p, ours, result_.msn_offset);
    if (fields.empty()) {
      if (count) ++result_.equal;
      return;
    }
    differ(recorded.frame, p, false);
    result_.differences.back().fields = std::move(fields);
  }

  void differ(std::uint64_t frame, const TransportPacket& p, bool only_ours) {
    result_.differences.push_back({frame, only_ours, net::to_string(p), {}});
  }

  // ---- the end ----

  void count_leftovers() {
    result_.unrecorded += requests_.size();  // all of them repeat a recorded PSN
    for (const OurPacket& ours : responses_) {
      const TransportPacket p = ours.packet();
      if (is_plain_ack(p) && recorded_ack_ && recorded_ack_->since(p.bth().psn()) >= 0)
        ++result_.coalesced;
      else if (asked_again(ours))
        ++result_.unrecorded;
      else
        differ(ours.after_frame, p, true);
    }
  }

  /// The peer repeated the request: it did not get this answer, so it can be missing in the capture.
  bool asked_again(const OurPacket& ours) const {
    return std::any_of(c_.packets.begin(), c_.packets.end(), [&](const RecordedPacket* r) {
      if (c_.from_host(*r) || r->frame <= ours.after_frame) return false;
      const TransportPacket p = r->packet();
      return p.row().is_request() && p.bth().psn().since(ours.psn()) <= 0;
    });
  }

  const Conversation& c_;
  const Facts facts_;
  HostAnswers answers_;
  SeededRandom random_{1};
  HostMemory memory_;
  SparseMemory sink_;
  SparseMemory inbox_;
  roce::Engine engine_;
  packet::HeapFramePool pool_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  verbs::PdId pd_;
  verbs::CqId cq_;
  Qpn qpn_;
  std::map<IpAddress, verbs::AhId> handles_;  // of a datagram queue pair
  Lkey sink_lkey_;
  Lkey inbox_lkey_;

  std::uint64_t frame_ = 0;  // being played
  std::size_t posted_ = 0;   // messages
  Reach written_;            // what is left of the peer's WRITE
  std::deque<OurPacket> requests_;
  std::deque<OurPacket> responses_;
  std::map<std::uint32_t, OurPacket> sent_;  // by PSN, the latest
  std::set<std::uint32_t> recorded_requests_;
  std::optional<Psn> acked_;         // newest PSN that ours acknowledged
  std::optional<Psn> recorded_ack_;  // newest PSN that the host acknowledged
  bool msn_known_ = false;
  PlayResult result_;
};

}  // namespace

PlayResult play(const Conversation& conversation) {
  return HostPlayer(conversation).run();
}

}  // namespace h4a::apps
