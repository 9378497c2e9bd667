// FakeDevice: verbs without packets, for tests: devices in one process on a FakeFabric that executes work
// requests one at a time, in order, when told to. A second model of what lib/roce does, small enough to be
// read in one go: keys, rights, bounds, windows with coverage and retirement, receives, errors, flushes.
//
// Nothing happens in post_send(): tests decide with FakeFabric::run() how far the wire gets, so that every
// moment of a transfer can be looked at. Counters tell what must never happen (a receive missing).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/random.h"
#include "verbs/device.h"

namespace h4a::test {

class FakeDevice;

class FakeFabric {
 public:
  void attach(FakeDevice& device) { devices_.push_back(&device); }
  void detach(FakeDevice& device) { std::erase(devices_, &device); }
  /// Executes up to `work_max` work requests, the QPs taking turns. @return how many.
  std::size_t run(std::size_t work_max = SIZE_MAX);
  /// While true, work requests that need the peer wait for ever.
  bool silent = false;
  /// While true, they fail with kRetryExceeded.
  bool broken = false;

  [[nodiscard]] FakeDevice* owner_of(Qpn qpn) const;

 private:
  std::vector<FakeDevice*> devices_;
};

class FakeDevice final : public verbs::Device {
 public:
  FakeDevice(FakeFabric& fabric, IpAddress address, std::uint64_t seed);
  ~FakeDevice() override;

  // ---- for tests ----

  struct Violations {
    std::uint64_t receiver_not_ready = 0;  // SENDs that found no receive: credit was broken
    std::uint64_t remote_access = 0;       // requests that were refused by key, bounds or rights
    std::uint64_t discarded_writes = 0;    // into retired windows
  };
  Violations violations;
  std::uint64_t writes_executed = 0;
  std::uint64_t longest_write = 0;
  /// Objects that are still there; a test that cleaned up sees zeros.
  [[nodiscard]] std::size_t objects() const {
    return regions_.size() + windows_.size() + cqs_.size() + qps_.size();
  }
  /// True if some window lets a peer write to `address` now.
  [[nodiscard]] bool reachable(const void* address) const;
  /// While true, completions of the send queue are withheld, as when acknowledgements are late.
  bool late_acknowledgements = false;
  /// Makes the n-th next call of this kind fail with kNoMemory; 0: never.
  std::uint32_t fail_call_in = 0;

  // ---- verbs::Device ----

  Result<verbs::PdId> alloc_pd() noexcept override;
  Result<void> dealloc_pd(verbs::PdId pd) noexcept override;
  Result<verbs::MemoryRegion> register_memory(verbs::PdId pd, void* address, std::size_t length,
                                              verbs::Access access,
                                              AssociationId association) noexcept override;
  Result<void> deregister_memory(verbs::MrId region) noexcept override;
  Result<verbs::MemoryWindow> alloc_window(verbs::PdId pd) noexcept override;
  Result<void> dealloc_window(verbs::MwId window) noexcept override;
  Result<Rkey> fresh_rkey(verbs::MwId window) noexcept override;
  Result<void> retire_window(verbs::MwId window) noexcept override;
  Result<verbs::WindowStatus> window_status(verbs::MwId window) const noexcept override;
  Result<verbs::CqId> create_cq(std::uint32_t depth) noexcept override;
  Result<void> destroy_cq(verbs::CqId cq) noexcept override;
  Result<Qpn> create_qp(const verbs::QpOptions& options) noexcept override;
  Result<void> destroy_qp(Qpn qpn) noexcept override;
  Result<void> to_init(Qpn qpn, const verbs::InitAttributes& a) noexcept override;
  Result<void> to_rtr(Qpn qpn, const verbs::RtrAttributes& a) noexcept override;
  Result<void> to_rts(Qpn qpn, const verbs::RtsAttributes& a) noexcept override;
  Result<void> to_error(Qpn qpn) noexcept override;
  Result<void> to_reset(Qpn qpn) noexcept override;
  Result<verbs::QpStatus> qp_status(Qpn qpn) const noexcept override;
  Result<void> post_send(Qpn qpn, std::span<const verbs::SendWr> wrs) noexcept override;
  Result<void> post_recv(Qpn qpn, std::span<const verbs::RecvWr> wrs) noexcept override;
  std::size_t poll_cq(verbs::CqId cq, std::span<verbs::Completion> out) noexcept override;
  std::size_t poll_events(std::span<verbs::AsyncEvent> out) noexcept override;
  Result<AssociationId> create_association(const verbs::AssociationOptions& o) noexcept override;
  Result<void> destroy_association(AssociationId association) noexcept override;
  Result<Spi> allocate_spi() noexcept override;
  Result<void> install_sa(AssociationId association, verbs::SaOptions&& sa) noexcept override;
  Result<void> remove_sa(AssociationId association, verbs::SaDirection direction,
                         Spi spi) noexcept override;
  std::span<const IpInterface> addresses() const noexcept override { return {&interface_, 1}; }
  std::uint16_t max_path_mtu(bool, bool) const noexcept override { return 4096; }
  verbs::DeviceCounters counters() const noexcept override { return {}; }

