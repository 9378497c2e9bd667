// Calls of the application, timers, and the transitions that they share with messages.
// Spec: IBA vol. 1 §12.9.
#include "roce/cm/manager.h"

#include <algorithm>

#include "roce/cm/negotiate.h"

namespace h4a::roce::cm {
namespace {

using net::CmMessageKind;
using net::CmRejectReason;
using verbs::QpType;

net::PortSpace port_space(QpType type) noexcept {
  return type == QpType::kUd ? net::PortSpace::kUdp : net::PortSpace::kTcp;
}

bool is_service_type(QpType type) noexcept {
  return type == QpType::kRc || type == QpType::kUc || type == QpType::kUd;
}

bool is_valid(const verbs::CmQpParameters& q) noexcept {
  return q.qpn.value() >= 2 && q.qpn.value() < Psn::kMask &&
         q.responder_resources <= verbs::kCmReadDepthMax &&
         q.initiator_depth <= verbs::kCmReadDepthMax && q.rnr_retry <= 7 && q.min_rnr_timer <= 31;
}

bool is_valid(const verbs::CmConnectOptions& o) noexcept {
  const bool ud = o.type == QpType::kUd;
  return is_service_type(o.type) && is_valid(o.qp) && o.port != 0 && o.retry_count <= 7 &&
         o.local_address.is_v4() == o.remote_address.is_v4() &&
         !o.remote_address.is_unspecified() && !o.remote_address.is_multicast() &&
         (ud || mtu_code(o.path_mtu) != 0) &&
         o.private_data.size() <=
             (ud ? verbs::kCmUdConnectPrivateMax : verbs::kCmConnectPrivateMax);
}

}  // namespace

std::string_view to_string(State state) noexcept {
  constexpr std::string_view kNames[kStateCount] = {
      "req_sent",  "rep_received",  "req_received",      "rep_sent",  "established", "dreq_sent",
      "time_wait", "sidr_req_sent", "sidr_req_received", "sidr_done", "closed"};
  return kNames[static_cast<std::size_t>(state)];
}

Manager::Manager(const Options& options, Random& random)
    : options_(options),
      random_(random),
      table_(options.connection_max, random),
      timers_(options.connection_max),
      outputs_(kOutputsMax),
      source_seed_(random.u64()) {
  listeners_.reserve(options.listener_max);
  if (options_.ca_guid == 0) options_.ca_guid = random.u64() | 1;
}

// ---- listeners ----

Result<verbs::CmListenerId> Manager::listen(const verbs::CmListenOptions& o) noexcept {
  if (!is_service_type(o.type) || o.port == 0 || o.backlog == 0)
    return failure(Error::kInvalidArgument);
  const std::uint64_t service = net::rdma_service_id(port_space(o.type), o.port);
  for (const Listener& l : listeners_)
    if (l.service_id == service &&
        (l.options.local_address == o.local_address || l.options.local_address.is_unspecified() ||
         o.local_address.is_unspecified()))
      return failure(Error::kExists);
  if (listeners_.size() == options_.listener_max) return failure(Error::kNoMemory);
  const verbs::CmListenerId id(next_listener_++);
  listeners_.push_back({id, service, o, 0});
  return id;
}

Result<void> Manager::stop_listening(verbs::CmListenerId id) noexcept {
  const auto at = std::find_if(listeners_.begin(), listeners_.end(),
                               [&](const Listener& l) { return l.id == id; });
  if (at == listeners_.end()) return failure(Error::kNotFound);
  listeners_.erase(at);
  return {};
}

Manager::Listener* Manager::find_listener(verbs::CmListenerId id) noexcept {
  for (Listener& l : listeners_)
    if (l.id == id) return &l;
  return nullptr;
}

Manager::Listener* Manager::find_listener(std::uint64_t service, const IpAddress& local) noexcept {
  for (Listener& l : listeners_)
    if (l.service_id == service &&
        (l.options.local_address.is_unspecified() || l.options.local_address == local))
      return &l;
  return nullptr;
}

// ---- connections ----

Result<verbs::CmId> Manager::connect(const verbs::CmConnectOptions& options, Instant now) noexcept {
  if (!is_valid(options)) return failure(Error::kInvalidArgument);
  Connection* c = table_.allocate();
  if (c == nullptr) return failure(Error::kNoMemory);
  verbs::CmConnectOptions o = options;
  if (o.source_port == 0)
    o.source_port = static_cast<std::uint16_t>(0xc000 | random_.below(0x4000));
  c->active = c->owned = true;
  c->type = o.type;
  c->peer = {o.local_address, o.remote_address, o.association};
  c->service_id = net::rdma_service_id(port_space(o.type), o.port);
  c->transaction_id = random_.u64();
  c->remote_port = o.port;
  c->local_qpn = o.qp.qpn;
  c->rq_psn = Psn(random_.u32());
  c->path_mtu = o.path_mtu;
  c->responder_resources = o.type == QpType::kRc ? o.qp.responder_resources : std::uint8_t{0};
  c->initiator_depth = o.type == QpType::kRc ? o.qp.initiator_depth : std::uint8_t{0};
  c->retry_count = o.retry_count;
  c->min_rnr_timer = o.qp.min_rnr_timer;
  c->hop_limit = o.hop_limit;
  c->traffic_class = o.traffic_class;
  c->retries_max = options_.max_retries;
  c->response_time = cm_time(options_.response_time) + cm_time(options_.packet_life) * 2;
  if (o.type == QpType::kUd) {
    send_sidr_req(*c, o);
    wait_for_answer(*c, State::kSidrReqSent, now);
  } else {
    send_req(*c, o);
    wait_for_answer(*c, State::kReqSent, now);
  }
  return c->id;
}

Result<QpSettings> Manager::settings(verbs::CmId id, const verbs::CmQpParameters& own) noexcept {
  const Connection* c = table_.find(id);
  if (c == nullptr) return failure(Error::kNotFound);
  const bool passive = c->state == State::kReqReceived;
  if (!passive && c->state != State::kRepReceived) return failure(Error::kInvalidState);
  if (passive && !is_valid(own)) return failure(Error::kInvalidArgument);
  QpSettings s;
  s.qpn = passive ? own.qpn : c->local_qpn;
  s.rtr.local_address = c->peer.local;
  s.rtr.remote_address = c->peer.remote;
  s.rtr.association = c->peer.association;
  s.rtr.remote_qpn = c->remote_qpn;
  s.rtr.rq_psn = c->rq_psn;
  s.rtr.path_mtu = c->path_mtu;
  s.rtr.max_dest_rd_atomic = passive ? agree_depth(own.responder_resources, c->responder_resources)
                                     : c->responder_resources;
  s.rtr.min_rnr_timer = passive ? own.min_rnr_timer : c->min_rnr_timer;
  s.rtr.hop_limit = c->hop_limit;
  s.rtr.traffic_class = c->traffic_class;
  s.rts.sq_psn = c->sq_psn;
  s.rts.timeout = c->ack_timeout;
  s.rts.retry_count = c->retry_count;
  s.rts.rnr_retry = c->rnr_retry;
  s.rts.max_rd_atomic =
      passive ? agree_depth(own.initiator_depth, c->initiator_depth) : c->initiator_depth;
  return s;
}

Result<void> Manager::accept(verbs::CmId id, const verbs::CmAcceptOptions& o,
                             Instant now) noexcept {
  Connection* c = table_.find(id);
  if (c == nullptr) return failure(Error::kNotFound);
  const bool ud = c->state == State::kSidrReqReceived;
  if (!ud && c->state != State::kReqReceived) return failure(Error::kInvalidState);
  if (!is_valid(o.qp) ||
      o.private_data.size() > (ud ? verbs::kCmUdAcceptPrivateMax : verbs::kCmAcceptPrivateMax))
    return failure(Error::kInvalidArgument);
  c->local_qpn = o.qp.qpn;
  if (ud) {
    send_sidr_rep(*c, net::CmSidrStatus::kOk, o.qp.qkey, o.private_data);
    enter_sidr_done(*c, now);
    return {};
  }
  c->responder_resources = agree_depth(o.qp.responder_resources, c->responder_resources);
  c->initiator_depth = agree_depth(o.qp.initiator_depth, c->initiator_depth);
  send_rep(*c, o);
  wait_for_answer(*c, State::kRepSent, now);
  return {};
}

Result<void> Manager::reject(verbs::CmId id, Bytes private_data, Instant now) noexcept {
  Connection* c = table_.find(id);
  if (c == nullptr) return failure(Error::kNotFound);
  const bool ud = c->state == State::kSidrReqReceived;
  if (!ud && c->state != State::kReqReceived) return failure(Error::kInvalidState);
  if (private_data.size() > (ud ? verbs::kCmUdAcceptPrivateMax : verbs::kCmRejectPrivateMax))
    return failure(Error::kInvalidArgument);
  if (ud) {
    send_sidr_rep(*c, net::CmSidrStatus::kRejected, 0, private_data);
    enter_sidr_done(*c, now);
  } else {
    send_rej(*c, CmMessageKind::kReq, CmRejectReason::kConsumer, private_data);
    enter_time_wait(*c, now);
  }
  return {};
}

Result<void> Manager::disconnect(verbs::CmId id, Bytes private_data, Instant now) noexcept {
  Connection* c = table_.find(id);
  if (c == nullptr) return failure(Error::kNotFound);
  if (private_data.size() > verbs::kCmDisconnectPrivateMax) return failure(Error::kInvalidArgument);
  if (c->state == State::kDreqSent || c->state == State::kTimeWait) return {};  // under way
  if (c->state == State::kRepSent) enter_established(*c);  // its data may have come before the RTU
  if (c->state != State::kEstablished) return failure(Error::kInvalidState);
  c->transaction_id = random_.u64();
  send_dreq(*c, private_data);
  wait_for_answer(*c, State::kDreqSent, now);
  return {};
}

Result<void> Manager::destroy(verbs::CmId id, Instant now) noexcept {
  Connection* c = table_.find(id);
  if (c == nullptr || !c->owned) return failure(Error::kNotFound);
  c->owned = false;
  c->pending = 0;
  if (c->is_linked()) eventful_.erase(eventful_.iterator_to(*c));
  switch (c->state) {
    case State::kReqSent:
      send_rej(*c, CmMessageKind::kReq, CmRejectReason::kTimeout);
      close(*c);
      break;
    case State::kRepReceived:
      send_rej(*c, CmMessageKind::kRep, CmRejectReason::kConsumer);
      enter_time_wait(*c, now);
      break;
    case State::kReqReceived:
    case State::kSidrReqReceived:
      static_cast<void>(reject(id, {}, now));
      break;
    case State::kRepSent:
      send_rej(*c, CmMessageKind::kOther, CmRejectReason::kConsumer);
      enter_time_wait(*c, now);
      break;
    case State::kEstablished:
      static_cast<void>(disconnect(id, {}, now));
      break;
    case State::kSidrReqSent:
    case State::kClosed:
      close(*c);
      break;
    case State::kDreqSent:
    case State::kTimeWait:
    case State::kSidrDone:
      break;  // goes on without an owner, for a bounded time
  }
  return {};
}

void Manager::ready(verbs::CmId id) noexcept {
  Connection* c = table_.find(id);
  if (c == nullptr || c->state != State::kRepReceived) return;
  send(*c, net::CmRtu{c->local_comm_id, c->remote_comm_id, {}});
  enter_established(*c);
}

void Manager::refuse(verbs::CmId id, Instant now) noexcept {
  Connection* c = table_.find(id);
  if (c == nullptr || c->state != State::kRepReceived) return;
  send_rej(*c, CmMessageKind::kRep, CmRejectReason::kConsumer);
  c->reason = verbs::CmReason::kLocalQp;
  raise(*c, Pending::kUnreachable);
  enter_time_wait(*c, now);
}

Result<State> Manager::state(verbs::CmId id) noexcept {
  const Connection* c = table_.find(id);
  if (c == nullptr) return failure(Error::kNotFound);
  return c->state;
}

// ---- events ----

void Manager::raise(Connection& c, Pending event) noexcept {
  if (!c.owned) return;
  c.pending |= static_cast<std::uint8_t>(event);
  if (!c.is_linked()) eventful_.push_back(c);
}

bool Manager::poll_event(verbs::CmEvent& out) noexcept {
  if (eventful_.empty()) return false;
  Connection& c = eventful_.front();
  const auto event = static_cast<Pending>(c.pending & (~c.pending + 1));  // the lowest bit
  c.pending &= static_cast<std::uint8_t>(c.pending - 1);
  eventful_.pop_front();
  if (c.pending != 0) eventful_.push_back(c);
  out = {};
  out.id = c.id;
  out.qp_type = c.type;
  out.local_address = c.peer.local;
  out.remote_address = c.peer.remote;
  out.remote_port = c.remote_port;
  out.association = c.peer.association;
  out.responder_resources = c.responder_resources;
  out.initiator_depth = c.initiator_depth;
  out.path_mtu = c.path_mtu;
  out.remote_qpn = c.remote_qpn;
  out.remote_qkey = c.remote_qkey;
  switch (event) {
    case Pending::kNone:
    case Pending::kConnectRequest:
      out.type = verbs::CmEvent::Type::kConnectRequest;
      out.listener = c.listener;
      out.private_data = c.opening;
      return true;
    case Pending::kEstablished:
      out.type = verbs::CmEvent::Type::kEstablished;
      if (c.active) out.private_data = c.opening;
      return true;
    case Pending::kRejected:
      out.type = verbs::CmEvent::Type::kRejected;
      break;
    case Pending::kUnreachable:
      out.type = verbs::CmEvent::Type::kUnreachable;
      break;
    case Pending::kDisconnected:
      out.type = verbs::CmEvent::Type::kDisconnected;
      break;
  }
  out.reason = c.reason;
  out.private_data = c.ending;
  return true;
}

// ---- transitions ----

void Manager::wait_for_answer(Connection& c, State state, Instant now) noexcept {
  c.state = state;
  c.retries_left = c.waits_left = c.retries_max;
  timers_.arm(c, now + c.response_time);
}

void Manager::enter_established(Connection& c) noexcept {
  c.state = State::kEstablished;
  timers_.disarm(c);
  leave_half_open(c);
  raise(c, Pending::kEstablished);
}

// Spec: IBA vol. 1 §12.9.8.4: as long as packets of the connection may be in the network.
void Manager::enter_time_wait(Connection& c, Instant now) noexcept {
  c.state = State::kTimeWait;
  leave_half_open(c);
  timers_.arm(c, now + kTimeWait);
}

void Manager::enter_sidr_done(Connection& c, Instant now) noexcept {
  c.state = State::kSidrDone;
  leave_half_open(c);
  timers_.arm(c, now + kTimeWait);
}

void Manager::close(Connection& c) noexcept {
  c.state = State::kClosed;
  leave_half_open(c);
  timers_.remove(c);
  table_.forget_keys(c);
  if (!c.owned) table_.release(c);
}

void Manager::enter_half_open(Connection& c, Listener& listener) noexcept {
  c.half_open = true;
  ++listener.half_open;
  ++source_count(c.peer.remote);
}

void Manager::leave_half_open(Connection& c) noexcept {
  if (!c.half_open) return;
  c.half_open = false;
  --source_count(c.peer.remote);
  if (Listener* l = find_listener(c.listener)) --l->half_open;
}

// ---- time ----

void Manager::run_timers(Instant now) noexcept {
  while (TimerNode* node = timers_.pop_due(now)) on_timer(static_cast<Connection&>(*node), now);
}

void Manager::on_timer(Connection& c, Instant now) noexcept {
  switch (c.state) {
    case State::kReqSent:
    case State::kRepSent:
    case State::kDreqSent:
    case State::kSidrReqSent:
      if (c.retries_left == 0) return give_up(c, now);
      --c.retries_left;
      send_again(c);
      timers_.arm(c, now + c.response_time);
      return;
    case State::kTimeWait:
    case State::kSidrDone:
      return close(c);
    case State::kRepReceived:
    case State::kReqReceived:
    case State::kEstablished:
    case State::kSidrReqReceived:
    case State::kClosed:
      return;  // nothing is armed in these
  }
}

void Manager::give_up(Connection& c, Instant now) noexcept {
  c.reason = verbs::CmReason::kTimeout;
  switch (c.state) {
    case State::kReqSent:
      send_rej(c, CmMessageKind::kReq, CmRejectReason::kTimeout);
      raise(c, Pending::kUnreachable);
      return close(c);
    case State::kRepSent:
      send_rej(c, CmMessageKind::kRep, CmRejectReason::kTimeout);
      raise(c, Pending::kUnreachable);
      return enter_time_wait(c, now);
    case State::kDreqSent:
      raise(c, Pending::kDisconnected);
      return enter_time_wait(c, now);
    default:
      raise(c, Pending::kUnreachable);
      return close(c);
  }
}

}  // namespace h4a::roce::cm
