#include "stack/cm_service.h"

#include <algorithm>

#include "verbs/datagram.h"

namespace h4a::stack {
namespace {

using verbs::QpType;

/// Work requests of sends have this bit in their id.
constexpr std::uint64_t kSendBit = std::uint64_t{1} << 32;
constexpr std::size_t kCompletionsMax = 32;

}  // namespace

CmService::CmService(verbs::Device& device, Random& random, const roce::cm::Options& options)
    : device_(device), manager_(options, random), buffers_(std::make_unique<Buffers>()) {
  for (std::uint32_t i = 0; i < kSends; ++i) free_sends_[i] = i;
}

Result<std::unique_ptr<CmService>> CmService::create(verbs::Device& device, Random& random,
                                                     const roce::cm::Options& options) noexcept {
  try {
    std::unique_ptr<CmService> service(new CmService(device, random, options));
    const auto opened = service->open();
    if (!opened) return failure(opened.error());
    return service;
  } catch (const std::bad_alloc&) {
    return failure(Error::kNoMemory);
  }
}

Result<void> CmService::open() noexcept {
  const auto pd = device_.alloc_pd();
  if (!pd) return failure(pd.error());
  pd_ = *pd;
  const auto cq = device_.create_cq(kReceives + kSends);
  if (!cq) return failure(cq.error());
  cq_ = *cq;
  const auto region = device_.register_memory(pd_, buffers_.get(), sizeof(Buffers),
                                              verbs::Access::kLocalWrite, kClear);
  if (!region) return failure(region.error());
  region_ = *region;
  verbs::QpOptions options;
  options.type = QpType::kGsi;
  options.pd = pd_;
  options.send_cq = options.recv_cq = cq_;
  options.max_send_wr = kSends;
  options.max_recv_wr = kReceives;
  const auto qpn = device_.create_qp(options);
  if (!qpn) return failure(qpn.error());
  qpn_ = *qpn;
  verbs::RtrAttributes rtr;
  rtr.path_mtu = net::kMadSize;
  if (const auto ok = device_.to_init(qpn_, {}); !ok) return ok;
  for (std::uint32_t i = 0; i < kReceives; ++i)
    if (const auto ok = post_receive(i); !ok) return ok;
  if (const auto ok = device_.to_rtr(qpn_, rtr); !ok) return ok;
  return device_.to_rts(qpn_, {});
}

// Whatever was not made has handle 0, which is nobody's.
CmService::~CmService() {
  if (qpn_ != Qpn{}) static_cast<void>(device_.destroy_qp(qpn_));
  for (const verbs::AhId ah : handles_)
    if (ah != verbs::AhId{}) static_cast<void>(device_.destroy_ah(ah));
  static_cast<void>(device_.deregister_memory(region_.id));
  static_cast<void>(device_.destroy_cq(cq_));
  static_cast<void>(device_.dealloc_pd(pd_));
}

Instant CmService::poll(Instant now) noexcept {
  now_ = now;
  take_completions(now);
  manager_.run_timers(now);
  send_messages();
  return manager_.next_deadline();
}

void CmService::take_completions(Instant now) noexcept {
  std::array<verbs::Completion, kCompletionsMax> completions;
  const std::size_t n = device_.poll_cq(cq_, completions);
  for (std::size_t i = 0; i < n; ++i) {
    const verbs::Completion& c = completions[i];
    const auto slot = static_cast<std::uint32_t>(c.wr_id);
    if ((c.wr_id & kSendBit) != 0) {
      static_cast<void>(device_.destroy_ah(handles_[slot]));
      handles_[slot] = {};
      free_sends_[sends_free_++] = slot;
      continue;
    }
    if (c.status == verbs::CompletionStatus::kSuccess) take_message(c, now);
    static_cast<void>(post_receive(slot));
  }
}

void CmService::take_message(const verbs::Completion& c, Instant now) noexcept {
  const Bytes buffer = buffers_->receives[static_cast<std::uint32_t>(c.wr_id)];
  const auto reply = verbs::reply_address(c, buffer);
  if (!reply) return;  // cannot be: every datagram has a GRH here
  const roce::cm::Peer from{reply->local_address, reply->remote_address, reply->association};
  const std::uint16_t mtu = device_.max_path_mtu(from.association != kClear, !from.remote.is_v4());
  const Bytes mad = buffer.subspan(verbs::kGrhBytes, c.byte_len - verbs::kGrhBytes);
  const roce::cm::Received received = manager_.receive(from, mad, mtu, now);
  if (received.replied != verbs::CmId{}) set_up_active(received.replied, now);
}

void CmService::set_up_active(verbs::CmId id, Instant now) noexcept {
  const auto settings = manager_.settings(id, {});
  if (settings && move_to_rts(*settings)) {
    manager_.ready(id);
  } else {
    manager_.refuse(id, now);
  }
}

Result<void> CmService::move_to_rts(const roce::cm::QpSettings& s) noexcept {
  const auto done = device_.to_rtr(s.qpn, s.rtr);
  return done ? device_.to_rts(s.qpn, s.rts) : done;
}

Result<void> CmService::post_receive(std::uint32_t slot) noexcept {
  verbs::RecvWr wr;
  wr.wr_id = slot;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(buffers_->receives[slot].data()), kReceiveBytes,
                region_.lkey};
  return device_.post_recv(qpn_, {&wr, 1});
}

