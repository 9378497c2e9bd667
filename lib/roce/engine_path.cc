// The packet path of the engine: who a packet is for and whether it may speak to that QP; whose
// turn it is to send; whose timer fired. Spec: IBA vol. 1 §9.6.1 (packet header validation),
// §10.9.3 (P_Key), annex A17; DESIGN D3.
#include <algorithm>
#include <array>

#include "net/bth.h"
#include "roce/datagram.h"
#include "roce/engine.h"
#include "roce/engine_impl.h"
#include "roce/qp_state.h"
#include "roce/requester.h"
#include "roce/responder.h"

namespace h4a::roce {
namespace {

/// Packets a QP sends before it is another's turn.
constexpr std::size_t kTurnPackets = 16;
/// expect() leaves longer payloads to the CPU's own prefetcher, which sees them coming; asking for them as well
/// cost 8 % at 4096 bytes.
constexpr std::size_t kExpectedMax = 2048;

/// Equal in the low 15 bits, not zero, and not both limited members. Spec: IBA vol. 1 §10.9.3.
bool pkey_matches(std::uint16_t packet, std::uint16_t own) noexcept {
  return (packet & 0x7fff) == (own & 0x7fff) && (own & 0x7fff) != 0 &&
         ((packet | own) & 0x8000) != 0;
}

/// D3: a QP hears its own association alone, and its peer's address alone if it is connected. The
/// latter also under protection: what it sends goes to that address, so a peer that speaks from
/// another one could have us flood a third party (DESIGN §6.7). QP 1 is everybody's: its user sees in
/// each completion what a datagram came through.
Drop check_origin(const Qp& qp, const packet::Frame& frame) noexcept {
  if (qp.type == verbs::QpType::kGsi) return Drop::kNone;
  if (frame.association != qp.association)
    return frame.association == kClear ? Drop::kNeedsEsp : Drop::kWrongAssociation;
  if (is_datagram(qp.type)) return Drop::kNone;
  return frame.source == qp.remote_address ? Drop::kNone : Drop::kWrongPeer;
}

net::Service service_of(verbs::QpType type) noexcept {
  if (is_datagram(type)) return net::Service::kUd;
  return type == verbs::QpType::kUc ? net::Service::kUc : net::Service::kRc;
}

Drop check_packet(const Qp& qp, const net::TransportPacket& packet,
                  const packet::Frame& frame) noexcept {
  if (packet.row().service != service_of(qp.type)) return Drop::kBadOpcode;
  const bool hears =
      packet.row().is_request() ? receives_requests(qp.state) : sends_requests(qp.state);
  if (!hears) return Drop::kBadQpState;
  if (!pkey_matches(packet.bth().pkey(), qp.init.pkey)) return Drop::kBadPkey;
  return check_origin(qp, frame);
}

/// Frames from a pool, a few at a time; what was not used goes back.
class FrameSupply {
 public:
  explicit FrameSupply(packet::FramePool& pool) noexcept : pool_(pool) {}
  ~FrameSupply() { pool_.release(std::span(frames_).first(count_)); }
  FrameSupply(const FrameSupply&) = delete;
  FrameSupply& operator=(const FrameSupply&) = delete;

  /// An empty frame, nullptr if the pool has none. It stays the supply's until take().
  [[nodiscard]] packet::Frame* peek(std::size_t wanted) noexcept {
    if (count_ == 0)
      count_ = pool_.allocate(std::span(frames_).first(std::min(wanted, frames_.size())));
    return count_ == 0 ? nullptr : frames_[count_ - 1];
  }
  [[nodiscard]] packet::Frame* take() noexcept { return frames_[--count_]; }

