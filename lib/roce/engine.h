// Engine: the RoCEv2 transport of one stack: memory table, queue pairs, completion queues, timers.
// Spec: IBA vol. 1 chapters 9 and 10, annex A17.
//
// It speaks packets from BTH to pad: UDP, IP, ESP, ICRC and link headers are the stack's. It does
// no I/O and reads no clock. Control and work calls are those of verbs::Device, with the same
// contracts; the stack forwards to them.
//
// Thread: the owner of the stack. Memory is taken at construction and in create_* calls only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/drop.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "packet/frame.h"
#include "packet/frame_pool.h"
#include "verbs/device.h"
#include "verbs/types.h"

namespace h4a::roce {

struct EngineOptions {
  std::size_t pd_max = 256;
  std::size_t mr_max = 4096;
  std::size_t mw_max = 4096;
  std::size_t cq_max = 1024;
  std::size_t srq_max = 256;
  std::size_t qp_max = 1024;
  std::size_t ah_max = 1024;
  std::size_t multicast_max = 256;  // memberships, of all groups together
  /// Packets a requester keeps unacknowledged at most, a QP.
  std::uint32_t window_packets = 256;
};

class Engine {
 public:
  Engine(const EngineOptions& options, Random& random);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- control and work: see verbs/device.h ----
  [[nodiscard]] Result<verbs::PdId> alloc_pd() noexcept;
  [[nodiscard]] Result<void> dealloc_pd(verbs::PdId pd) noexcept;
  [[nodiscard]] Result<verbs::MemoryRegion> register_memory(verbs::PdId pd, void* address,
                                                            std::size_t length,
                                                            verbs::Access access,
                                                            AssociationId association) noexcept;
  [[nodiscard]] Result<void> deregister_memory(verbs::MrId region) noexcept;
  [[nodiscard]] Result<verbs::MemoryRegion> alloc_fast_region(verbs::PdId pd,
                                                              AssociationId association) noexcept;
  [[nodiscard]] Result<verbs::MemoryWindow> alloc_type1_window(verbs::PdId pd) noexcept;
  [[nodiscard]] Result<Rkey> bind_window(Qpn qpn, const verbs::WindowBind& bind) noexcept;
  [[nodiscard]] Result<verbs::MemoryWindow> alloc_window(verbs::PdId pd) noexcept;
  [[nodiscard]] Result<void> dealloc_window(verbs::MwId window) noexcept;
  [[nodiscard]] Result<Rkey> fresh_rkey(verbs::MwId window) noexcept;
  [[nodiscard]] Result<void> retire_window(verbs::MwId window) noexcept;
  [[nodiscard]] Result<verbs::WindowStatus> window_status(verbs::MwId window) const noexcept;
  [[nodiscard]] Result<verbs::CqId> create_cq(std::uint32_t depth) noexcept;
  [[nodiscard]] Result<void> destroy_cq(verbs::CqId cq) noexcept;
  [[nodiscard]] Result<void> req_notify_cq(verbs::CqId cq, bool solicited_only) noexcept;
  [[nodiscard]] std::size_t poll_cq_events(std::span<verbs::CqId> out) noexcept;
  [[nodiscard]] Result<verbs::SrqId> create_srq(const verbs::SrqOptions& options) noexcept;
  [[nodiscard]] Result<void> modify_srq(verbs::SrqId srq, std::uint32_t limit) noexcept;
  [[nodiscard]] Result<verbs::SrqStatus> srq_status(verbs::SrqId srq) const noexcept;
  [[nodiscard]] Result<void> destroy_srq(verbs::SrqId srq) noexcept;
  [[nodiscard]] Result<Qpn> create_qp(const verbs::QpOptions& options) noexcept;
  [[nodiscard]] Result<void> destroy_qp(Qpn qpn) noexcept;
  [[nodiscard]] Result<void> to_init(Qpn qpn, const verbs::InitAttributes& a) noexcept;
  /// `path` is copied into every frame of this QP; the stack resolved it from the same attributes.
  [[nodiscard]] Result<void> to_rtr(Qpn qpn, const verbs::RtrAttributes& a, PathId path) noexcept;
  [[nodiscard]] Result<void> to_rts(Qpn qpn, const verbs::RtsAttributes& a) noexcept;
  [[nodiscard]] Result<void> to_sqd(Qpn qpn) noexcept;
  [[nodiscard]] Result<void> modify_qp(Qpn qpn, const verbs::QpUpdate& update) noexcept;
  [[nodiscard]] Result<verbs::QpAttributes> qp_attributes(Qpn qpn) const noexcept;
  [[nodiscard]] Result<void> to_error(Qpn qpn) noexcept;
  [[nodiscard]] Result<void> to_reset(Qpn qpn) noexcept;
  [[nodiscard]] Result<verbs::QpStatus> qp_status(Qpn qpn) const noexcept;
  /// Datagrams of this handle get `path`, which the stack resolved from the same attributes.
  [[nodiscard]] Result<verbs::AhId> create_ah(verbs::PdId pd, const verbs::AhAttributes& a,
                                              PathId path) noexcept;
  /// @return the path, for the stack to let go.
  [[nodiscard]] Result<PathId> destroy_ah(verbs::AhId ah) noexcept;
  [[nodiscard]] Result<void> attach_multicast(Qpn qpn, const IpAddress& group) noexcept;
  [[nodiscard]] Result<void> detach_multicast(Qpn qpn, const IpAddress& group) noexcept;
  /// True if some QP is attached to `group`.
  [[nodiscard]] bool hears(const IpAddress& group) const noexcept;
  [[nodiscard]] Result<void> post_send(Qpn qpn, std::span<const verbs::SendWr> wrs) noexcept;
  [[nodiscard]] Result<void> post_recv(Qpn qpn, std::span<const verbs::RecvWr> wrs) noexcept;
  [[nodiscard]] Result<void> post_srq_recv(verbs::SrqId srq,
                                           std::span<const verbs::RecvWr> wrs) noexcept;
  [[nodiscard]] std::size_t poll_cq(verbs::CqId cq, std::span<verbs::Completion> out) noexcept;
  [[nodiscard]] std::size_t poll_events(std::span<verbs::AsyncEvent> out) noexcept;
  /// Moves every QP of `association` to ERROR.
  void fail_association(AssociationId association) noexcept;

