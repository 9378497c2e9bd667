// Messages that come in, one handler each. Spec: IBA vol. 1 §12.9.5 (active), §12.9.6 (passive),
// §12.9.7 (disconnecting), §12.9.8 (stale and repeated messages), §12.11 (SIDR).
//
// A handler returns why the message went no further, or kNone if it moved the connection on. Whoever
// can guess neither of two random communication IDs can end no connection.
#include <algorithm>
#include <optional>
#include <variant>

#include "roce/cm/manager.h"
#include "roce/cm/negotiate.h"

namespace h4a::roce::cm {
namespace {

using net::CmMessageKind;
using net::CmRejectReason;
using verbs::QpType;

/// Numbers of queue pairs that applications have. Spec: IBA vol. 1 §3.5.3.
bool is_data_qpn(Qpn qpn) noexcept {
  return qpn.value() >= 2 && qpn.value() != Psn::kMask;
}

template <std::size_t N>
void keep(verbs::CmPrivateData& to, const net::PrivateData<N>& from,
          std::size_t skip = 0) noexcept {
  static_assert(N <= sizeof(to.bytes));
  to.size = static_cast<std::uint8_t>(N - skip);
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(skip), from.end(), to.bytes.begin());
}

/// What the private data of a request says about the addresses.
struct Origin {
  Drop drop = Drop::kNone;
  std::uint16_t port = 0;
  std::size_t header = 0;  // bytes in front of the application's private data
};

template <std::size_t N>
Origin check_origin(const Peer& from, std::uint64_t service_id,
                    const net::PrivateData<N>& data) noexcept {
  if (!net::is_rdma_service(service_id)) return {};
  const auto ip = net::IpCmHeader::load(data.data());
  if (!ip) return {Drop::kBadCmMessage, 0, 0};
  if (ip->source != from.remote || ip->destination != from.local) return {Drop::kCmWrongPeer, 0, 0};
  return {Drop::kNone, ip->source_port, net::IpCmHeader::kSize};
}

QpType type_of(const net::CmReq& req) noexcept {
  return req.transport == net::CmTransport::kUc ? QpType::kUc : QpType::kRc;
}

/// Why a request cannot be served by a listener for `wanted`, whoever asks.
std::optional<CmRejectReason> objection(const net::CmReq& req, QpType wanted,
                                        std::uint16_t max_path_mtu) noexcept {
  const bool known =
      req.transport == net::CmTransport::kRc || req.transport == net::CmTransport::kUc;
  if (!known || type_of(req) != wanted) return CmRejectReason::kInvalidTransport;
  const std::uint16_t mtu = mtu_bytes(req.path_mtu);
  if (mtu == 0 || mtu > max_path_mtu) return CmRejectReason::kInvalidMtu;
  if ((req.pkey & 0x7fff) != 0x7fff) return CmRejectReason::kUnsupportedRequest;
  return std::nullopt;
}

}  // namespace

Received Manager::receive(const Peer& from, Bytes mad, std::uint16_t max_path_mtu,
                          Instant now) noexcept {
  Received result;
  const auto parsed = net::parse_cm(mad);
  if (!parsed) {
    result.drop = parsed.error();
  } else if (from.remote.is_unspecified() || from.remote.is_multicast()) {
    result.drop = Drop::kBadAddress;
  } else {
    struct {
      Manager& m;
      const Peer& from;
      const net::CmMad& mad;
      std::uint16_t max_path_mtu;
      Instant now;
      Received& result;
      Drop operator()(const net::CmReq& x) { return m.on_req(from, mad, x, max_path_mtu, now); }
      Drop operator()(const net::CmRep& x) { return m.on_rep(from, mad, x, result, now); }
      Drop operator()(const net::CmRtu& x) { return m.on_rtu(from, x); }
      Drop operator()(const net::CmRej& x) { return m.on_rej(from, x, now); }
      Drop operator()(const net::CmMra& x) { return m.on_mra(from, x, now); }
      Drop operator()(const net::CmDreq& x) { return m.on_dreq(from, mad, x, now); }
      Drop operator()(const net::CmDrep& x) { return m.on_drep(from, x, now); }
      Drop operator()(const net::CmSidrReq& x) { return m.on_sidr_req(from, mad, x); }
      Drop operator()(const net::CmSidrRep& x) { return m.on_sidr_rep(from, x); }
      Drop operator()(const net::CmLap& x) { return m.on_lap(from, mad, x); }
      Drop operator()(const net::CmApr&) { return Drop::kCmUnexpected; }  // we send no LAP
    } handler{*this, from, *parsed, max_path_mtu, now, result};
    result.drop = std::visit(handler, parsed->message);
  }
  if (result.drop != Drop::kNone) drops_.add(result.drop);
  return result;
}

