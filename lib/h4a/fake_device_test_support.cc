#include "h4a/fake_device_test_support.h"

#include <algorithm>
#include <cstring>

namespace h4a::test {

using namespace verbs;
using State = WindowStatus::State;

// ---- fabric ----

FakeDevice* FakeFabric::owner_of(Qpn qpn) const {
  for (FakeDevice* d : devices_)
    if (d->qps_.contains(qpn.value())) return d;
  return nullptr;
}

std::size_t FakeFabric::run(std::size_t work_max) {
  std::size_t done = 0;
  for (bool any = true; any && done < work_max;) {
    any = false;
    for (FakeDevice* d : devices_) {
      std::vector<std::uint32_t> numbers;
      for (const auto& [number, qp] : d->qps_) numbers.push_back(number);
      for (const std::uint32_t number : numbers)
        if (done < work_max && d->execute_one(Qpn(number))) {
          ++done;
          any = true;
        }
    }
  }
  return done;
}

// ---- objects ----

FakeDevice::FakeDevice(FakeFabric& fabric, IpAddress address, std::uint64_t seed)
    : fabric_(fabric), interface_{address, 24}, random_(seed) {
  fabric_.attach(*this);
}
FakeDevice::~FakeDevice() {
  fabric_.detach(*this);
}

std::uint32_t FakeDevice::fresh() {
  return next_id_++;
}

bool FakeDevice::refuse_call() {
  return fail_call_in != 0 && --fail_call_in == 0;
}

Result<PdId> FakeDevice::alloc_pd() noexcept {
  return PdId(fresh());
}
Result<void> FakeDevice::dealloc_pd(PdId) noexcept {
  return {};
}

Result<MemoryRegion> FakeDevice::register_memory(PdId pd, void* address, std::size_t length,
                                                 Access access,
                                                 AssociationId association) noexcept {
  if (refuse_call()) return failure(Error::kNoMemory);
  if (allows(access, Access::kRemoteWrite) && !allows(access, Access::kLocalWrite))
    return failure(Error::kInvalidArgument);
  const std::uint32_t id = fresh();
  const MemoryRegion keys{MrId(id), Lkey(random_.u32() | 1), Rkey(0)};
  regions_[id] = {pd, static_cast<std::uint8_t*>(address), length, access, association, keys};
  return keys;
}

Result<void> FakeDevice::deregister_memory(MrId region) noexcept {
  for (const auto& [id, w] : windows_)
    if (w.bound() && w.region == region) return failure(Error::kBusy);
  return regions_.erase(region.value()) == 1 ? Result<void>() : failure(Error::kNotFound);
}

Result<MemoryWindow> FakeDevice::alloc_window(PdId pd) noexcept {
  if (refuse_call()) return failure(Error::kNoMemory);
  const std::uint32_t id = fresh();
  windows_[id].pd = pd;
  return MemoryWindow{MwId(id)};
}

Result<void> FakeDevice::dealloc_window(MwId window) noexcept {
  return windows_.erase(window.value()) == 1 ? Result<void>() : failure(Error::kNotFound);
}

Result<Rkey> FakeDevice::fresh_rkey(MwId window) noexcept {
  const auto w = windows_.find(window.value());
  if (w == windows_.end()) return failure(Error::kNotFound);
  return w->second.offered = Rkey(random_.u32() | 1);
}

Result<void> FakeDevice::retire_window(MwId window) noexcept {
  const auto w = windows_.find(window.value());
  if (w == windows_.end()) return failure(Error::kNotFound);
  if (!w->second.bound()) return failure(Error::kInvalidState);
  w->second.status.state = State::kRetired;
  return {};
}

Result<WindowStatus> FakeDevice::window_status(MwId window) const noexcept {
  const auto w = windows_.find(window.value());
  if (w == windows_.end()) return failure(Error::kNotFound);
  return w->second.status;
}

bool FakeDevice::reachable(const void* address) const {
  const auto a = reinterpret_cast<std::uintptr_t>(address);
  return std::any_of(windows_.begin(), windows_.end(), [&](const auto& entry) {
    const Window& w = entry.second;
    return w.status.state == State::kValid && a >= w.address && a < w.address + w.length &&
           qps_.contains(w.qpn.value());
  });
}

// ---- queues ----

Result<CqId> FakeDevice::create_cq(std::uint32_t depth) noexcept {
  if (refuse_call()) return failure(Error::kNoMemory);
  const std::uint32_t id = fresh();
  cqs_[id].depth = depth;
  return CqId(id);
}

Result<void> FakeDevice::destroy_cq(CqId cq) noexcept {
  for (const auto& [number, qp] : qps_)
    if (qp.options.send_cq == cq || qp.options.recv_cq == cq) return failure(Error::kBusy);
  return cqs_.erase(cq.value()) == 1 ? Result<void>() : failure(Error::kNotFound);
}

Result<Qpn> FakeDevice::create_qp(const QpOptions& options) noexcept {
  if (refuse_call()) return failure(Error::kNoMemory);
  for (;;) {
    const std::uint32_t number = random_.u32() & 0xff'ffff;
    if (number < 2 || fabric_.owner_of(Qpn(number)) != nullptr) continue;
    qps_[number].options = options;
    return Qpn(number);
  }
}

Result<void> FakeDevice::destroy_qp(Qpn qpn) noexcept {
  return qps_.erase(qpn.value()) == 1 ? Result<void>() : failure(Error::kNotFound);
}

Result<void> FakeDevice::to_init(Qpn qpn, const InitAttributes& a) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  q->second.state = QpState::kInit;
  q->second.access = a.access;
  return {};
}

