// Verbs: the objects and records that applications, HTTP/4A and every home share.
// Spec: IBA vol. 1 chapters 10 and 11; names follow libibverbs where it has one.
//
// Addresses are virtual addresses of the application; numbers are host order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/address.h"
#include "base/esp_suite.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/secret.h"
#include "base/serial.h"

namespace h4a::verbs {

using PdId = StrongId<struct PdTag, std::uint32_t>;
using MrId = StrongId<struct MrTag, std::uint32_t>;
using MwId = StrongId<struct MwTag, std::uint32_t>;
using CqId = StrongId<struct CqTag, std::uint32_t>;
using AhId = StrongId<struct AhTag, std::uint32_t>;

/// kGsi is QP 1, for management datagrams: a kUd with fixed number and Q_Key. Spec: IBA vol. 1 §13.5.
enum class QpType : std::uint8_t { kRc, kUc, kUd, kGsi };
[[nodiscard]] constexpr bool is_datagram(QpType t) noexcept {
  return t == QpType::kUd || t == QpType::kGsi;
}

inline constexpr Qpn kGsiQpn{1};
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;
/// Where a datagram for a multicast group goes. Spec: IBA vol. 1 §9.4.2.
inline constexpr Qpn kMulticastQpn{0xff'ffff};
/// In a datagram work request: send the queue pair's own Q_Key. Spec: IBA vol. 1 §10.2.5.
inline constexpr std::uint32_t kOwnQkey = 0x8000'0000;
/// Bytes in front of each received datagram: the IPv6 header, or 20 undefined bytes and the IPv4
/// header. Spec: IBA vol. 1 §11.4.1.2, annex A17.4.5.
inline constexpr std::size_t kGrhBytes = 40;

/// Spec: IBA vol. 1 §10.3.1.
enum class QpState : std::uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kError };

/// Rights, a bit set. Spec: IBA vol. 1 §10.6.3.1.
enum class Access : std::uint8_t {
  kNone = 0,
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kWindowBind = 16,
};
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// True if every right of `wanted` is in `held`.
[[nodiscard]] constexpr bool allows(Access held, Access wanted) noexcept {
  return (static_cast<unsigned>(held) & static_cast<unsigned>(wanted)) ==
         static_cast<unsigned>(wanted);
}

struct MemoryRegion {
  MrId id;
  Lkey lkey;
  Rkey rkey;  // random; 0 if the region has no remote right
};

/// A type 2 memory window. It has no rights until a kBindWindow work request gave it a range and a key.
struct MemoryWindow {
  MwId id;
};

/// What became of a window. Coverage answers "how much did the peer really write" (DESIGN D6).
struct WindowStatus {
  enum class State : std::uint8_t {
    kFree,         // never bound
    kValid,        // bound: the peer can use it
    kRetired,      // bound, but WRITEs are acknowledged and discarded (DESIGN D4)
    kInvalidated,  // the key is dead; coverage still tells what arrived
  };
  State state = State::kFree;
  Rkey rkey;
  /// Bytes from the start of the window that were placed without a hole. Survives invalidation, until
  /// the next bind.
  std::uint64_t contiguous_bytes = 0;
  /// The peer, not we, invalidated it (SEND with Invalidate).
  bool by_peer = false;
};

/// Where datagrams go and how. Spec: IBA vol. 1 §11.2.2.1.
struct AhAttributes {
  IpAddress local_address{};   // one of the stack's own
  IpAddress remote_address{};  // of a host or of a multicast group
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint8_t priority = 0;    // 802.1Q, 0..7; 0: no tag
  AssociationId association{};  // kClear: in the clear
};

struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  Lkey lkey;
};

enum class WrOpcode : std::uint8_t {
  kSend,
  kSendWithImm,
  kSendWithInvalidate,
  kRdmaWrite,
  kRdmaWriteWithImm,
  kRdmaRead,
  kBindWindow,
  kLocalInvalidate,
};

/// A send-queue work request. Work requests of one QP start in order and complete in order.
struct SendWr {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = true;    // false: no completion on success
  bool solicited = false;  // sets the solicited event bit of the last packet
  bool fence = false;      // waits for earlier RDMA READs of this QP
  std::uint8_t sge_count = 0;
  Sge sges[kSgeMax] = {};
  std::uint32_t imm = 0;  // k…WithImm
  Rkey invalidate_rkey;   // kSendWithInvalidate (the peer's key), kLocalInvalidate (ours)
  std::uint64_t remote_address = 0;  // RDMA
  Rkey rkey;  // RDMA: the peer's key. kBindWindow: the new key, from fresh_rkey()
  // Datagrams: where this one goes. `remote_qkey` with kOwnQkey in it stands for the QP's own.
  AhId ah;
  Qpn remote_qpn;
  std::uint32_t remote_qkey = 0;
  // kBindWindow: `window` gets [bind_address, +bind_length) of `region`, for this QP alone.
  MwId window;
  MrId region;
  std::uint64_t bind_address = 0;
  std::uint64_t bind_length = 0;
  Access bind_access = Access::kNone;
};

