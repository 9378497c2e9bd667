// Connection: what the connection manager remembers of one connection, or of one UD resolution.
// Spec: IBA vol. 1 §12.9.5 to §12.9.8 (state diagrams and tables), §12.11 (SIDR).
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <string_view>

#include "base/address.h"
#include "base/ids.h"
#include "base/serial.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "net/cm_messages.h"
#include "verbs/cm.h"

namespace h4a::roce::cm {

/// The two ends of a message or connection: a MAD goes from `local` to `remote` and back through
/// the same association.
struct Peer {
  IpAddress local;
  IpAddress remote;
  AssociationId association;
  friend bool operator==(const Peer&, const Peer&) noexcept = default;
};

enum class State : std::uint8_t {
  kReqSent,          // active: waits for REP
  kRepReceived,      // active: waits for the owner of the QP to say ready()
  kReqReceived,      // passive: waits for the application
  kRepSent,          // passive: waits for RTU
  kEstablished,      //
  kDreqSent,         // waits for DREP
  kTimeWait,         // both queue pairs may still have packets in the network
  kSidrReqSent,      // active UD: waits for SIDR_REP
  kSidrReqReceived,  // passive UD: waits for the application
  kSidrDone,         // passive UD: answered; repeats are answered again for a while
  kClosed,           // nothing happens any more; waits for destroy()
};
inline constexpr std::size_t kStateCount = 11;
[[nodiscard]] std::string_view to_string(State state) noexcept;

/// What a side of an RC or UC connection needs for its queue pair. Spec: IBA vol. 1 §12.9.8, tables of
/// the REQ's and REP's fields; names are those of verbs::RtrAttributes and RtsAttributes.
struct QpSettings {
  Qpn qpn;
  verbs::RtrAttributes rtr;
  verbs::RtsAttributes rts;
};

/// An event that the application has not read yet. Bits; read from the lowest up, which is the order
/// in which they come about.
enum class Pending : std::uint8_t {
  kNone = 0,
  kConnectRequest = 1,
  kEstablished = 2,
  kRejected = 4,
  kUnreachable = 8,
  kDisconnected = 16,
};

struct Connection final : TimerNode, boost::intrusive::list_base_hook<> {
  verbs::CmId id;
  State state = State::kClosed;
  bool active = false;
  bool owned = false;      // the application has not destroyed it
  bool half_open = false;  // counted in its listener's backlog
  bool refused = false;    // what was sent last is a REJ
  std::uint8_t pending = 0;
  verbs::CmListenerId listener;  // passive
  verbs::QpType type = verbs::QpType::kRc;
  Peer peer;
  std::uint32_t local_comm_id = 0;  // of UD: the request id, on both sides the asking side's
  std::uint32_t remote_comm_id = 0;
  std::uint64_t transaction_id = 0;
  std::uint64_t service_id = 0;
  std::uint16_t remote_port = 0;

  // The queue pairs.
  Qpn local_qpn;
  Qpn remote_qpn;
  std::uint32_t remote_qkey = 0;  // UD
  // "Starting PSN" of a REQ or REP is the one at which its receiver shall begin to send (§12.7.31).
  Psn rq_psn;  // ours: the peer begins with it
  Psn sq_psn;  // the peer's: we begin with it
  std::uint16_t path_mtu = 0;
  std::uint8_t responder_resources = 0;  // what we serve; a REQ's request until accept()
  std::uint8_t initiator_depth = 0;      // what we send at a time
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  // of our requester: what the peer wishes
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t ack_timeout = 0;  // of our requester
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  bool alternate_offered = false;  // the REQ had an alternate path, which the REP declines

  // Waiting for an answer.
  std::uint8_t retries_left = 0;
  std::uint8_t retries_max = 0;
  std::uint8_t waits_left = 0;  // MRAs that may still put the answer off
  Duration response_time;       // until a message is sent again
  net::MadBytes last{};         // what was sent last, to be sent again
  verbs::CmReason reason = verbs::CmReason::kNone;
  verbs::CmPrivateData opening;  // of the REQ, then of the REP
  verbs::CmPrivateData ending;   // of the REJ or DREQ
};

}  // namespace h4a::roce::cm
