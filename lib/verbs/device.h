// Device: the verbs as calls. One interface for every home (DESIGN D2): the in-process stack
// (lib/stack) now, the daemon's client and hardware later.
//
// Thread: all calls from the thread that polls the device.
// Errors that every call can return: kNotFound for a handle that does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/drop.h"
#include "base/result.h"
#include "verbs/types.h"

namespace h4a::verbs {

struct DeviceCounters {
  std::uint64_t rx_packets = 0;  // RoCE packets accepted
  std::uint64_t tx_packets = 0;  // RoCE packets sent, retransmissions included
  std::uint64_t retransmitted_packets = 0;
  std::uint64_t rx_payload_bytes = 0;
  std::uint64_t tx_payload_bytes = 0;
  std::uint64_t naks_sent = 0;
  std::uint64_t naks_received = 0;
  std::uint64_t rnr_naks_sent = 0;
  std::uint64_t rnr_naks_received = 0;
  std::uint64_t timeouts = 0;
  DropCounters drops;  // all layers of this device together
};

struct QpStatus {
  QpType type = QpType::kRc;
  QpState state = QpState::kReset;
  std::uint64_t retransmitted_packets = 0;
  std::uint32_t send_queue_used = 0;  // work requests not yet completed
  std::uint32_t recv_queue_used = 0;
};

/// What a QP was made with and told since; as much of it as its state gives a meaning to.
struct QpAttributes {
  QpState state = QpState::kReset;
  bool draining = false;  // SQD: something that was begun is not acknowledged yet
  QpOptions options;
  InitAttributes init;
  RtrAttributes rtr;  // rq_psn: the PSN that is expected next
  RtsAttributes rts;  // sq_psn: the PSN that is sent next
};

struct DeviceLimits {
  std::uint32_t qp_max = 0;
  std::uint32_t cq_max = 0;
  std::uint32_t srq_max = 0;
  std::uint32_t pd_max = 0;
  std::uint32_t mr_max = 0;
  std::uint32_t mw_max = 0;
  std::uint32_t queue_depth_max = 0;  // of a send, receive, shared receive or completion queue
  std::uint32_t sge_max = 0;          // of a work request
  std::uint32_t inline_max = 0;
  std::uint32_t rd_atomic_max = 0;  // of max_dest_rd_atomic
};

class Device {
 public:
  virtual ~Device() = default;

  // ---- memory ----

  [[nodiscard]] virtual Result<PdId> alloc_pd() noexcept = 0;
  /// @return kBusy while regions, windows or QPs are in it.
  [[nodiscard]] virtual Result<void> dealloc_pd(PdId pd) noexcept = 0;

  /// Registers [address, address + length), which stays the application's and must outlive the region.
  /// A remote access through its rkey needs a QP of the same PD and, unless `association` is kClear, a
  /// packet that came through `association`.
  /// @return kInvalidArgument for a range that wraps, or remote write without local write; kNoMemory.
  [[nodiscard]] virtual Result<MemoryRegion> register_memory(
      PdId pd, void* address, std::size_t length, Access access,
      AssociationId association = kClear) noexcept = 0;
  /// @return kBusy while windows are bound to it. After it, no packet reaches the memory any more.
  [[nodiscard]] virtual Result<void> deregister_memory(MrId region) noexcept = 0;

  [[nodiscard]] virtual Result<MemoryWindow> alloc_window(PdId pd) noexcept = 0;
  /// Also of a bound window: its key dies first.
  [[nodiscard]] virtual Result<void> dealloc_window(MwId window) noexcept = 0;
  /// A random key that no region or window uses, for the next kBindWindow of `window`.
  [[nodiscard]] virtual Result<Rkey> fresh_rkey(MwId window) noexcept = 0;
  /// From now on WRITEs into the window are acknowledged and discarded (DESIGN D4).
  /// @return kInvalidState if it is not bound.
  [[nodiscard]] virtual Result<void> retire_window(MwId window) noexcept = 0;
  [[nodiscard]] virtual Result<WindowStatus> window_status(MwId window) const noexcept = 0;

