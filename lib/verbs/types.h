// Verbs: the objects and records that applications, HTTP/4A and every home share.
// Spec: IBA vol. 1 chapters 10 and 11; names follow libibverbs where it has one.
//
// Addresses are virtual addresses of the application; numbers are host order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
using SrqId = StrongId<struct SrqTag, std::uint32_t>;

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

/// A memory window. It has no rights until a work request gave it a range and a key. Type 2 is bound by
/// kBindWindow to one QP, with a key from fresh_rkey(). Type 1 is bound by bind_window(), with a key
/// that the device chooses, and then serves every QP of its PD. Spec: IBA vol. 1 §10.6.7.
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

/// For bind_window(): a type 1 window over [address, +length) of `region`. A window that is bound
/// moves there, its old key dies. Length 0 unbinds it.
struct WindowBind {
  std::uint64_t wr_id = 0;
  bool signaled = true;
  MwId window;
  MrId region;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Access access = Access::kNone;
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
  kCompareSwap,  // the eight bytes at remote_address, a multiple of eight
  kFetchAdd,     // the same; the old value comes back into eight bytes of `sges`
  kFastRegister,
};

/// A send-queue work request. Work requests of one QP start in order and complete in order.
struct SendWr {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  bool signaled = true;    // false: no completion on success
  bool solicited = false;  // sets the solicited event bit of the last packet
  bool fence = false;      // waits for earlier RDMA READs and atomics of this QP
  /// The payload is copied by post_send(), which then needs its memory no longer, nor its lkeys. SENDs
  /// and WRITEs of at most QpOptions::max_inline bytes.
  bool inlined = false;
  std::uint8_t sge_count = 0;
  Sge sges[kSgeMax] = {};
  std::uint32_t imm = 0;  // k…WithImm
  Rkey invalidate_rkey;   // kSendWithInvalidate (the peer's key), kLocalInvalidate (ours)
  std::uint64_t remote_address = 0;  // RDMA and atomics
  // Atomics. kCompareSwap: `swap` replaces the value if it is `compare_add`. kFetchAdd: `compare_add`
  // is added, modulo 2^64. The value in the peer's memory is a number in that host's byte order.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  Rkey rkey;  // RDMA, atomics: the peer's key. kBindWindow: the new key, from fresh_rkey()
  // Datagrams: where this one goes. `remote_qkey` with kOwnQkey in it stands for the QP's own.
  AhId ah;
  Qpn remote_qpn;
  std::uint32_t remote_qkey = 0;
  // kBindWindow: `window` gets [bind_address, +bind_length) of `region`, for this QP alone.
  // kFastRegister: `region`, from alloc_fast_region(), covers [bind_address, +bind_length) from now
  // on, until a kLocalInvalidate of its key. `rkey` is its next key: the present one with any other
  // low byte. Rights are `bind_access`, local ones among them.
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
  kCompareSwap,
  kFetchAdd,
  kFastRegister,
};

struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;  // undefined unless kSuccess
  bool has_imm = false;
  bool has_invalidate = false;  // the peer invalidated `invalidated_rkey` with this SEND
  bool solicited = false;
  Qpn qpn;
  std::uint32_t byte_len = 0;  // receives, reads and atomics: bytes placed, pad excluded
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
  /// Receives come from this shared receive queue; max_recv_wr is then not used. 0: from its own.
  SrqId srq{};
  std::uint32_t max_inline = 0;  // bytes, 0..kInlineMax
};

/// Most bytes that SendWr::inlined takes.
inline constexpr std::uint32_t kInlineMax = 1024;

/// A shared receive queue: QPs take receive work requests from it as messages begin.
/// Spec: IBA vol. 1 §10.2.9.
struct SrqOptions {
  PdId pd;  // whose regions its receives name
  std::uint32_t max_wr = 64;
  /// kSrqLimitReached is raised once when fewer than this many are left; 0: never.
  std::uint32_t limit = 0;
};

struct SrqStatus {
  std::uint32_t max_wr = 0;
  std::uint32_t limit = 0;  // 0 again after the event
  std::uint32_t used = 0;   // work requests that no message has taken yet
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
  std::uint8_t max_dest_rd_atomic = 16;  // RDMA READs and atomics we serve at a time
  std::uint8_t min_rnr_timer = 12;       // code of the RNR NAK timer table; 12 is 0.64 ms
  /// ACKs say how many receives are posted (IBA vol. 1 §9.7.7.2), so that a requester that counts
  /// them is not refused. Off, they say "no credits are counted", as NICs do. Never for an SRQ.
  bool end_to_end_credits = false;
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
  std::uint8_t max_rd_atomic = 16;  // RDMA READs and atomics we have outstanding at a time
};

/// What modify_qp() changes without a change of state; what is not set stays.
/// Spec: IBA vol. 1 §11.2.5.2.
struct QpUpdate {
  std::optional<Access> access{};               // RTR, RTS, SQD
  std::optional<std::uint8_t> min_rnr_timer{};  // RTR, RTS, SQD
  // SQD alone, once it has drained.
  std::optional<std::uint8_t> timeout{};
  std::optional<std::uint8_t> retry_count{};
  std::optional<std::uint8_t> rnr_retry{};
  std::optional<std::uint8_t> max_rd_atomic{};
  std::optional<std::uint8_t> max_dest_rd_atomic{};
  std::optional<std::uint16_t> pkey{};
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
  enum class Type : std::uint8_t {
    kQpFatal,
    kCqOverrun,
    kSaSoftLimit,
    kSaHardLimit,
    kSrqLimitReached,  // `srq` holds fewer receives than its limit; the limit is 0 now
    kLastWqeReached,   // `qpn` is in ERROR and takes no more receives from `srq`
    kCommEstablished,  // `qpn` in RTR heard its peer for the first time
    kSqDrained,        // `qpn` in SQD: all that was begun is acknowledged
  };
  Type type = Type::kQpFatal;
  Qpn qpn{};
  CqId cq{};
  AssociationId association{};
  SrqId srq{};
};

}  // namespace h4a::verbs