Connection* Manager::match(const Peer& from, std::uint32_t ours, std::uint32_t theirs,
                           Drop& reason) noexcept {
  Connection* c = table_.find_local(ours);
  if (c == nullptr || c->type == QpType::kUd || c->remote_comm_id != theirs || theirs == 0) {
    reason = Drop::kCmUnmatched;
    return nullptr;
  }
  reason = c->peer == from ? Drop::kNone : Drop::kCmWrongPeer;
  return c->peer == from ? c : nullptr;
}

// ---- setting up ----

Drop Manager::on_req(const Peer& from, const net::CmMad& mad, const net::CmReq& req,
                     std::uint16_t max_path_mtu, Instant now) noexcept {
  if (Connection* c = table_.find_remote(from, req.local_comm_id, false))
    return on_repeated_req(*c);
  if (req.local_comm_id == 0 || !is_data_qpn(req.local_qpn)) return Drop::kBadCmMessage;
  if (req.primary.local_gid != from.remote || req.primary.remote_gid != from.local)
    return Drop::kCmWrongPeer;
  const Origin origin = check_origin(from, req.service_id, req.private_data);
  if (origin.drop != Drop::kNone) return origin.drop;

  net::CmRej rej;
  rej.remote_comm_id = req.local_comm_id;
  const auto refuse = [&](CmRejectReason reason) {
    rej.reason = reason;
    if (reason == CmRejectReason::kInvalidMtu) {
      rej.info_length = 1;
      rej.info[0] = mtu_code(max_path_mtu);
    }
    answer(from, mad.transaction_id, rej);
    return Drop::kCmRefused;
  };
  // The peer has a new connection for a queue pair that we take for connected: ours is dead. Both
  // ends are told, and the peer may ask again. Spec: IBA vol. 1 §12.9.8.3.1.
  if (Connection* old = table_.find_qpn(from, req.local_qpn)) {
    end_stale(*old, now);
    return refuse(CmRejectReason::kStaleConnection);
  }
  Listener* listener = find_listener(req.service_id, from.local);
  if (listener == nullptr || listener->options.type == QpType::kUd)
    return refuse(CmRejectReason::kInvalidServiceId);
  if (const auto reason = objection(req, listener->options.type, max_path_mtu))
    return refuse(*reason);
  if (listener->options.protected_only && from.association == kClear)
    return refuse(CmRejectReason::kUnsupportedRequest);
  if (!may_open(*listener, from)) return refuse(CmRejectReason::kNoResources);
  Connection& c = take_request(from, mad, req, *listener);
  c.remote_port = origin.port;
  keep(c.opening, req.private_data, origin.header);
  return Drop::kNone;
}

std::uint8_t Manager::limit_ack_timeout(std::uint8_t code) const noexcept {
  if (code == 0) return ack_timeout(options_.packet_life, options_.ack_delay);  // "for ever"
  return std::min(code, options_.ack_timeout_max);
}

bool Manager::may_open(const Listener& listener, const Peer& from) noexcept {
  return !table_.full() && listener.half_open < listener.options.backlog &&
         source_count(from.remote) < std::max(listener.options.backlog / 2, 1U);
}