  /// A type 1 window; see MemoryWindow.
  [[nodiscard]] virtual Result<MemoryWindow> alloc_type1_window(PdId /*pd*/) noexcept {
    return failure(Error::kUnsupported);
  }
  /// Posts the bind of a type 1 window: it takes its place among the work requests of `qpn`, which is of
  /// the window's PD, and completes as kBindWindow.
  /// @return the window's new key, good once the bind completed; errors as those of post_send().
  [[nodiscard]] virtual Result<Rkey> bind_window(Qpn /*qpn*/, const WindowBind& /*bind*/) noexcept {
    return failure(Error::kUnsupported);
  }
  /// A region without memory, for kFastRegister work requests of QPs of `pd`. Its lkey and rkey are one
  /// number, of which the application chooses the low byte each time.
  [[nodiscard]] virtual Result<MemoryRegion> alloc_fast_region(
      PdId /*pd*/, AssociationId /*association*/ = kClear) noexcept {
    return failure(Error::kUnsupported);
  }

  // ---- queues ----
  // A home without an optional verb answers kUnsupported.

  /// @param depth completions it holds, 1..65536. When it overruns, that is an AsyncEvent and the QPs
  /// that wanted to write to it go to ERROR: size it as the sum of the queues it serves.
  [[nodiscard]] virtual Result<CqId> create_cq(std::uint32_t depth) noexcept = 0;
  [[nodiscard]] virtual Result<void> destroy_cq(CqId cq) noexcept = 0;  // kBusy while QPs use it

  /// Arms a queue: the next completion written to it, or only the next that is solicited or in error,
  /// puts it into what poll_cq_events() returns, once. What it holds already does not count: poll it
  /// after arming. An armed queue stays armed for all completions if it is armed again for fewer.
  [[nodiscard]] virtual Result<void> req_notify_cq(CqId /*cq*/, bool /*solicited_only*/) noexcept {
    return failure(Error::kUnsupported);
  }
  /// Moves out the queues that were notified, each once, oldest first. Never overruns.
  [[nodiscard]] virtual std::size_t poll_cq_events(std::span<CqId> /*out*/) noexcept { return 0; }

  /// @return kInvalidArgument for a depth outside 1..65536 or a limit above it.
  [[nodiscard]] virtual Result<SrqId> create_srq(const SrqOptions& /*options*/) noexcept {
    return failure(Error::kUnsupported);
  }
  /// Arms the limit event anew. If fewer are left already, it is raised at once.
  [[nodiscard]] virtual Result<void> modify_srq(SrqId /*srq*/, std::uint32_t /*limit*/) noexcept {
    return failure(Error::kUnsupported);
  }
  [[nodiscard]] virtual Result<SrqStatus> srq_status(SrqId /*srq*/) const noexcept {
    return failure(Error::kUnsupported);
  }
  /// What it still holds is forgotten without completions. @return kBusy while QPs use it.
  [[nodiscard]] virtual Result<void> destroy_srq(SrqId /*srq*/) noexcept {
    return failure(Error::kUnsupported);
  }

  [[nodiscard]] virtual Result<Qpn> create_qp(const QpOptions& options) noexcept = 0;
  [[nodiscard]] virtual Result<void> destroy_qp(Qpn qpn) noexcept = 0;
  /// Each transition: kInvalidState from a state that does not allow it, kInvalidArgument for a bad
  /// attribute; nothing changes then.
  [[nodiscard]] virtual Result<void> to_init(Qpn qpn, const InitAttributes& a) noexcept = 0;
  [[nodiscard]] virtual Result<void> to_rtr(Qpn qpn, const RtrAttributes& a) noexcept = 0;
  [[nodiscard]] virtual Result<void> to_rts(Qpn qpn, const RtsAttributes& a) noexcept = 0;
  /// RTS → SQD: nothing new is begun. When all that was is acknowledged, kSqDrained is raised. Work
  /// requests can be posted; they wait. to_rts() goes on, with new attributes but the old PSN.
  [[nodiscard]] virtual Result<void> to_sqd(Qpn /*qpn*/) noexcept {
    return failure(Error::kUnsupported);
  }
  /// Changes attributes in RTR, RTS or SQD. @return kInvalidState for one that this state does not
  /// let change, or in SQD before it drained.
  [[nodiscard]] virtual Result<void> modify_qp(Qpn /*qpn*/, const QpUpdate& /*update*/) noexcept {
    return failure(Error::kUnsupported);
  }
  [[nodiscard]] virtual Result<QpAttributes> qp_attributes(Qpn /*qpn*/) const noexcept {
    return failure(Error::kUnsupported);
  }
  /// Flushes: every outstanding work request completes with kFlushed.
  [[nodiscard]] virtual Result<void> to_error(Qpn qpn) noexcept = 0;
  /// Back to RESET: queues are emptied without completions.
  [[nodiscard]] virtual Result<void> to_reset(Qpn qpn) noexcept = 0;
  [[nodiscard]] virtual Result<QpStatus> qp_status(Qpn qpn) const noexcept = 0;