Result<void> FakeDevice::to_rtr(Qpn qpn, const RtrAttributes& a) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  if (q->second.state != QpState::kInit) return failure(Error::kInvalidState);
  q->second.state = QpState::kRtr;
  q->second.remote = a.remote_qpn;
  q->second.association = a.association;
  return {};
}

Result<void> FakeDevice::to_rts(Qpn qpn, const RtsAttributes&) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  if (q->second.state != QpState::kRtr) return failure(Error::kInvalidState);
  q->second.state = QpState::kRts;
  return {};
}

Result<void> FakeDevice::to_error(Qpn qpn) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  flush(qpn, q->second);
  return {};
}

Result<void> FakeDevice::to_reset(Qpn qpn) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  q->second.sends.clear();
  q->second.receives.clear();
  q->second.state = QpState::kReset;
  return {};
}

Result<QpStatus> FakeDevice::qp_status(Qpn qpn) const noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  QpStatus s;
  s.state = q->second.state;
  s.send_queue_used = static_cast<std::uint32_t>(q->second.sends.size());
  s.recv_queue_used = static_cast<std::uint32_t>(q->second.receives.size());
  return s;
}

Result<void> FakeDevice::post_send(Qpn qpn, std::span<const SendWr> wrs) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  Qp& qp = q->second;
  if (qp.state != QpState::kRts && qp.state != QpState::kError)
    return failure(Error::kInvalidState);
  if (qp.sends.size() + wrs.size() > qp.options.max_send_wr) return failure(Error::kFull);
  qp.sends.insert(qp.sends.end(), wrs.begin(), wrs.end());
  if (qp.state == QpState::kError) flush(qpn, qp);
  return {};
}

Result<void> FakeDevice::post_recv(Qpn qpn, std::span<const RecvWr> wrs) noexcept {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end()) return failure(Error::kNotFound);
  Qp& qp = q->second;
  if (qp.state == QpState::kReset) return failure(Error::kInvalidState);
  if (qp.receives.size() + wrs.size() > qp.options.max_recv_wr) return failure(Error::kFull);
  for (const RecvWr& wr : wrs)
    for (std::size_t i = 0; i < wr.sge_count; ++i)
      if (local_region(qp.options.pd, wr.sges[i]) == nullptr)
        return failure(Error::kInvalidArgument);
  qp.receives.insert(qp.receives.end(), wrs.begin(), wrs.end());
  if (qp.state == QpState::kError) flush(qpn, qp);
  return {};
}

std::size_t FakeDevice::poll_cq(CqId cq, std::span<Completion> out) noexcept {
  const auto found = cqs_.find(cq.value());
  if (found == cqs_.end()) return 0;
  auto& waiting = found->second.completions;
  auto& late = found->second.late;
  if (!late_acknowledgements) {
    waiting.insert(waiting.end(), late.begin(), late.end());
    late.clear();
  }
  const std::size_t n = std::min(out.size(), waiting.size());
  std::copy_n(waiting.begin(), n, out.begin());
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
  return n;
}

std::size_t FakeDevice::poll_events(std::span<AsyncEvent>) noexcept {
  return 0;
}

// ---- protection: named, not done ----

Result<AssociationId> FakeDevice::create_association(const AssociationOptions&) noexcept {
  return AssociationId(fresh());
}
Result<void> FakeDevice::destroy_association(AssociationId) noexcept {
  return {};
}
Result<Spi> FakeDevice::allocate_spi() noexcept {
  return Spi(random_.u32() | 0x100);
}
Result<void> FakeDevice::install_sa(AssociationId, SaOptions&&) noexcept {
  return {};
}
Result<void> FakeDevice::remove_sa(AssociationId, SaDirection, Spi) noexcept {
  return {};
}

// ---- execution ----

void FakeDevice::complete(CqId cq, const Completion& c) {
  const auto found = cqs_.find(cq.value());
  if (found != cqs_.end()) found->second.completions.push_back(c);
}

