// Stack: home 1 of the verbs. One port, one transport engine, ESP between them, and what an IP host must
// answer (ARP, NDP, ICMP echo), driven by poll_once().
//
// Thread: one thread owns a stack and everything in it; it makes all calls.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cycles.h"
#include "base/drop.h"
#include "base/random.h"
#include "base/time.h"
#include "net/packet_view.h"
#include "packet/port.h"
#include "roce/engine.h"
#include "stack/associations.h"
#include "stack/neighbours.h"
#include "stack/paths.h"
#include "verbs/device.h"

namespace h4a::stack {

struct StackOptions {
  std::vector<IpInterface> addresses;  // at least one
  std::vector<IpAddress> gateways;     // at most one of each family; used off-link
  roce::EngineOptions engine;
  std::size_t association_max = 1024;
  std::size_t neighbour_max = 1024;
  SaLimits sa_limits = {};
};

/// What one turn of the loop did.
struct PollResult {
  std::size_t received = 0;  // frames taken from the port
  std::size_t sent = 0;      // frames the port took
  Instant next_deadline;     // poll again at this time at the latest; never() if nothing is pending
  bool more = false;         // there is work that can go on at once
};

/// Time-stamp counter cycles spent in each stage since start, and packets counted: for benchmarks.
struct StageCycles {
  std::uint64_t port_receive = 0;
  std::uint64_t classify = 0;
  std::uint64_t esp_open = 0;
  std::uint64_t icrc_check = 0;
  std::uint64_t transport_receive = 0;  // placement included
  std::uint64_t timers = 0;
  std::uint64_t transport_transmit = 0;
  std::uint64_t build = 0;  // headers, ICRC, ESP seal or copy, link header
  std::uint64_t port_transmit = 0;
};

class Stack final : public verbs::Device {
 public:
  /// @param port, random must outlive the stack. Addresses are the caller's to check for duplicates on
  /// the link. A gateway must be on-link.
  Stack(packet::Port& port, const StackOptions& options, Random& random);
  ~Stack() override;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// One turn: receive a burst, run what is due, send a burst. Never blocks, allocates nothing.
  PollResult poll_once(Instant now) noexcept;

  [[nodiscard]] const StageCycles& stage_cycles() const noexcept { return cycles_; }
  [[nodiscard]] packet::Port& port() noexcept { return port_; }