Connection& Manager::take_request(const Peer& from, const net::CmMad& mad, const net::CmReq& req,
                                  Listener& listener) noexcept {
  Connection& c = *table_.allocate();
  c.owned = true;
  c.state = State::kReqReceived;
  c.listener = listener.id;
  c.type = type_of(req);
  c.peer = from;
  c.remote_comm_id = req.local_comm_id;
  c.transaction_id = mad.transaction_id;
  c.service_id = req.service_id;
  c.remote_qpn = req.local_qpn;
  c.sq_psn = req.starting_psn;
  c.rq_psn = Psn(random_.u32());
  c.path_mtu = mtu_bytes(req.path_mtu);
  if (c.type == QpType::kRc) {
    c.responder_resources = agree_depth(verbs::kCmReadDepthMax, req.initiator_depth);
    c.initiator_depth = agree_depth(verbs::kCmReadDepthMax, req.responder_resources);
  }
  c.retry_count = req.retry_count;
  c.rnr_retry = req.rnr_retry_count;
  c.ack_timeout = limit_ack_timeout(req.primary.local_ack_timeout);
  c.hop_limit = req.primary.hop_limit == 0 ? c.hop_limit : req.primary.hop_limit;
  c.traffic_class = req.primary.traffic_class & 0xfc;  // the ECN bits are the network's
  c.alternate_offered = req.alternate.local_gid != IpAddress{};
  c.retries_max = std::min(req.max_cm_retries, options_.max_retries);
  c.response_time = cm_time(std::min(req.local_cm_timeout, options_.response_max)) +
                    cm_time(options_.packet_life) * 2;
  table_.index_remote(c);
  enter_half_open(c, listener);
  raise(c, Pending::kConnectRequest);
  return c;
}

Drop Manager::on_repeated_req(Connection& c) noexcept {
  switch (c.state) {
    case State::kReqReceived:  // the application thinks: ask the peer to wait
      answer(
          c.peer, c.transaction_id,
          net::CmMra{
              c.local_comm_id, c.remote_comm_id, CmMessageKind::kReq, options_.service_time, {}});
      return Drop::kCmDuplicate;
    case State::kRepSent:
      send_again(c);
      return Drop::kCmDuplicate;
    case State::kTimeWait:
      if (c.refused) {
        send_again(c);
        return Drop::kCmDuplicate;
      }
      answer(c.peer, c.transaction_id,
             net::CmRej{c.local_comm_id,
                        c.remote_comm_id,
                        CmMessageKind::kReq,
                        0,
                        CmRejectReason::kStaleConnection,
                        {},
                        {}});
      return Drop::kCmRefused;
    default:
      return c.active ? Drop::kCmUnexpected : Drop::kCmDuplicate;
  }
}

Drop Manager::on_rep(const Peer& from, const net::CmMad& mad, const net::CmRep& rep,
                     Received& result, Instant now) noexcept {
  Connection* c = table_.find_local(rep.remote_comm_id);
  if (c == nullptr || !c->active || c->type == QpType::kUd) {
    answer(from, mad.transaction_id,
           net::CmRej{rep.remote_comm_id,
                      rep.local_comm_id,
                      CmMessageKind::kRep,
                      0,
                      CmRejectReason::kInvalidCommId,
                      {},
                      {}});
    return Drop::kCmUnmatched;
  }
  if (c->peer != from) return Drop::kCmWrongPeer;
  if (c->state != State::kReqSent) {
    if (rep.local_comm_id != c->remote_comm_id) return Drop::kCmUnexpected;
    const bool repeat = c->state == State::kEstablished ||  // the RTU was lost
                        (c->state == State::kTimeWait && c->refused);
    if (repeat) send_again(*c);
    return Drop::kCmDuplicate;
  }
  if (rep.local_comm_id == 0 || !is_data_qpn(rep.local_qpn)) return Drop::kBadCmMessage;
  if (Connection* old = table_.find_qpn(from, rep.local_qpn)) {
    end_stale(*old, now);
    c->remote_comm_id = rep.local_comm_id;
    table_.index_remote(*c);
    send_rej(*c, CmMessageKind::kRep, CmRejectReason::kStaleConnection);
    c->reason = verbs::CmReason::kStale;
    raise(*c, Pending::kUnreachable);
    enter_time_wait(*c, now);
    return Drop::kCmRefused;
  }
  c->remote_comm_id = rep.local_comm_id;
  c->remote_qpn = rep.local_qpn;
  c->sq_psn = rep.starting_psn;
  // A peer that claims more than we offered or asked for gets what we offered.
  c->responder_resources = agree_depth(c->responder_resources, rep.initiator_depth);
  c->initiator_depth = agree_depth(c->initiator_depth, rep.responder_resources);
  c->rnr_retry = rep.rnr_retry_count;
  c->ack_timeout = limit_ack_timeout(ack_timeout(options_.packet_life, rep.target_ack_delay));
  keep(c->opening, rep.private_data);
  table_.index_remote(*c);
  timers_.disarm(*c);
  c->state = State::kRepReceived;
  result.replied = c->id;
  return Drop::kNone;
}

