// What the connection manager sends. Spec: IBA vol. 1 §12.6; annex A11 for the private data.
#include <algorithm>

#include "roce/cm/manager.h"
#include "roce/cm/negotiate.h"

namespace h4a::roce::cm {
namespace {

using net::CmMessageKind;
using net::CmRejectReason;

constexpr std::uint16_t kPkey = 0xffff;
/// REP: "alternate path not supported". Spec: IBA vol. 1 §12.6.8.
constexpr std::uint8_t kFailoverUnsupported = 1;

template <std::size_t N>
void put(net::PrivateData<N>& field, Bytes data, std::size_t at = 0) noexcept {
  std::copy_n(data.begin(), std::min(data.size(), N - at),
              field.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

void Manager::push(const Peer& to, const net::MadBytes& mad) noexcept {
  if (!outputs_.push(Output{to, mad})) drops_.add(Drop::kCmOutputFull);
}

void Manager::send(Connection& c, const net::CmMessage& message) noexcept {
  net::build_cm({c.transaction_id, 0, message}, c.last);
  push(c.peer, c.last);
}

void Manager::answer(const Peer& to, std::uint64_t transaction_id,
                     const net::CmMessage& message) noexcept {
  net::MadBytes mad;
  net::build_cm({transaction_id, 0, message}, mad);
  push(to, mad);
}

void Manager::send_req(Connection& c, const verbs::CmConnectOptions& o) noexcept {
  net::CmReq m;
  m.local_comm_id = c.local_comm_id;
  m.service_id = c.service_id;
  m.local_ca_guid = options_.ca_guid;
  m.local_qpn = c.local_qpn;
  m.responder_resources = c.responder_resources;
  m.initiator_depth = c.initiator_depth;
  m.remote_cm_timeout = options_.response_time;
  m.transport = c.type == verbs::QpType::kUc ? net::CmTransport::kUc : net::CmTransport::kRc;
  m.starting_psn = c.rq_psn;
  m.local_cm_timeout = options_.response_time;
  m.retry_count = c.retry_count;
  m.pkey = kPkey;
  m.path_mtu = mtu_code(c.path_mtu);
  m.rnr_retry_count = o.qp.rnr_retry;
  m.max_cm_retries = options_.max_retries;
  m.primary.local_lid = m.primary.remote_lid = net::kPermissiveLid;
  m.primary.local_gid = c.peer.local;
  m.primary.remote_gid = c.peer.remote;
  m.primary.traffic_class = c.traffic_class;
  m.primary.hop_limit = c.hop_limit;
  m.primary.local_ack_timeout = ack_timeout(options_.packet_life, options_.ack_delay);
  net::IpCmHeader{o.source_port, c.peer.local, c.peer.remote}.build(m.private_data.data());
  put(m.private_data, o.private_data, net::IpCmHeader::kSize);
  send(c, m);
}

void Manager::send_sidr_req(Connection& c, const verbs::CmConnectOptions& o) noexcept {
  net::CmSidrReq m;
  m.request_id = c.local_comm_id;
  m.pkey = kPkey;
  m.service_id = c.service_id;
  net::IpCmHeader{o.source_port, c.peer.local, c.peer.remote}.build(m.private_data.data());
  put(m.private_data, o.private_data, net::IpCmHeader::kSize);
  send(c, m);
}

void Manager::send_rep(Connection& c, const verbs::CmAcceptOptions& o) noexcept {
  net::CmRep m;
  m.local_comm_id = c.local_comm_id;
  m.remote_comm_id = c.remote_comm_id;
  m.local_qpn = c.local_qpn;
  m.starting_psn = c.rq_psn;
  m.responder_resources = c.responder_resources;
  m.initiator_depth = c.initiator_depth;
  m.target_ack_delay = options_.ack_delay;
  m.failover = c.alternate_offered ? kFailoverUnsupported : std::uint8_t{0};
  m.rnr_retry_count = o.qp.rnr_retry;
  m.local_ca_guid = options_.ca_guid;
  put(m.private_data, o.private_data);
  send(c, m);
}

void Manager::send_dreq(Connection& c, Bytes private_data) noexcept {
  net::CmDreq m;
  m.local_comm_id = c.local_comm_id;
  m.remote_comm_id = c.remote_comm_id;
  m.remote_qpn = c.remote_qpn;
  put(m.private_data, private_data);
  send(c, m);
}

void Manager::send_rej(Connection& c, CmMessageKind message, CmRejectReason reason,
                       Bytes private_data) noexcept {
  net::CmRej m;
  m.local_comm_id = c.local_comm_id;
  m.remote_comm_id = c.remote_comm_id;
  m.message = message;
  m.reason = reason;
  if (reason ==
      CmRejectReason::kTimeout) {  // says whose request it was, for a peer that lost the ID
    m.info_length = 8;
    store_be<8>(m.info.data(), options_.ca_guid);
  }
  put(m.private_data, private_data);
  c.refused = true;
  send(c, m);
}

void Manager::send_sidr_rep(Connection& c, net::CmSidrStatus status, std::uint32_t qkey,
                            Bytes private_data) noexcept {
  net::CmSidrRep m;
  m.request_id = c.remote_comm_id;
  m.status = status;
  m.qpn = c.local_qpn;
  m.service_id = c.service_id;
  m.qkey = qkey;
  put(m.private_data, private_data);
  send(c, m);
}

}  // namespace h4a::roce::cm
