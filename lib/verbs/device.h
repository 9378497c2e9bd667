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

  // ---- queues ----

  /// @param depth completions it holds, 1..65536. When it overruns, that is an AsyncEvent and the QPs
  /// that wanted to write to it go to ERROR: size it as the sum of the queues it serves.
  [[nodiscard]] virtual Result<CqId> create_cq(std::uint32_t depth) noexcept = 0;
  [[nodiscard]] virtual Result<void> destroy_cq(CqId cq) noexcept = 0;  // kBusy while QPs use it

  [[nodiscard]] virtual Result<Qpn> create_qp(const QpOptions& options) noexcept = 0;
  [[nodiscard]] virtual Result<void> destroy_qp(Qpn qpn) noexcept = 0;
  /// Each transition: kInvalidState from a state that does not allow it, kInvalidArgument for a bad
  /// attribute; nothing changes then.
  [[nodiscard]] virtual Result<void> to_init(Qpn qpn, const InitAttributes& a) noexcept = 0;
  [[nodiscard]] virtual Result<void> to_rtr(Qpn qpn, const RtrAttributes& a) noexcept = 0;
  [[nodiscard]] virtual Result<void> to_rts(Qpn qpn, const RtsAttributes& a) noexcept = 0;
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
  /// @return kFull, kInvalidState (before RTS; for receives: in RESET), kInvalidArgument.
  [[nodiscard]] virtual Result<void> post_send(Qpn qpn, std::span<const SendWr> wrs) noexcept = 0;
  [[nodiscard]] virtual Result<void> post_recv(Qpn qpn, std::span<const RecvWr> wrs) noexcept = 0;
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
  [[nodiscard]] virtual DeviceCounters counters() const noexcept = 0;
};

}  // namespace h4a::verbs