Drop Manager::on_rtu(const Peer& from, const net::CmRtu& rtu) noexcept {
  Drop reason;
  Connection* c = match(from, rtu.remote_comm_id, rtu.local_comm_id, reason);
  if (c == nullptr) return reason;
  if (c->state == State::kRepSent) {
    enter_established(*c);
    return Drop::kNone;
  }
  return c->active || c->state == State::kReqReceived ? Drop::kCmUnexpected : Drop::kCmDuplicate;
}

Drop Manager::on_rej(const Peer& from, const net::CmRej& rej, Instant now) noexcept {
  // Who gave up a REQ may not know our ID yet.
  Connection* c = rej.remote_comm_id != 0 ? table_.find_local(rej.remote_comm_id)
                                          : table_.find_remote(from, rej.local_comm_id, false);
  if (c == nullptr || c->type == QpType::kUd) return Drop::kCmUnmatched;
  if (c->peer != from) return Drop::kCmWrongPeer;
  if (c->remote_comm_id != 0 && rej.local_comm_id != c->remote_comm_id) return Drop::kCmUnmatched;
  const auto note = [&] {
    c->reason = static_cast<verbs::CmReason>(rej.reason);
    keep(c->ending, rej.private_data);
  };
  switch (c->state) {
    case State::kReqSent:
    case State::kReqReceived:
      note();
      raise(*c, Pending::kRejected);
      close(*c);
      return Drop::kNone;
    case State::kRepReceived:
    case State::kRepSent:
      note();
      raise(*c, Pending::kRejected);
      enter_time_wait(*c, now);
      return Drop::kNone;
    case State::kEstablished:
    case State::kDreqSent:
      if (rej.remote_comm_id == 0) return Drop::kCmUnexpected;
      note();
      raise(*c, Pending::kDisconnected);
      enter_time_wait(*c, now);
      return Drop::kNone;
    default:
      return Drop::kCmDuplicate;
  }
}

Drop Manager::on_mra(const Peer& from, const net::CmMra& mra, Instant now) noexcept {
  Connection* c = table_.find_local(mra.remote_comm_id);
  if (c == nullptr || c->type == QpType::kUd) return Drop::kCmUnmatched;
  if (c->peer != from) return Drop::kCmWrongPeer;
  if (c->remote_comm_id != 0 && mra.local_comm_id != c->remote_comm_id) return Drop::kCmUnmatched;
  const bool fits = (c->state == State::kReqSent && mra.message == CmMessageKind::kReq) ||
                    (c->state == State::kRepSent && mra.message == CmMessageKind::kRep);
  if (!fits || c->waits_left == 0) return Drop::kCmUnexpected;
  --c->waits_left;
  timers_.arm(*c, now + cm_time(std::min(mra.service_timeout, options_.service_max)) +
                      cm_time(options_.packet_life) * 2);
  return Drop::kNone;
}

// ---- disconnecting ----

Drop Manager::on_dreq(const Peer& from, const net::CmMad& mad, const net::CmDreq& dreq,
                      Instant now) noexcept {
  Drop reason;
  Connection* c = match(from, dreq.remote_comm_id, dreq.local_comm_id, reason);
  const net::CmDrep drep{dreq.remote_comm_id, dreq.local_comm_id, {}};
  if (c == nullptr) {  // forgotten, or never known: let the peer forget it as well
    if (reason == Drop::kCmUnmatched) answer(from, mad.transaction_id, drep);
    return reason;
  }
  if (dreq.remote_qpn != c->local_qpn) return Drop::kBadCmMessage;
  switch (c->state) {
    case State::kRepSent:  // the RTU was lost
      enter_established(*c);
      [[fallthrough]];
    case State::kEstablished:
    case State::kDreqSent:  // both at once
      keep(c->ending, dreq.private_data);
      raise(*c, Pending::kDisconnected);
      answer(from, mad.transaction_id, drep);
      enter_time_wait(*c, now);
      return Drop::kNone;
    case State::kTimeWait:
      answer(from, mad.transaction_id, drep);
      return Drop::kCmDuplicate;
    default:
      return Drop::kCmUnexpected;
  }
}