void FakeDevice::complete_send(Qpn qpn, Qp& qp, CompletionStatus status) {
  const SendWr wr = qp.sends.front();
  qp.sends.pop_front();
  Completion c;
  c.wr_id = wr.wr_id;
  c.status = status;
  c.qpn = qpn;
  switch (wr.opcode) {
    case WrOpcode::kBindWindow:
      c.opcode = CompletionOpcode::kBindWindow;
      break;
    case WrOpcode::kLocalInvalidate:
      c.opcode = CompletionOpcode::kLocalInvalidate;
      break;
    case WrOpcode::kRdmaWrite:
      c.opcode = CompletionOpcode::kRdmaWrite;
      break;
    default:
      c.opcode = CompletionOpcode::kSend;
      break;
  }
  if (late_acknowledgements && status == CompletionStatus::kSuccess)
    cqs_[qp.options.send_cq.value()].late.push_back(c);
  else if (wr.signaled || status != CompletionStatus::kSuccess)
    complete(qp.options.send_cq, c);
  if (status != CompletionStatus::kSuccess) flush(qpn, qp);
}

void FakeDevice::flush(Qpn qpn, Qp& qp) {
  qp.state = QpState::kError;
  Completion c;
  c.status = CompletionStatus::kFlushed;
  c.qpn = qpn;
  for (const SendWr& wr : qp.sends) {
    c.wr_id = wr.wr_id;
    complete(qp.options.send_cq, c);
  }
  for (const RecvWr& wr : qp.receives) {
    c.wr_id = wr.wr_id;
    complete(qp.options.recv_cq, c);
  }
  qp.sends.clear();
  qp.receives.clear();
}

bool FakeDevice::execute_one(Qpn qpn) {
  const auto q = qps_.find(qpn.value());
  if (q == qps_.end() || q->second.state != QpState::kRts || q->second.sends.empty()) return false;
  Qp& qp = q->second;
  const SendWr wr = qp.sends.front();
  if (wr.opcode == WrOpcode::kBindWindow || wr.opcode == WrOpcode::kLocalInvalidate) {
    complete_send(qpn, qp, execute_local(qpn, qp, wr));
    return true;
  }
  switch (execute_remote(qpn, qp, wr)) {
    case Verdict::kDone:
      complete_send(qpn, qp, CompletionStatus::kSuccess);
      return true;
    case Verdict::kWait:
      return false;
    case Verdict::kRemoteAccess:
      complete_send(qpn, qp, CompletionStatus::kRemoteAccess);
      break;
    case Verdict::kRemoteInvalid:
      complete_send(qpn, qp, CompletionStatus::kRemoteInvalidRequest);
      break;
    case Verdict::kRetryExceeded:
      complete_send(qpn, qp, CompletionStatus::kRetryExceeded);
      break;
  }
  return true;
}

CompletionStatus FakeDevice::execute_local(Qpn qpn, Qp&, const SendWr& wr) {
  if (wr.opcode == WrOpcode::kBindWindow) return bind(qpn, wr);
  Window* const w = window_by_key(wr.invalidate_rkey, qpn);
  if (w == nullptr) return CompletionStatus::kLocalAccess;
  w->status.state = State::kInvalidated;
  w->status.by_peer = false;
  return CompletionStatus::kSuccess;
}

CompletionStatus FakeDevice::bind(Qpn qpn, const SendWr& wr) {
  const auto w = windows_.find(wr.window.value());
  const auto r = regions_.find(wr.region.value());
  if (w == windows_.end() || r == regions_.end() || w->second.bound() ||
      wr.rkey != w->second.offered || wr.rkey == Rkey(0))
    return CompletionStatus::kWindowBind;
  const Region& region = r->second;
  const auto base = reinterpret_cast<std::uintptr_t>(region.address);
  if (!allows(region.access, Access::kWindowBind) || !allows(region.access, Access::kLocalWrite) ||
      wr.bind_address < base || wr.bind_length > region.length ||
      wr.bind_address - base > region.length - wr.bind_length)
    return CompletionStatus::kWindowBind;
  w->second.status = {State::kValid, wr.rkey, 0, false};
  w->second.qpn = qpn;
  w->second.region = wr.region;
  w->second.address = wr.bind_address;
  w->second.length = wr.bind_length;
  w->second.access = wr.bind_access;
  w->second.offered = Rkey(0);
  return CompletionStatus::kSuccess;
}

const FakeDevice::Region* FakeDevice::local_region(PdId pd, const Sge& sge) const {
  for (const auto& [id, r] : regions_) {
    const auto base = reinterpret_cast<std::uintptr_t>(r.address);
    if (r.keys.lkey == sge.lkey && r.pd == pd && sge.address >= base && sge.length <= r.length &&
        sge.address - base <= r.length - sge.length)
      return &r;
  }
  return nullptr;
}

