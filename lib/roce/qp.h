// Qp: what one queue pair remembers. Plain state; requester, completer and responder are
// functions over it (DESIGN §9: at most 2 KiB a QP, its queues aside).
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/serial.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "roce/memory_table.h"
#include "roce/work_queue.h"
#include "verbs/ring.h"
#include "verbs/types.h"

namespace h4a::roce {

/// Which completion makes an armed queue tell (verbs::Device::req_notify_cq).
enum class Armed : std::uint8_t { kNot, kSolicited, kAny };

struct Cq : boost::intrusive::list_base_hook<> {  // linked: it was notified and not yet fetched
  explicit Cq(std::uint32_t depth) : ring(depth) {}
  verbs::CqId id;
  std::uint32_t users = 0;
  bool overrun = false;
  Armed armed = Armed::kNot;
  verbs::Ring<verbs::Completion> ring;
};

/// A shared receive queue. A QP takes a receive out of it when a message begins, and keeps it.
struct Srq {
  explicit Srq(const verbs::SrqOptions& o) : pd(o.pd), limit(o.limit), queue(o.max_wr) {}
  verbs::SrqId id;
  verbs::PdId pd;
  std::uint32_t users = 0;
  std::uint32_t limit;  // an event is due when fewer are left; 0: none
  WorkQueue<verbs::RecvWr> queue;
};

/// A send work request with its place in the PSN space. The send queue is the ring of what is in
/// flight: an entry stays until its last PSN is acknowledged.
struct SendEntry {
  verbs::SendWr wr;
  std::uint32_t length = 0;  // payload bytes of the message
  Psn first_psn;             // set when its first packet is sent
  Msn ssn;  // its number among the messages of this QP, from 1 (IBA vol. 1 §9.7.7.2)
  std::uint32_t packets =
      0;  // PSNs it takes: of a READ, those of the responses; 0: a local operation
  bool started = false;
  /// What went wrong when its turn came. It completes with that after all that precede it.
  verbs::CompletionStatus status = verbs::CompletionStatus::kSuccess;
};

/// [una, next) is in flight in this round, [una, sent_end) was sent at some time. Going back to N
/// sets next to una and the cursor to the oldest entry. Spec: IBA vol. 1 §9.7.5.
struct RequesterState {
  /// `q` is empty.
  explicit RequesterState(WorkQueue<SendEntry>&& q) noexcept
      : queue(std::move(q)), cursor(queue.begin_index()) {}
  WorkQueue<SendEntry> queue;
  std::uint32_t cursor;  // index of the entry that the next packet comes from
  Psn next;              // its PSN
  Psn una;               // oldest PSN not acknowledged
  Psn sent_end;          // one past the newest PSN ever sent
  std::uint32_t since_ack_request = 0;
  std::uint8_t reads_in_flight = 0;  // READs and atomics between queue front and cursor
  bool waits_rnr = false;            // nothing is sent until the timer fires
  bool went_back = false;            // to `una`, for a NAK; once until it moves or times out
  bool drained = false;              // SQD: the event was raised
  // End-to-end credits: the peer has receives for messages up to `credit_limit`.
  bool credits_counted = false;  // the peer's last ACK said how many receives it has
  Msn credit_limit;
  Msn last_ssn;  // of the newest message posted
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_retries_left = 0;
  verbs::RtsAttributes attributes;
  LocalRef local;
};

/// A READ or atomic that the responder executed: kept to be answered again. A READ from any point,
/// an atomic (one packet) with the value that it found when it was executed.
struct Resource {
  Psn first_psn;
  std::uint32_t packets = 0;
  std::uint32_t start = 0;  // the packet that the latest request asked to start with
  std::uint32_t next = 0;   // the next packet to send; pending while next < packets
  std::uint64_t address = 0;
  Rkey rkey;
  std::uint32_t length = 0;
  Msn msn;
  bool replay = false;  // asked for again: dropped quietly if the memory is gone
  bool atomic = false;
  std::uint64_t original = 0;  // of an atomic
};
inline constexpr std::size_t kResourcesMax = 16;

enum class InboundMessage : std::uint8_t { kNone, kSend, kWrite };

struct ResponderState {
  /// `q` is empty.
  explicit ResponderState(WorkQueue<verbs::RecvWr>&& q) noexcept : queue(std::move(q)) {}
  WorkQueue<verbs::RecvWr> queue;  // not used if the QP has a shared receive queue
  bool holds = false;
  Psn expected;
  Msn msn;
  InboundMessage message = InboundMessage::kNone;
  bool gap_reported = false;  // a NAK for `expected` was sent
  // The message in progress.
  std::uint64_t address = 0;   // WRITE: where its first byte goes
  std::uint32_t length = 0;    // WRITE: what RETH said
  std::uint32_t received = 0;  // bytes of it so far
  bool discarded = false;      // WRITE: some of it met a retired window
  RemoteRef remote;
  LocalRef local;
  std::uint8_t resource_begin = 0;
  std::uint8_t resource_count = 0;
  std::uint8_t resources_pending = 0;  // that wait to be answered
  std::uint8_t replays_pending = 0;    // of those: that wait to be answered again
  RemoteRef resource_remote;
  // What is to be sent, in this order, after pending READ responses.
  bool nak_pending = false;
  bool ack_pending = false;
  bool told_no_credit = false;  // the last ACK said that no receive is posted
  std::uint8_t nak_syndrome = 0;
  Psn nak_psn;
  Msn nak_msn;
  verbs::RtrAttributes attributes;
  // What fewer packets need.
  verbs::RecvWr held;  // taken from the shared queue for the message in progress
  // READs and atomics, oldest first.
  std::array<Resource, kResourcesMax> resources;
};

/// Payloads of inlined work requests: one place for each slot of the send queue.
class InlineStore {
 public:
  InlineStore(std::uint32_t slots, std::uint32_t bytes_each)
      : stride_(bytes_each),
        bytes_(bytes_each == 0
                   ? nullptr
                   : std::make_unique<std::uint8_t[]>(std::size_t{slots} * bytes_each)) {}
  [[nodiscard]] std::uint32_t bytes_max() const noexcept { return stride_; }
  [[nodiscard]] std::uint8_t* at(std::uint32_t slot) noexcept {
    return bytes_.get() + std::size_t{slot} * stride_;
  }