  // verbs::Device
  [[nodiscard]] Result<verbs::PdId> alloc_pd() noexcept override;
  [[nodiscard]] Result<void> dealloc_pd(verbs::PdId pd) noexcept override;
  [[nodiscard]] Result<verbs::MemoryRegion> register_memory(
      verbs::PdId pd, void* address, std::size_t length, verbs::Access access,
      AssociationId association) noexcept override;
  [[nodiscard]] Result<void> deregister_memory(verbs::MrId region) noexcept override;
  [[nodiscard]] Result<verbs::MemoryRegion> alloc_fast_region(
      verbs::PdId pd, AssociationId association) noexcept override;
  [[nodiscard]] Result<verbs::MemoryWindow> alloc_type1_window(verbs::PdId pd) noexcept override;
  [[nodiscard]] Result<Rkey> bind_window(Qpn qpn, const verbs::WindowBind& b) noexcept override;
  [[nodiscard]] Result<verbs::MemoryWindow> alloc_window(verbs::PdId pd) noexcept override;
  [[nodiscard]] Result<void> dealloc_window(verbs::MwId window) noexcept override;
  [[nodiscard]] Result<Rkey> fresh_rkey(verbs::MwId window) noexcept override;
  [[nodiscard]] Result<void> retire_window(verbs::MwId window) noexcept override;
  [[nodiscard]] Result<verbs::WindowStatus> window_status(verbs::MwId w) const noexcept override;
  [[nodiscard]] Result<verbs::CqId> create_cq(std::uint32_t depth) noexcept override;
  [[nodiscard]] Result<void> destroy_cq(verbs::CqId cq) noexcept override;
  [[nodiscard]] Result<void> req_notify_cq(verbs::CqId cq, bool solicited_only) noexcept override;
  [[nodiscard]] std::size_t poll_cq_events(std::span<verbs::CqId> out) noexcept override;
  [[nodiscard]] Result<verbs::SrqId> create_srq(const verbs::SrqOptions& o) noexcept override;
  [[nodiscard]] Result<void> modify_srq(verbs::SrqId srq, std::uint32_t limit) noexcept override;
  [[nodiscard]] Result<verbs::SrqStatus> srq_status(verbs::SrqId srq) const noexcept override;
  [[nodiscard]] Result<void> destroy_srq(verbs::SrqId srq) noexcept override;
  [[nodiscard]] Result<Qpn> create_qp(const verbs::QpOptions& options) noexcept override;
  [[nodiscard]] Result<void> destroy_qp(Qpn qpn) noexcept override;
  [[nodiscard]] Result<void> to_init(Qpn qpn, const verbs::InitAttributes& a) noexcept override;
  /// Also: kInvalidArgument if local_address is none of ours, the families differ, the path MTU does
  /// not fit the port, or the destination is neither on-link nor behind a gateway.
  [[nodiscard]] Result<void> to_rtr(Qpn qpn, const verbs::RtrAttributes& a) noexcept override;
  [[nodiscard]] Result<void> to_rts(Qpn qpn, const verbs::RtsAttributes& a) noexcept override;
  [[nodiscard]] Result<void> to_sqd(Qpn qpn) noexcept override;
  [[nodiscard]] Result<void> modify_qp(Qpn qpn, const verbs::QpUpdate& u) noexcept override;
  [[nodiscard]] Result<verbs::QpAttributes> qp_attributes(Qpn qpn) const noexcept override;
  [[nodiscard]] Result<void> to_error(Qpn qpn) noexcept override;
  [[nodiscard]] Result<void> to_reset(Qpn qpn) noexcept override;
  [[nodiscard]] Result<verbs::QpStatus> qp_status(Qpn qpn) const noexcept override;
  [[nodiscard]] Result<verbs::AhId> create_ah(verbs::PdId pd,
                                              const verbs::AhAttributes& a) noexcept override;
  [[nodiscard]] Result<void> destroy_ah(verbs::AhId ah) noexcept override;
  [[nodiscard]] Result<void> attach_multicast(Qpn qpn, const IpAddress& group) noexcept override;
  [[nodiscard]] Result<void> detach_multicast(Qpn qpn, const IpAddress& group) noexcept override;
  [[nodiscard]] Result<void> post_send(Qpn qpn,
                                       std::span<const verbs::SendWr> wrs) noexcept override;
  [[nodiscard]] Result<void> post_recv(Qpn qpn,
                                       std::span<const verbs::RecvWr> wrs) noexcept override;
  [[nodiscard]] Result<void> post_srq_recv(verbs::SrqId srq,
                                           std::span<const verbs::RecvWr> wrs) noexcept override;
  [[nodiscard]] std::size_t poll_cq(verbs::CqId cq,
                                    std::span<verbs::Completion> out) noexcept override;
  [[nodiscard]] std::size_t poll_events(std::span<verbs::AsyncEvent> out) noexcept override;
  [[nodiscard]] Result<AssociationId> create_association(
      const verbs::AssociationOptions& options) noexcept override;
  [[nodiscard]] Result<void> destroy_association(AssociationId association) noexcept override;
  [[nodiscard]] Result<Spi> allocate_spi() noexcept override;
  [[nodiscard]] Result<void> install_sa(AssociationId association,
                                        verbs::SaOptions&& sa) noexcept override;
  [[nodiscard]] Result<void> remove_sa(AssociationId association, verbs::SaDirection direction,
                                       Spi spi) noexcept override;
  [[nodiscard]] std::span<const IpInterface> addresses() const noexcept override;
  [[nodiscard]] std::uint16_t max_path_mtu(bool with_esp, bool ipv6) const noexcept override;
  [[nodiscard]] verbs::DeviceLimits limits() const noexcept override;
  [[nodiscard]] verbs::DeviceCounters counters() const noexcept override;