  // ---- packets and time: called by the stack's poll loop ----

  /// Asks the CPU for the memory that receive() will probably place the payload of `frame` into, so that it
  /// arrives while other frames are checked. `frame` is as receive() wants it. A hint only.
  void expect(const packet::Frame& frame) noexcept;

  /// Takes in packets. In: data at BTH, size up to and with the pad (no ICRC, which is verified);
  /// `association`, `source`, `destination`, `network_size` and `ecn_ce` set. The frames stay the caller's; those
  /// that were dropped have `drop` set and are counted in counters().drops. Acknowledgements and
  /// responses become work for transmit().
  void receive(std::span<packet::Frame* const> frames, Instant now) noexcept;

  /// Builds packets that are due: acknowledgements, READ responses, requests, retransmissions. QPs
  /// take turns. Out: data at BTH with the headers; payload in pieces; pad in the tail; `path`,
  /// `association` and `udp_source_port` set.
  /// @param out room for 1..kBurstMax frames, allocated from `pool`; the caller owns them.
  /// @return how many were built; fewer than out.size() when nothing more is due or the pool is
  /// empty.
  [[nodiscard]] std::size_t transmit(packet::FramePool& pool, std::span<packet::Frame*> out,
                                     Instant now) noexcept;

  /// Connected QPs of `path` send nothing more until resume_paths(): its neighbour is being asked for, and
  /// only so many frames can wait meanwhile.
  void hold_path(PathId path) noexcept;
  /// All paths are free again.
  void resume_paths() noexcept;

  /// Handles timers that are due. Call it once a turn.
  void run_timers(Instant now) noexcept;
  /// When run_timers() has something to do next; Instant::never() if nothing is pending.
  [[nodiscard]] Instant next_deadline() const noexcept;
  /// True if transmit() would build something now.
  [[nodiscard]] bool has_work() const noexcept;

  [[nodiscard]] verbs::DeviceLimits limits() const noexcept;
  [[nodiscard]] const verbs::DeviceCounters& counters() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace h4a::roce