 private:
  friend class FakeFabric;

  struct Region {
    verbs::PdId pd;
    std::uint8_t* address = nullptr;
    std::size_t length = 0;
    verbs::Access access = verbs::Access::kNone;
    AssociationId association;
    verbs::MemoryRegion keys;
  };
  struct Window {
    verbs::PdId pd;
    verbs::WindowStatus status;
    Rkey offered;  // by fresh_rkey()
    Qpn qpn;
    verbs::MrId region;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    verbs::Access access = verbs::Access::kNone;
    [[nodiscard]] bool bound() const {
      return status.state == verbs::WindowStatus::State::kValid ||
             status.state == verbs::WindowStatus::State::kRetired;
    }
  };
  struct Cq {
    std::uint32_t depth = 0;
    std::deque<verbs::Completion> completions;
    std::deque<verbs::Completion> late;
  };
  struct Qp {
    verbs::QpOptions options;
    verbs::QpState state = verbs::QpState::kReset;
    verbs::Access access = verbs::Access::kNone;
    Qpn remote;
    AssociationId association;
    std::deque<verbs::SendWr> sends;
    std::deque<verbs::RecvWr> receives;
  };
  /// What the peer makes of a request.
  enum class Verdict : std::uint8_t { kDone, kWait, kRemoteAccess, kRemoteInvalid, kRetryExceeded };

  bool execute_one(Qpn qpn);
  verbs::CompletionStatus execute_local(Qpn qpn, Qp& qp, const verbs::SendWr& wr);
  Verdict execute_remote(Qpn qpn, Qp& qp, const verbs::SendWr& wr);
  Verdict receive_send(Qpn qpn, const std::vector<std::uint8_t>& data, const verbs::SendWr& wr);
  Verdict receive_write(Qpn qpn, const std::vector<std::uint8_t>& data, const verbs::SendWr& wr);
  verbs::CompletionStatus bind(Qpn qpn, const verbs::SendWr& wr);
  bool gather(const Qp& qp, const verbs::SendWr& wr, std::vector<std::uint8_t>& out) const;
  const Region* local_region(verbs::PdId pd, const verbs::Sge& sge) const;
  Window* window_by_key(Rkey rkey, Qpn qpn);
  void complete(verbs::CqId cq, const verbs::Completion& c);
  void complete_send(Qpn qpn, Qp& qp, verbs::CompletionStatus status);
  void flush(Qpn qpn, Qp& qp);
  std::uint32_t fresh();
  bool refuse_call();

  FakeFabric& fabric_;
  IpInterface interface_;
  mutable SeededRandom random_;
  std::uint32_t next_id_ = 1;
  std::map<std::uint32_t, Region> regions_;
  std::map<std::uint32_t, Window> windows_;
  std::map<std::uint32_t, Cq> cqs_;
  std::map<std::uint32_t, Qp> qps_;
};

}  // namespace h4a::test