 private:
  std::uint32_t stride_;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

/// Members stand in the order in which a packet needs them: with many queue pairs their state is not
/// in the nearest cache, and what lies together is asked for together (Core::prefetch).
struct alignas(64) Qp final : boost::intrusive::list_base_hook<>, TimerNode {
  Qp(const verbs::QpOptions& given, Cq& send, Cq& recv, Srq* shared)
      : type(given.type),
        pd(given.pd),
        send_cq(&send),
        recv_cq(&recv),
        srq(shared),
        requester(WorkQueue<SendEntry>(given.max_send_wr)),
        responder(WorkQueue<verbs::RecvWr>(shared == nullptr ? given.max_recv_wr : 1)),
        inlined(requester.queue.slots(), given.max_inline),
        options(given) {}

  Qpn qpn;
  verbs::QpType type;
  verbs::PdId pd;
  Cq* send_cq;
  Cq* recv_cq;
  Srq* srq;  // nullptr: receives come from its own queue
  verbs::QpState state = verbs::QpState::kReset;
  bool overran = false;  // a completion of it found its queue full
  bool responder_turn = true;
  bool heard_peer = false;  // a packet of its peer was accepted
  verbs::InitAttributes init;
  std::uint16_t mtu = 1024;
  std::uint16_t udp_source_port = 0;
  Qpn remote_qpn;
  IpAddress remote_address;
  AssociationId association;
  PathId path;
  std::uint64_t retransmitted_packets = 0;
  RequesterState requester;
  ResponderState responder;
  InlineStore inlined;
  verbs::QpOptions options;

  /// Whose regions its receives name.
  [[nodiscard]] verbs::PdId receive_pd() const noexcept { return srq == nullptr ? pd : srq->pd; }
  [[nodiscard]] Accessor accessor() const noexcept { return {qpn, pd, association}; }
};
static_assert(sizeof(Qp) <= 2048);

/// Acknowledges what it receives, and keeps what it sends until that is acknowledged.
[[nodiscard]] inline bool is_reliable(const Qp& qp) noexcept {
  return qp.type == verbs::QpType::kRc;
}

/// Packets that a message of `bytes` takes; at least one.
[[nodiscard]] constexpr std::uint32_t packets_for(std::uint32_t bytes, std::uint32_t mtu) noexcept {
  return bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
}

}  // namespace h4a::roce