  // ---- datagrams ----

  /// An address for datagrams from QPs of `pd`. Homes that have no datagrams: kUnsupported.
  /// @return kInvalidArgument if local_address is none of the device's, the families differ, or no
  /// route leads to remote_address; kNoMemory.
  [[nodiscard]] virtual Result<AhId> create_ah(PdId, const AhAttributes&) noexcept {
    return failure(Error::kUnsupported);
  }
  /// Work requests that name it and were not sent yet fail with kLocalQpOperation.
  [[nodiscard]] virtual Result<void> destroy_ah(AhId) noexcept {
    return failure(Error::kUnsupported);
  }

  /// Datagrams to `group` (with kMulticastQpn) are received by this datagram QP too, until it is
  /// detached or destroyed. Each attached QP that has a receive gets a copy; none comes back to the
  /// sender's own device. Nothing is announced on the link: no MLD, no IGMP.
  /// @return kInvalidArgument unless it is a datagram QP and a multicast address, kExists, kNoMemory.
  [[nodiscard]] virtual Result<void> attach_multicast(Qpn, const IpAddress&) noexcept {
    return failure(Error::kUnsupported);
  }
  [[nodiscard]] virtual Result<void> detach_multicast(Qpn, const IpAddress&) noexcept {
    return failure(Error::kUnsupported);
  }

  // ---- work ----

  /// Copies the work requests into the queue: all of them or none. The memory they name stays in use
  /// until they complete. In ERROR they are taken and flushed.
  /// @return kFull, kInvalidState (before RTS; for receives: in RESET), kInvalidArgument
  /// (also a receive for a QP that has a shared receive queue).
  [[nodiscard]] virtual Result<void> post_send(Qpn qpn, std::span<const SendWr> wrs) noexcept = 0;
  [[nodiscard]] virtual Result<void> post_recv(Qpn qpn, std::span<const RecvWr> wrs) noexcept = 0;
  /// The same for a shared receive queue. A work request completes in the receive queue's CQ of the QP
  /// whose message took it. @return kFull, kInvalidArgument.
  [[nodiscard]] virtual Result<void> post_srq_recv(SrqId /*srq*/,
                                                   std::span<const RecvWr> /*wrs*/) noexcept {
    return failure(Error::kUnsupported);
  }
  /// Moves completions out, oldest first. @return how many; 0 also for an unknown `cq`.
  [[nodiscard]] virtual std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept = 0;
  [[nodiscard]] virtual std::size_t poll_events(std::span<AsyncEvent> out) noexcept = 0;

  // ---- protection ----

  [[nodiscard]] virtual Result<AssociationId> create_association(
      const AssociationOptions& options) noexcept = 0;
  /// Also removes its SAs; its QPs go to ERROR.
  [[nodiscard]] virtual Result<void> destroy_association(AssociationId association) noexcept = 0;
  /// A random SPI >= 256 that no inbound SA uses. It is reserved until installed or forgotten.
  [[nodiscard]] virtual Result<Spi> allocate_spi() noexcept = 0;
  /// Takes the key. A second outbound SA replaces the first for new packets (make before break);
  /// inbound SAs of an association live side by side.
  /// @return kInvalidArgument (SPI 0..255, key size), kExists.
  [[nodiscard]] virtual Result<void> install_sa(AssociationId association,
                                                SaOptions&& sa) noexcept = 0;
  [[nodiscard]] virtual Result<void> remove_sa(AssociationId association, SaDirection direction,
                                               Spi spi) noexcept = 0;

  // ---- what it is ----

  [[nodiscard]] virtual std::span<const IpInterface> addresses() const noexcept = 0;
  /// Largest path MTU (256..4096) whose packets fit the port, with ESP around them if `with_esp`.
  [[nodiscard]] virtual std::uint16_t max_path_mtu(bool with_esp, bool ipv6) const noexcept = 0;
  [[nodiscard]] virtual DeviceLimits limits() const noexcept { return {}; }
  [[nodiscard]] virtual DeviceCounters counters() const noexcept = 0;
};

}  // namespace h4a::verbs