struct RecvWr {
  std::uint64_t wr_id = 0;
  std::uint8_t sge_count = 0;
  Sge sges[kSgeMax] = {};
};

/// Spec: IBA vol. 1 §11.6.2; the numbers are those of ibv_wc_status.
enum class CompletionStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalProtection = 4,
  kFlushed = 5,
  kWindowBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
};
[[nodiscard]] std::string_view to_string(CompletionStatus s) noexcept;

enum class CompletionOpcode : std::uint8_t {
  kSend,
  kRdmaWrite,
  kRdmaRead,
  kBindWindow,
  kLocalInvalidate,
  kRecv,
  kRecvRdmaWithImm,
};

struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;  // undefined unless kSuccess
  bool has_imm = false;
  bool has_invalidate = false;  // the peer invalidated `invalidated_rkey` with this SEND
  bool solicited = false;
  Qpn qpn;
  std::uint32_t byte_len = 0;  // receives and reads: bytes placed, pad excluded
  std::uint32_t imm = 0;
  Rkey invalidated_rkey;
  // Received datagrams: who sent it, and the first kGrhBytes of the buffer tell from where
  // (verbs/datagram.h makes the address of a reply from it); byte_len counts them.
  Qpn source_qpn;
  std::uint16_t pkey = 0;
  bool has_grh = false;
  bool grh_is_ipv4 = false;   // the IPv4 header is in the last 20 of those bytes
  AssociationId association;  // that it came through
};

struct QpOptions {
  QpType type = QpType::kRc;
  PdId pd{};
  CqId send_cq{};
  CqId recv_cq{};
  std::uint32_t max_send_wr = 64;
  std::uint32_t max_recv_wr = 64;
};

/// RESET → INIT. Spec: IBA vol. 1 §11.2.5.2.
struct InitAttributes {
  Access access = Access::kNone;  // which remote rights this QP honours at all
  std::uint16_t pkey = 0xffff;
  std::uint32_t qkey = 0;  // kUd: what a datagram for this QP must carry
};

/// INIT → RTR: the responder can receive. Of a datagram QP only `path_mtu`, the longest datagram that
/// it sends, and `association` matter.
struct RtrAttributes {
  IpAddress local_address{};  // one of the stack's own
  IpAddress remote_address{};
  Qpn remote_qpn{};
  Psn rq_psn{};                          // the peer's starting PSN
  std::uint16_t path_mtu = 1024;         // 256, 512, 1024, 2048 or 4096 payload bytes
  std::uint8_t max_dest_rd_atomic = 16;  // RDMA READs we serve at a time
  std::uint8_t min_rnr_timer = 12;       // code of the RNR NAK timer table; 12 is 0.64 ms
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint8_t priority = 0;  // 802.1Q, 0..7; 0: no tag
  /// kClear: packets travel in the clear. Otherwise they leave through this association, and a packet
  /// that did not come through it is dropped and counted (DESIGN D3).
  AssociationId association{};
};

/// RTR → RTS: the requester can send.
struct RtsAttributes {
  Psn sq_psn{};
  std::uint8_t timeout = 14;        // local ACK timeout, 4.096 µs × 2^timeout; 0 waits for ever
  std::uint8_t retry_count = 7;     // transport retries, 0..7
  std::uint8_t rnr_retry = 7;       // RNR retries, 0..6; 7 is for ever
  std::uint8_t max_rd_atomic = 16;  // RDMA READs we have outstanding at a time
};

/// What protects a pair of hosts (DESIGN D3): a lineage of SAs.
struct AssociationOptions {
  IpAddress local_address;
  IpAddress remote_address;
};

enum class SaDirection : std::uint8_t { kInbound, kOutbound };

struct SaOptions {
  SaDirection direction = SaDirection::kInbound;
  Spi spi;
  EspSuite suite = EspSuite::kAesGcm128;
  Secret<kEspKeyMaterialMax> key;  // key then salt, key_material_size(suite) bytes
  bool esn = true;
  std::uint32_t replay_window = 16384;  // packets; inbound
};

struct AsyncEvent {
  enum class Type : std::uint8_t { kQpFatal, kCqOverrun, kSaSoftLimit, kSaHardLimit };
  Type type = Type::kQpFatal;
  Qpn qpn;
  CqId cq;
  AssociationId association;
};

}  // namespace h4a::verbs