Drop Manager::on_drep(const Peer& from, const net::CmDrep& drep, Instant now) noexcept {
  Drop reason;
  Connection* c = match(from, drep.remote_comm_id, drep.local_comm_id, reason);
  if (c == nullptr) return reason;
  if (c->state != State::kDreqSent)
    return c->state == State::kTimeWait ? Drop::kCmDuplicate : Drop::kCmUnexpected;
  raise(*c, Pending::kDisconnected);
  enter_time_wait(*c, now);
  return Drop::kNone;
}

/// Our side of a connection that the peer knows nothing of any more.
void Manager::end_stale(Connection& c, Instant now) noexcept {
  c.reason = verbs::CmReason::kStale;
  switch (c.state) {
    case State::kEstablished:
      c.transaction_id = random_.u64();
      send_dreq(c, {});
      raise(c, Pending::kDisconnected);
      return enter_time_wait(c, now);
    case State::kDreqSent:
      raise(c, Pending::kDisconnected);
      return enter_time_wait(c, now);
    case State::kReqReceived:
      raise(c, Pending::kRejected);
      return close(c);
    default:  // kRepSent, kRepReceived
      raise(c, c.active ? Pending::kUnreachable : Pending::kRejected);
      return enter_time_wait(c, now);
  }
}

Drop Manager::on_lap(const Peer& from, const net::CmMad& mad, const net::CmLap& lap) noexcept {
  Drop reason;
  Connection* c = match(from, lap.remote_comm_id, lap.local_comm_id, reason);
  if (c == nullptr) return reason;
  net::CmApr apr;
  apr.local_comm_id = c->local_comm_id;
  apr.remote_comm_id = c->remote_comm_id;
  answer(from, mad.transaction_id, apr);
  return Drop::kCmRefused;
}

// ---- datagram services ----

Drop Manager::on_sidr_req(const Peer& from, const net::CmMad& mad,
                          const net::CmSidrReq& req) noexcept {
  if (Connection* c = table_.find_remote(from, req.request_id, true)) {
    if (c->state == State::kSidrDone) send_again(*c);
    return Drop::kCmDuplicate;
  }
  if (req.request_id == 0) return Drop::kBadCmMessage;
  const Origin origin = check_origin(from, req.service_id, req.private_data);
  if (origin.drop != Drop::kNone) return origin.drop;
  Listener* listener = find_listener(req.service_id, from.local);
  const bool serves = listener != nullptr && listener->options.type == QpType::kUd &&
                      (from.association != kClear || !listener->options.protected_only);
  if (!serves || !may_open(*listener, from)) {
    net::CmSidrRep rep;
    rep.request_id = req.request_id;
    rep.status = serves ? net::CmSidrStatus::kNoQp : net::CmSidrStatus::kUnsupportedService;
    rep.service_id = req.service_id;
    answer(from, mad.transaction_id, rep);
    return Drop::kCmRefused;
  }
  Connection& c = *table_.allocate();
  c.owned = true;
  c.state = State::kSidrReqReceived;
  c.listener = listener->id;
  c.type = QpType::kUd;
  c.peer = from;
  c.remote_comm_id = req.request_id;
  c.transaction_id = mad.transaction_id;
  c.service_id = req.service_id;
  c.remote_port = origin.port;
  keep(c.opening, req.private_data, origin.header);
  table_.index_remote(c);
  enter_half_open(c, *listener);
  raise(c, Pending::kConnectRequest);
  return Drop::kNone;
}

Drop Manager::on_sidr_rep(const Peer& from, const net::CmSidrRep& rep) noexcept {
  Connection* c = table_.find_local(rep.request_id);
  if (c == nullptr || c->type != QpType::kUd || !c->active) return Drop::kCmUnmatched;
  if (c->peer != from) return Drop::kCmWrongPeer;
  if (c->state != State::kSidrReqSent) return Drop::kCmDuplicate;
  const bool ok = rep.status == net::CmSidrStatus::kOk;
  if (rep.service_id != c->service_id || (ok && !is_data_qpn(rep.qpn))) return Drop::kBadCmMessage;
  if (ok) {
    c->remote_qpn = rep.qpn;
    c->remote_qkey = rep.qkey;
    keep(c->opening, rep.private_data);
    raise(*c, Pending::kEstablished);
  } else {
    c->reason = static_cast<verbs::CmReason>(0x100 + static_cast<unsigned>(rep.status));
    keep(c->ending, rep.private_data);
    raise(*c, Pending::kRejected);
  }
  close(*c);
  return Drop::kNone;
}

}  // namespace h4a::roce::cm