 private:
  using Frames = std::span<packet::Frame*>;
  /// A burst being collected.
  struct Batch {
    std::array<packet::Frame*, kBurstMax> frames;
    std::size_t count = 0;
    void add(packet::Frame* f) noexcept { frames[count++] = f; }
    [[nodiscard]] Frames span() noexcept { return {frames.data(), count}; }
  };

  // receive.cc
  std::size_t receive_burst(Instant now) noexcept;
  void classify(packet::Frame* frame, Instant now, Batch& esp, Batch& roce, Batch& done) noexcept;
  Drop classify_ip(packet::Frame* frame, const net::PacketView& view, Instant now, Batch& esp,
                   Batch& roce) noexcept;
  [[nodiscard]] Drop enter_transport(packet::Frame* frame) noexcept;
  void deliver(Batch& roce, Batch& done, Instant now) noexcept;
  [[nodiscard]] bool is_ours(const IpAddress& ip) const noexcept;

  // control.cc: each takes the frame (returns kNone) or leaves it to be dropped with the reason returned
  Drop handle_arp(packet::Frame* frame, const net::PacketView& view, Instant now) noexcept;
  Drop handle_icmp(packet::Frame* frame, const net::PacketView& view) noexcept;
  Drop handle_icmpv6(packet::Frame* frame, const net::PacketView& view, Instant now) noexcept;
  Drop handle_ndp(packet::Frame* frame, const net::PacketView& view, Instant now) noexcept;
  void solicit(Instant now) noexcept;
  void send_solicitation(const IpAddress& target) noexcept;
  [[nodiscard]] const IpInterface* interface_for(const IpAddress& target) const noexcept;

  // transmit.cc
  std::size_t transmit_burst(Instant now) noexcept;
  void build_and_queue(Frames frames, Instant now) noexcept;
  void add_network_headers(packet::Frame* frame, const Path& path) noexcept;
  [[nodiscard]] std::size_t protect(Frames frames, AssociationId association) noexcept;
  void queue_on_link(packet::Frame* frame, const Path& path, Instant now) noexcept;
  void release_pending() noexcept;
  void queue(packet::Frame* frame) noexcept;
  [[nodiscard]] std::size_t flush_queue() noexcept;
  void drop(packet::Frame* frame, Drop reason) noexcept;

  // device.cc
  [[nodiscard]] Result<void> to_rtr_datagram(Qpn qpn, const verbs::RtrAttributes& a) noexcept;
  [[nodiscard]] Result<PathId> add_path(const verbs::AhAttributes& a) noexcept;
  [[nodiscard]] Result<Path> resolve_path(const verbs::AhAttributes& a) noexcept;
  [[nodiscard]] Result<IpAddress> next_hop_to(const IpAddress& destination) const noexcept;
  void remove_path(PathId id) noexcept;
  void forget_path(Qpn qpn) noexcept;
  void report_inbound_limits(Frames opened) noexcept;
  void report_limits(AssociationId id, bool soft, bool hard, LimitsReported& reported) noexcept;
  [[nodiscard]] bool raise(verbs::AsyncEvent::Type type, AssociationId id) noexcept;

  packet::Port& port_;
  MacAddress mac_;  // the port's
  std::vector<IpInterface> addresses_;
  std::vector<IpAddress> gateways_;
  Random& random_;
  roce::Engine engine_;
  Associations associations_;
  Neighbours neighbours_;
  Paths paths_;
  boost::unordered_flat_map<std::uint32_t, PathId> path_of_qp_;
  DropCounters drops_;
  StageCycles cycles_;
  static constexpr std::size_t kEventMax = 256;
  std::vector<verbs::AsyncEvent>
      events_;  // bounded; an SA whose event finds no room raises it again

  // Frames that are complete and wait for the port. While it is not empty nothing new is built, so it
  // never holds more than one turn's output.
  static constexpr std::size_t kQueueMax = 4 * kBurstMax;
  std::array<packet::Frame*, kQueueMax> queue_{};
  std::size_t queue_count_ = 0;
};

}  // namespace h4a::stack
