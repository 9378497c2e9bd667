// ConnectionManager: how applications connect queue pairs by address and port, in the manner of
// rdma_cm: identifiers, calls and events. Spec: IBA vol. 1 chapter 12, annex A11.
//
// Connected service (RC, UC). The application makes a QP, brings it to INIT and posts receives. Then
//   connect(): the QP goes to RTR and RTS by itself when the peer accepted; event kEstablished.
//   listen(), event kConnectRequest, accept() with such a QP; event kEstablished.
// Either side ends it by disconnect(); both get kDisconnected. The connection manager leaves the QP
// alone then: its owner moves it to ERROR to flush what is outstanding, or destroys it.
// Datagram service (UD). connect() asks for the queue pair number and Q_Key behind an address and
// port, which kEstablished brings; accept() tells them. Nothing is connected, so nothing ends.
//
// Every id that connect() or kConnectRequest brought is the application's until destroy(). What an id
// goes through: connect → exactly one of {kEstablished, kRejected, kUnreachable}; kConnectRequest and
// accept() → exactly one of {kEstablished, kRejected, kUnreachable}; after kEstablished exactly one
// kDisconnected. destroy() at any time ends this, with due notice to the peer.
//
// Private data of any CM message has a fixed size on the wire: what is sent is filled up with zeros,
// and what is received includes them. Nobody authenticates it unless an association protects it.
//
// Thread: that of the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/types.h"

namespace h4a::verbs {

using CmId = StrongId<struct CmTag, std::uint32_t>;
using CmListenerId = StrongId<struct CmListenerTag, std::uint32_t>;

/// Bytes of private data that the application can send with each call.
inline constexpr std::size_t kCmConnectPrivateMax = 56;
inline constexpr std::size_t kCmAcceptPrivateMax = 196;
inline constexpr std::size_t kCmRejectPrivateMax = 148;
inline constexpr std::size_t kCmDisconnectPrivateMax = 220;
inline constexpr std::size_t kCmUdConnectPrivateMax = 180;
inline constexpr std::size_t kCmUdAcceptPrivateMax = 136;

/// READs and atomics that a side may have outstanding or serves at a time.
inline constexpr std::uint8_t kCmReadDepthMax = 16;
/// Q_Key of datagram services that name no other, as rdma_cm has it.
inline constexpr std::uint32_t kCmDefaultQkey = 0x0123'4567;

struct CmListenOptions {
  QpType type = QpType::kRc;  // kRc and kUc share a port space, kUd has its own
  IpAddress local_address;    // one of the device's own; unspecified: any
  std::uint16_t port = 0;     // 1..65535
  /// Requests that wait for accept() or reject() and connections that are not established yet; more
  /// are refused for lack of resources. A quarter of them may come from one address.
  std::uint32_t backlog = 64;
  /// Requests that did not come through an association are refused.
  bool protected_only = false;
};

/// What both sides say about their queue pair.
struct CmQpParameters {
  Qpn qpn;  // in INIT; kUd: in RTS
  /// READs that we serve, and that we send, at a time. Each is cut down to what the peer offers.
  std::uint8_t responder_resources = kCmReadDepthMax;
  std::uint8_t initiator_depth = kCmReadDepthMax;
  std::uint8_t rnr_retry = 7;           // what the peer does with our RNR NAKs; 7: for ever
  std::uint8_t min_rnr_timer = 12;      // code that our RNR NAKs carry
  std::uint32_t qkey = kCmDefaultQkey;  // kUd: what accept() tells
};

struct CmConnectOptions {
  QpType type = QpType::kRc;
  IpAddress local_address;
  IpAddress remote_address;
  std::uint16_t port = 0;         // the listener's
  std::uint16_t source_port = 0;  // told to the peer; 0: a random one
  AssociationId association;      // kClear: messages and data travel in the clear
  CmQpParameters qp;
  std::uint16_t path_mtu = 0;  // 0: the largest that the port carries
  std::uint8_t retry_count = 7;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  Bytes private_data;
};

struct CmAcceptOptions {
  CmQpParameters qp;
  Bytes private_data;
};

/// Received private data, with the zeros that fill it up.
struct CmPrivateData {
  std::array<std::uint8_t, 224> bytes{};
  std::uint8_t size = 0;
  [[nodiscard]] Bytes view() const noexcept { return Bytes(bytes).first(size); }
};

/// Why kRejected, kUnreachable or kDisconnected came about. Values without a name here are other
/// reason codes of IBA vol. 1 table 109; those of UD are 0x100 + the status of table 121.
enum class CmReason : std::uint16_t {
  kNone = 0,
  kNoResources = 3,
  kTimeout = 4,
  kNobodyListens = 8,
  kWrongType = 9,
  kStale = 10,
  kMtu = 26,
  kRefused = 28,
  kNoUdService = 0x101,
  kUdRefused = 0x102,
  kLocalQp = 0x200,  // our own queue pair refused what the peer asked for
};
/// For people.
[[nodiscard]] constexpr std::string_view to_string(CmReason reason) noexcept {
  switch (reason) {
    case CmReason::kNone:
      return "none";
    case CmReason::kNoResources:
      return "the peer has no resources for it";
    case CmReason::kTimeout:
      return "no answer";
    case CmReason::kNobodyListens:
      return "nobody listens on this port";
    case CmReason::kWrongType:
      return "the service is of another transport type";
    case CmReason::kStale:
      return "stale connection";
    case CmReason::kMtu:
      return "the path MTU is too large for the peer";
    case CmReason::kRefused:
      return "the application refused";
    case CmReason::kNoUdService:
      return "nobody offers this datagram service";
    case CmReason::kUdRefused:
      return "the application refused";
    case CmReason::kLocalQp:
      return "the queue pair does not take the peer's parameters";
  }
  return "refused for another reason";
}

struct CmEvent {
  enum class Type : std::uint8_t {
    kConnectRequest,  // answer by accept() or reject()
    kEstablished,
    kRejected,      // the peer said no, or gave up
    kUnreachable,   // no answer from the peer, or the queue pair refused the peer's parameters
    kDisconnected,  // by either side
  };
  Type type = Type::kConnectRequest;
  CmId id;
  CmListenerId listener;  // kConnectRequest
  QpType qp_type = QpType::kRc;
  IpAddress local_address;
  IpAddress remote_address;
  std::uint16_t remote_port = 0;  // as the peer says; 0 if it does not
  AssociationId association;      // that messages come through
  /// kConnectRequest: READs the peer serves and wants to send. kEstablished: what was agreed, as we
  /// see it.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint16_t path_mtu = 0;
  // kEstablished
  Qpn remote_qpn;
  std::uint32_t remote_qkey = 0;  // kUd
  CmReason reason = CmReason::kNone;
  CmPrivateData private_data;
};
[[nodiscard]] constexpr std::string_view to_string(CmEvent::Type type) noexcept {
  switch (type) {
    case CmEvent::Type::kConnectRequest:
      return "connect_request";
    case CmEvent::Type::kEstablished:
      return "established";
    case CmEvent::Type::kRejected:
      return "rejected";
    case CmEvent::Type::kUnreachable:
      return "unreachable";
    case CmEvent::Type::kDisconnected:
      return "disconnected";
  }
  return "unknown";
}

class ConnectionManager {
 public:
  virtual ~ConnectionManager() = default;