bool FakeDevice::gather(const Qp& qp, const SendWr& wr, std::vector<std::uint8_t>& out) const {
  for (std::size_t i = 0; i < wr.sge_count; ++i) {
    const Region* r = local_region(qp.options.pd, wr.sges[i]);
    if (r == nullptr) return false;
    const std::uint8_t* from =
        r->address + (wr.sges[i].address - reinterpret_cast<std::uintptr_t>(r->address));
    out.insert(out.end(), from, from + wr.sges[i].length);
  }
  return true;
}

FakeDevice::Verdict FakeDevice::execute_remote(Qpn qpn, Qp& qp, const SendWr& wr) {
  if (fabric_.broken) return Verdict::kRetryExceeded;
  if (fabric_.silent) return Verdict::kWait;
  FakeDevice* const there = fabric_.owner_of(qp.remote);
  if (there == nullptr) return Verdict::kRetryExceeded;
  Qp& peer = there->qps_[qp.remote.value()];
  if (peer.state < QpState::kRtr) return Verdict::kWait;
  if (peer.state == QpState::kError || peer.remote != qpn) return Verdict::kRetryExceeded;
  std::vector<std::uint8_t> data;
  if (!gather(qp, wr, data)) return Verdict::kRemoteInvalid;
  const Verdict v = wr.opcode == WrOpcode::kRdmaWrite ? there->receive_write(qp.remote, data, wr)
                                                      : there->receive_send(qp.remote, data, wr);
  if (v == Verdict::kRemoteAccess || v == Verdict::kRemoteInvalid) {
    ++there->violations.remote_access;
    there->flush(qp.remote, peer);
  }
  return v;
}

FakeDevice::Window* FakeDevice::window_by_key(Rkey rkey, Qpn qpn) {
  for (auto& [id, w] : windows_)
    if (w.bound() && w.status.rkey == rkey && w.qpn == qpn) return &w;
  return nullptr;
}

FakeDevice::Verdict FakeDevice::receive_send(Qpn qpn, const std::vector<std::uint8_t>& data,
                                             const SendWr& wr) {
  Qp& qp = qps_[qpn.value()];
  if (qp.receives.empty()) {
    ++violations.receiver_not_ready;
    return Verdict::kWait;
  }
  const RecvWr receive = qp.receives.front();
  if (data.size() > receive.sges[0].length) return Verdict::kRemoteInvalid;
  Completion c;
  if (wr.opcode == WrOpcode::kSendWithInvalidate) {
    Window* const w = window_by_key(wr.invalidate_rkey, qpn);
    if (w == nullptr) return Verdict::kRemoteAccess;
    w->status.state = State::kInvalidated;
    w->status.by_peer = true;
    c.has_invalidate = true;
    c.invalidated_rkey = wr.invalidate_rkey;
  }
  qp.receives.pop_front();
  const Region* r = local_region(qp.options.pd, receive.sges[0]);
  if (r == nullptr || !allows(r->access, Access::kLocalWrite)) return Verdict::kRemoteInvalid;
  std::uint8_t* const to =
      r->address + (receive.sges[0].address - reinterpret_cast<std::uintptr_t>(r->address));
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
  c.wr_id = receive.wr_id;
  c.opcode = CompletionOpcode::kRecv;
  c.qpn = qpn;
  c.byte_len = static_cast<std::uint32_t>(data.size());
  complete(qp.options.recv_cq, c);
  return Verdict::kDone;
}

FakeDevice::Verdict FakeDevice::receive_write(Qpn qpn, const std::vector<std::uint8_t>& data,
                                              const SendWr& wr) {
  ++writes_executed;
  longest_write = std::max<std::uint64_t>(longest_write, data.size());
  if (data.empty()) return Verdict::kDone;
  const Qp& qp = qps_[qpn.value()];
  Window* const w = window_by_key(wr.rkey, qpn);
  if (w == nullptr || !allows(qp.access, Access::kRemoteWrite) ||
      !allows(w->access, Access::kRemoteWrite) || wr.remote_address < w->address ||
      data.size() > w->length || wr.remote_address - w->address > w->length - data.size() ||
      regions_[w->region.value()].association != qp.association)
    return Verdict::kRemoteAccess;
  if (w->status.state == State::kRetired) {
    ++violations.discarded_writes;
    return Verdict::kDone;
  }
  const Region& r = regions_[w->region.value()];
  const std::uint64_t at = wr.remote_address - w->address;
  std::memcpy(r.address + (wr.remote_address - reinterpret_cast<std::uintptr_t>(r.address)),
              data.data(), data.size());
  if (at <= w->status.contiguous_bytes)
    w->status.contiguous_bytes = std::max(w->status.contiguous_bytes, at + data.size());
  return Verdict::kDone;
}

}  // namespace h4a::test