 private:
  packet::FramePool& pool_;
  std::array<packet::Frame*, 8> frames_{};
  std::size_t count_ = 0;
};

/// One packet of a QP. Responses and requests alternate, so that neither can starve the other.
bool build_one(Core& core, Qp& qp, packet::Frame& frame, Instant now) noexcept {
  for (int i = 0; i < 2; ++i) {
    qp.responder_turn = !qp.responder_turn;
    if (qp.responder_turn ? responder::has_output(qp) && responder::build(core, qp, frame)
                          : requester::build(core, qp, frame, now))
      return true;
  }
  return false;
}

/// A QP's turn. @return how many packets were built into `out`.
std::size_t run_turn(Core& core, Qp& qp, FrameSupply& supply, std::span<packet::Frame*> out,
                     Instant now) noexcept {
  std::size_t n = 0;
  while (n < out.size()) {
    packet::Frame* frame = supply.peek(out.size() - n);
    if (frame == nullptr || !build_one(core, qp, *frame, now)) break;
    out[n++] = supply.take();
  }
  core.settle(qp);
  return n;
}

}  // namespace

void Engine::Impl::receive_one(packet::Frame& frame, Instant now) noexcept {
  const net::ParsedTransport packet = net::parse_transport(frame.bytes());
  if (!packet) return core.drop(frame, packet.error());
  if (packet->row().service == net::Service::kCnp) return core.drop(frame, Drop::kCnpUnhandled);
  const bool multicast = packet->bth().dest_qp() == verbs::kMulticastQpn;
  if (multicast != frame.destination.is_multicast()) return core.drop(frame, Drop::kNoQp);
  if (multicast) return receive_multicast(*packet, frame);
  Qp* qp = find(packet->bth().dest_qp());
  if (qp == nullptr) return core.drop(frame, Drop::kNoQp);
  if (const Drop reason = check_packet(*qp, *packet, frame); reason != Drop::kNone)
    return core.drop(frame, reason);
  if (!qp->heard_peer && !is_datagram(qp->type)) core.note_first_packet(*qp);
  if (is_datagram(qp->type))
    datagram::receive(core, *qp, *packet, frame);
  else if (packet->row().is_request())
    responder::receive(core, *qp, *packet, frame);
  else
    requester::receive(core, *qp, *packet, frame, now);
  core.settle(*qp);
  core.update_active(*qp);
  if (frame.drop == Drop::kNone) ++core.counters.rx_packets;
}

void Engine::expect(const packet::Frame& frame) noexcept {
  const Bytes bytes = frame.bytes();
  if (bytes.size() < net::kBthSize) return;
  const PrefetchRange range = impl_->placements.predict(bytes);
  if (range.size <= kExpectedMax) prefetch(range);
  const Qpn qpn(load_be24(bytes.data() + 5));
  if (qpn == impl_->expected_qpn) return;
  impl_->expected_qpn = qpn;
  if (const Qp* qp = impl_->find(qpn)) Core::prefetch(*qp);
}

/// Each member gets the datagram, or counts why not. Spec: IBA vol. 1 §10.5.2.
void Engine::Impl::receive_multicast(const net::TransportPacket& packet,
                                     packet::Frame& frame) noexcept {
  bool delivered = false;
  Drop reason = Drop::kNoQp;
  for (const Membership& m : memberships) {
    if (m.group != frame.destination) continue;
    Qp& qp = *find(m.qpn);
    frame.drop = Drop::kNone;
    if (const Drop refused = check_packet(qp, packet, frame); refused != Drop::kNone)
      core.drop(frame, refused);
    else
      datagram::receive(core, qp, packet, frame);
    core.settle(qp);
    delivered = delivered || frame.drop == Drop::kNone;
    reason = frame.drop;
  }
  if (reason == Drop::kNoQp) core.drop(frame, reason);
  frame.drop = delivered ? Drop::kNone : reason;
  if (delivered) ++core.counters.rx_packets;
}

void Engine::receive(std::span<packet::Frame* const> frames, Instant now) noexcept {
  for (packet::Frame* frame : frames) impl_->receive_one(*frame, now);
}

std::size_t Engine::transmit(packet::FramePool& pool, std::span<packet::Frame*> out,
                             Instant now) noexcept {
  Core& core = impl_->core;
  FrameSupply supply(pool);
  std::size_t n = 0;
  // Each QP in line gets one turn or more; a QP without frames to build leaves the line.
  while (n < out.size() && !core.active.empty() && supply.peek(out.size() - n) != nullptr) {
    Qp& qp = core.active.front();
    core.active.pop_front();
    if (!core.active.empty()) Core::prefetch(core.active.front());
    if (core.is_held(qp)) {
      core.held.push_back(qp);
      continue;
    }
    n += run_turn(core, qp, supply, out.subspan(n, std::min(kTurnPackets, out.size() - n)), now);
    core.update_active(qp);
  }
  return n;
}

void Engine::hold_path(PathId path) noexcept {
  Core& core = impl_->core;
  if (path.value() < core.held_since.size()) core.held_since[path.value()] = core.holding_round;
}

void Engine::resume_paths() noexcept {
  Core& core = impl_->core;
  ++core.holding_round;
  core.active.splice(core.active.end(), core.held);
}

void Engine::run_timers(Instant now) noexcept {
  Core& core = impl_->core;
  while (TimerNode* node = core.timers.pop_due(now)) {
    Qp& qp = static_cast<Qp&>(*node);
    requester::on_timer(core, qp, now);
    core.settle(qp);
    core.update_active(qp);
  }
}

Instant Engine::next_deadline() const noexcept {
  return impl_->core.timers.next();
}

bool Engine::has_work() const noexcept {
  return !impl_->core.active.empty();
}

}  // namespace h4a::roce