  /// @return kExists if the port is taken, kInvalidArgument, kNoMemory.
  [[nodiscard]] virtual Result<CmListenerId> listen(const CmListenOptions& options) noexcept = 0;
  /// Requests that came already stay.
  [[nodiscard]] virtual Result<void> stop_listening(CmListenerId listener) noexcept = 0;

  /// @return kInvalidArgument (addresses, private data too long, a path MTU that does not fit),
  /// kInvalidState (the QP is not in INIT), kNoMemory.
  [[nodiscard]] virtual Result<CmId> connect(const CmConnectOptions& options) noexcept = 0;
  /// Answers a kConnectRequest. @return kInvalidState if the peer gave up meanwhile (its event is
  /// waiting), and what to_rtr() and to_rts() return; the request is still open then.
  [[nodiscard]] virtual Result<void> accept(CmId id, const CmAcceptOptions& options) noexcept = 0;
  /// Refuses a kConnectRequest (reason "consumer"). No event follows.
  [[nodiscard]] virtual Result<void> reject(CmId id, Bytes private_data) noexcept = 0;
  /// @return kInvalidState unless the connection is established or just accepted.
  [[nodiscard]] virtual Result<void> disconnect(CmId id, Bytes private_data) noexcept = 0;
  /// Ends whatever goes on, and forgets the id. Its events that were not read yet are gone.
  [[nodiscard]] virtual Result<void> destroy(CmId id) noexcept = 0;

  /// @return false if no event waits.
  [[nodiscard]] virtual bool poll_event(CmEvent& out) noexcept = 0;
};

}  // namespace h4a::verbs