void CmService::send_messages() noexcept {
  roce::cm::Output output;
  while (sends_free_ > 0 && manager_.next_output(output)) send(output);
}

// A message that finds no route or no room is lost, as in the network: the timers repeat it.
void CmService::send(const roce::cm::Output& output) noexcept {
  verbs::AhAttributes to;
  to.local_address = output.peer.local;
  to.remote_address = output.peer.remote;
  to.association = output.peer.association;
  const auto ah = device_.create_ah(pd_, to);
  if (!ah) return;
  const std::uint32_t slot = free_sends_[sends_free_ - 1];
  buffers_->sends[slot] = output.mad;
  verbs::SendWr wr;
  wr.wr_id = kSendBit | slot;
  wr.opcode = verbs::WrOpcode::kSend;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(buffers_->sends[slot].data()), net::kMadSize,
                region_.lkey};
  wr.ah = *ah;
  wr.remote_qpn = verbs::kGsiQpn;
  wr.remote_qkey = verbs::kGsiQkey;
  if (!device_.post_send(qpn_, {&wr, 1})) {
    static_cast<void>(device_.destroy_ah(*ah));
    return;
  }
  handles_[slot] = *ah;
  --sends_free_;
}

// ---- calls ----

Result<verbs::CmListenerId> CmService::listen(const verbs::CmListenOptions& o) noexcept {
  const auto ours = device_.addresses();
  const bool own = o.local_address.is_unspecified() ||
                   std::any_of(ours.begin(), ours.end(),
                               [&](const auto& i) { return i.address == o.local_address; });
  if (!own) return failure(Error::kInvalidArgument);
  verbs::CmListenOptions options = o;
  if (o.local_address.is_unspecified()) options.local_address = {};
  return manager_.listen(options);
}

Result<void> CmService::stop_listening(verbs::CmListenerId listener) noexcept {
  return manager_.stop_listening(listener);
}

/// One on the peer's link, else the first of its family. nullptr if there is none.
const IpAddress* CmService::local_address_for(const IpAddress& remote) const noexcept {
  const IpAddress* best = nullptr;
  for (const IpInterface& i : device_.addresses()) {
    if (i.address.is_v4() != remote.is_v4()) continue;
    if (i.address.same_prefix(remote, i.prefix_bits)) return &i.address;
    if (best == nullptr) best = &i.address;
  }
  return best;
}

Result<verbs::CmId> CmService::connect(const verbs::CmConnectOptions& options) noexcept {
  verbs::CmConnectOptions o = options;
  if (o.local_address.is_unspecified()) {
    const IpAddress* own = local_address_for(o.remote_address);
    if (own == nullptr) return failure(Error::kInvalidArgument);
    o.local_address = *own;
  }
  const std::uint16_t largest =
      device_.max_path_mtu(o.association != kClear, !o.remote_address.is_v4());
  if (o.path_mtu == 0) o.path_mtu = largest;
  if (o.path_mtu > largest) return failure(Error::kInvalidArgument);
  const auto status = device_.qp_status(o.qp.qpn);
  if (!status) return failure(status.error());
  if (status->type != o.type) return failure(Error::kInvalidArgument);
  if (status->state != (o.type == QpType::kUd ? verbs::QpState::kRts : verbs::QpState::kInit))
    return failure(Error::kInvalidState);
  // Whether there is a way at all is better said now than by a time-out.
  verbs::AhAttributes to;
  to.local_address = o.local_address;
  to.remote_address = o.remote_address;
  to.association = o.association;
  const auto way = device_.create_ah(pd_, to);
  if (!way) return failure(way.error());
  static_cast<void>(device_.destroy_ah(*way));
  return manager_.connect(o, now_);
}

Result<void> CmService::accept(verbs::CmId id, const verbs::CmAcceptOptions& o) noexcept {
  const auto status = device_.qp_status(o.qp.qpn);
  if (!status) return failure(status.error());
  if (status->type != QpType::kUd) {
    if (o.private_data.size() > verbs::kCmAcceptPrivateMax) return failure(Error::kInvalidArgument);
    const auto settings = manager_.settings(id, o.qp);
    if (!settings) return failure(settings.error());
    if (const auto moved = move_to_rts(*settings); !moved) return moved;
  }
  return manager_.accept(id, o, now_);
}

Result<void> CmService::reject(verbs::CmId id, Bytes private_data) noexcept {
  return manager_.reject(id, private_data, now_);
}

Result<void> CmService::disconnect(verbs::CmId id, Bytes private_data) noexcept {
  return manager_.disconnect(id, private_data, now_);
}

Result<void> CmService::destroy(verbs::CmId id) noexcept {
  return manager_.destroy(id, now_);
}

bool CmService::poll_event(verbs::CmEvent& out) noexcept {
  return manager_.poll_event(out);
}

}  // namespace h4a::stack
