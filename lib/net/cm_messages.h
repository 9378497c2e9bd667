// Messages of communication management: connection set-up for RC and UC, service resolution for UD.
// Spec: IBA vol. 1 §12.6 (tables 106 to 120 in release 1.4); annex A11 (RDMA IP CM service).
//
// Each message is a plain struct with one list of its fields and their bits (`fields`), which parses,
// builds, prints and is tested. Reserved bits are sent as zero and ignored on receipt, except where
// implementations put the vendor's "enhanced connection establishment" there: those have names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/address.h"
#include "base/bytes.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/serial.h"
#include "net/bit_field.h"
#include "net/mad.h"

namespace h4a::net {

/// Attribute of a CM MAD. Spec: IBA vol. 1 §16.7.2 (table 328).
enum class CmAttribute : std::uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,  // alternate paths: refused by an APR
  kApr = 0x1a,
};
/// "REQ", "SIDR_REP", …; nullptr if there is no such attribute.
[[nodiscard]] const char* name_of(CmAttribute attribute) noexcept;

template <std::size_t N>
using PrivateData = std::array<std::uint8_t, N>;

// Bytes of private data. Spec: IBA vol. 1 §12.6.
inline constexpr std::size_t kCmReqPrivate = 92;
inline constexpr std::size_t kCmMraPrivate = 222;
inline constexpr std::size_t kCmRejPrivate = 148;
inline constexpr std::size_t kCmRepPrivate = 196;
inline constexpr std::size_t kCmRtuPrivate = 224;
inline constexpr std::size_t kCmDreqPrivate = 220;
inline constexpr std::size_t kCmDrepPrivate = 224;
inline constexpr std::size_t kCmSidrReqPrivate = 216;
inline constexpr std::size_t kCmSidrRepPrivate = 136;
inline constexpr std::size_t kCmAdditionalInfo = 72;

/// What a LID field says when there are no LIDs, as in RoCE (the permissive LID).
inline constexpr std::uint16_t kPermissiveLid = 0xffff;

/// Spec: IBA vol. 1 §12.6.5, transport service type.
enum class CmTransport : std::uint8_t { kRc = 0, kUc = 1, kRd = 2, kExtended = 3 };

/// Which message a REJ or MRA is about. Spec: IBA vol. 1 §12.6.6, §12.6.7.
enum class CmMessageKind : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

/// Why a connection was refused. Spec: IBA vol. 1 §12.6.7.2 (table 109).
enum class CmRejectReason : std::uint16_t {
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupportedRequest = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStaleConnection = 10,
  kNoRdc = 11,
  kPrimaryGidRejected = 12,
  kPrimaryLidRejected = 13,
  kInvalidSl = 14,
  kInvalidTrafficClass = 15,
  kInvalidHopLimit = 16,
  kInvalidPacketRate = 17,
  kAlternateGidRejected = 18,
  kAlternateLidRejected = 19,
  kInvalidAlternateSl = 20,
  kInvalidAlternateTrafficClass = 21,
  kInvalidAlternateHopLimit = 22,
  kInvalidAlternatePacketRate = 23,
  kPortAndCmRedirect = 24,
  kPortRedirect = 25,
  kInvalidMtu = 26,  // additional information: the largest acceptable one
  kInsufficientResponderResources = 27,
  kConsumer = 28,  // the application said no; private data is its own
  kRnrRetryCount = 29,
  kDuplicateCommId = 30,
  kInvalidClassVersion = 31,  // additional information: the highest supported one
  kInvalidFlowLabel = 32,
  kInvalidAlternateFlowLabel = 33,
  kVendorOption = 35,  // enhanced connection establishment is not possible
};
/// "no listener for this service", …; "reason N" has no text of its own and is "unknown reason".
[[nodiscard]] std::string_view to_string(CmRejectReason reason) noexcept;

/// Spec: IBA vol. 1 §12.11.2 (table 121), status of a SIDR_REP.
enum class CmSidrStatus : std::uint8_t {
  kOk = 0,
  kUnsupportedService = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};
[[nodiscard]] std::string_view to_string(CmSidrStatus status) noexcept;

/// Spec: IBA vol. 1 §12.8.2.2, AP status of an APR.
inline constexpr std::uint8_t kAprUnsupported = 2;  // alternate paths are not supported

/// One of the two paths in a REQ. Spec: IBA vol. 1 §12.6.5.
struct CmPath {
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  IpAddress local_gid;  // of who sent the REQ
  IpAddress remote_gid;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t packet_rate = 0;  // 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;  // 4 bits
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;  // 4.096 µs × 2^n, 5 bits

  template <std::size_t kAt, class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_lid", BitField<kAt, 0, 16>{}, m.local_lid);
    f("remote_lid", BitField<kAt + 2, 0, 16>{}, m.remote_lid);
    f("local_gid", ByteField<kAt + 4, 16>{}, m.local_gid);
    f("remote_gid", ByteField<kAt + 20, 16>{}, m.remote_gid);
    f("flow_label", BitField<kAt + 36, 0, 20>{}, m.flow_label);
    f("packet_rate", BitField<kAt + 39, 2, 6>{}, m.packet_rate);
    f("traffic_class", BitField<kAt + 40, 0, 8>{}, m.traffic_class);
    f("hop_limit", BitField<kAt + 41, 0, 8>{}, m.hop_limit);
    f("service_level", BitField<kAt + 42, 0, 4>{}, m.service_level);
    f("subnet_local", BitField<kAt + 42, 4, 1>{}, m.subnet_local);
    f("local_ack_timeout", BitField<kAt + 43, 0, 5>{}, m.local_ack_timeout);
  }
  friend bool operator==(const CmPath&, const CmPath&) noexcept = default;
};

/// Request for communication. Spec: IBA vol. 1 §12.6.5.
struct CmReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kReq;
  std::uint32_t local_comm_id = 0;
  std::uint32_t ece_vendor = 0;  // 24 reserved bits, where ECE has its vendor id
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn;
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;
  std::uint8_t remote_cm_timeout = 0;  // 4.096 µs × 2^n: how soon the receiver shall answer
  CmTransport transport = CmTransport::kRc;
  bool flow_control = false;
  Psn starting_psn;                   // at which the receiver's send queue shall begin
  std::uint8_t local_cm_timeout = 0;  // how soon the sender answers
  std::uint8_t retry_count = 0;       // 3 bits
  std::uint16_t pkey = 0;
  std::uint8_t path_mtu = 0;  // 1..5: 256..4096
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits
  std::uint8_t max_cm_retries = 0;   // 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  // 3 bits
  CmPath primary;
  CmPath alternate;
  bool sap_supported = false;
  PrivateData<kCmReqPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("ece_vendor", BitField<5, 0, 24>{}, m.ece_vendor);
    f("service_id", BitField<8, 0, 64>{}, m.service_id);
    f("local_ca_guid", BitField<16, 0, 64>{}, m.local_ca_guid);
    f("local_qkey", BitField<28, 0, 32>{}, m.local_qkey);
    f("local_qpn", BitField<32, 0, 24>{}, m.local_qpn);
    f("responder_resources", BitField<35, 0, 8>{}, m.responder_resources);
    f("local_eecn", BitField<36, 0, 24>{}, m.local_eecn);
    f("initiator_depth", BitField<39, 0, 8>{}, m.initiator_depth);
    f("remote_eecn", BitField<40, 0, 24>{}, m.remote_eecn);
    f("remote_cm_timeout", BitField<43, 0, 5>{}, m.remote_cm_timeout);
    f("transport", BitField<43, 5, 2>{}, m.transport);
    f("flow_control", BitField<43, 7, 1>{}, m.flow_control);
    f("starting_psn", BitField<44, 0, 24>{}, m.starting_psn);
    f("local_cm_timeout", BitField<47, 0, 5>{}, m.local_cm_timeout);
    f("retry_count", BitField<47, 5, 3>{}, m.retry_count);
    f("pkey", BitField<48, 0, 16>{}, m.pkey);
    f("path_mtu", BitField<50, 0, 4>{}, m.path_mtu);
    f("rdc_exists", BitField<50, 4, 1>{}, m.rdc_exists);
    f("rnr_retry_count", BitField<50, 5, 3>{}, m.rnr_retry_count);
    f("max_cm_retries", BitField<51, 0, 4>{}, m.max_cm_retries);
    f("srq", BitField<51, 4, 1>{}, m.srq);
    f("extended_transport", BitField<51, 5, 3>{}, m.extended_transport);
    CmPath::fields<52>(m.primary, f);
    CmPath::fields<96>(m.alternate, f);
    f("sap_supported", BitField<139, 5, 1>{}, m.sap_supported);
    f("private_data", ByteField<140, kCmReqPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmReq&, const CmReq&) noexcept = default;
};

/// Message receipt acknowledgment: "wait". Spec: IBA vol. 1 §12.6.6.
struct CmMra {
  static constexpr CmAttribute kAttribute = CmAttribute::kMra;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  CmMessageKind message = CmMessageKind::kReq;
  std::uint8_t service_timeout = 0;  // 4.096 µs × 2^n from now on
  PrivateData<kCmMraPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("message", BitField<8, 0, 2>{}, m.message);
    f("service_timeout", BitField<9, 0, 5>{}, m.service_timeout);
    f("private_data", ByteField<10, kCmMraPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmMra&, const CmMra&) noexcept = default;
};

/// Reject. Spec: IBA vol. 1 §12.6.7.
struct CmRej {
  static constexpr CmAttribute kAttribute = CmAttribute::kRej;
  std::uint32_t local_comm_id = 0;   // 0 if none was made
  std::uint32_t remote_comm_id = 0;  // 0 if it is not known
  CmMessageKind message = CmMessageKind::kReq;
  std::uint8_t info_length = 0;  // 7 bits: bytes of additional information
  CmRejectReason reason = CmRejectReason::kConsumer;
  PrivateData<kCmAdditionalInfo> info{};
  PrivateData<kCmRejPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("message", BitField<8, 0, 2>{}, m.message);
    f("info_length", BitField<9, 0, 7>{}, m.info_length);
    f("reason", BitField<10, 0, 16>{}, m.reason);
    f("info", ByteField<12, kCmAdditionalInfo>{}, m.info);
    f("private_data", ByteField<84, kCmRejPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmRej&, const CmRej&) noexcept = default;
};

/// Reply to a REQ. Spec: IBA vol. 1 §12.6.8.
struct CmRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kRep;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint32_t local_qkey = 0;
  Qpn local_qpn;
  std::uint8_t ece_vendor_high = 0;  // reserved, where ECE has its vendor id
  std::uint32_t local_eecn = 0;
  std::uint8_t ece_vendor_middle = 0;
  Psn starting_psn;  // as in a REQ
  std::uint8_t ece_vendor_low = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;  // 4.096 µs × 2^n, 5 bits
  std::uint8_t failover = 0;          // 2 bits; 1: alternate path not supported
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  PrivateData<kCmRepPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("local_qkey", BitField<8, 0, 32>{}, m.local_qkey);
    f("local_qpn", BitField<12, 0, 24>{}, m.local_qpn);
    f("ece_vendor_high", BitField<15, 0, 8>{}, m.ece_vendor_high);
    f("local_eecn", BitField<16, 0, 24>{}, m.local_eecn);
    f("ece_vendor_middle", BitField<19, 0, 8>{}, m.ece_vendor_middle);
    f("starting_psn", BitField<20, 0, 24>{}, m.starting_psn);
    f("ece_vendor_low", BitField<23, 0, 8>{}, m.ece_vendor_low);
    f("responder_resources", BitField<24, 0, 8>{}, m.responder_resources);
    f("initiator_depth", BitField<25, 0, 8>{}, m.initiator_depth);
    f("target_ack_delay", BitField<26, 0, 5>{}, m.target_ack_delay);
    f("failover", BitField<26, 5, 2>{}, m.failover);
    f("flow_control", BitField<26, 7, 1>{}, m.flow_control);
    f("rnr_retry_count", BitField<27, 0, 3>{}, m.rnr_retry_count);
    f("srq", BitField<27, 3, 1>{}, m.srq);
    f("local_ca_guid", BitField<28, 0, 64>{}, m.local_ca_guid);
    f("private_data", ByteField<36, kCmRepPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmRep&, const CmRep&) noexcept = default;
};

/// Ready to use. Spec: IBA vol. 1 §12.6.9.
struct CmRtu {
  static constexpr CmAttribute kAttribute = CmAttribute::kRtu;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  PrivateData<kCmRtuPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("private_data", ByteField<8, kCmRtuPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmRtu&, const CmRtu&) noexcept = default;
};

/// Request to disconnect. Spec: IBA vol. 1 §12.6.10.
struct CmDreq {
  static constexpr CmAttribute kAttribute = CmAttribute::kDreq;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Qpn remote_qpn;  // the receiver's
  PrivateData<kCmDreqPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("remote_qpn", BitField<8, 0, 24>{}, m.remote_qpn);
    f("private_data", ByteField<12, kCmDreqPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmDreq&, const CmDreq&) noexcept = default;
};

/// Reply to a DREQ. Spec: IBA vol. 1 §12.6.11.
struct CmDrep {
  static constexpr CmAttribute kAttribute = CmAttribute::kDrep;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  PrivateData<kCmDrepPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("private_data", ByteField<8, kCmDrepPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmDrep&, const CmDrep&) noexcept = default;
};

/// Load alternate path: only as much as it takes to refuse it. Spec: IBA vol. 1 §12.8.1.
struct CmLap {
  static constexpr CmAttribute kAttribute = CmAttribute::kLap;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Qpn remote_qpn;

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("remote_qpn", BitField<12, 0, 24>{}, m.remote_qpn);
  }
  friend bool operator==(const CmLap&, const CmLap&) noexcept = default;
};

/// Alternate path response. Spec: IBA vol. 1 §12.8.2.
struct CmApr {
  static constexpr CmAttribute kAttribute = CmAttribute::kApr;
  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint8_t info_length = 0;
  std::uint8_t status = kAprUnsupported;
  PrivateData<kCmAdditionalInfo> info{};
  PrivateData<kCmRejPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("local_comm_id", BitField<0, 0, 32>{}, m.local_comm_id);
    f("remote_comm_id", BitField<4, 0, 32>{}, m.remote_comm_id);
    f("info_length", BitField<8, 0, 8>{}, m.info_length);
    f("status", BitField<9, 0, 8>{}, m.status);
    f("info", ByteField<12, kCmAdditionalInfo>{}, m.info);
    f("private_data", ByteField<84, kCmRejPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmApr&, const CmApr&) noexcept = default;
};

/// Service ID resolution request, for UD. Spec: IBA vol. 1 §12.11.1.
struct CmSidrReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrReq;
  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0;
  std::uint64_t service_id = 0;
  PrivateData<kCmSidrReqPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("request_id", BitField<0, 0, 32>{}, m.request_id);
    f("pkey", BitField<4, 0, 16>{}, m.pkey);
    f("service_id", BitField<8, 0, 64>{}, m.service_id);
    f("private_data", ByteField<16, kCmSidrReqPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) noexcept = default;
};

/// Service ID resolution response. Spec: IBA vol. 1 §12.11.2.
struct CmSidrRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrRep;
  std::uint32_t request_id = 0;
  CmSidrStatus status = CmSidrStatus::kOk;
  std::uint8_t info_length = 0;
  std::uint16_t ece_vendor_high = 0;  // reserved, where ECE has its vendor id
  Qpn qpn;
  std::uint8_t ece_vendor_low = 0;
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  PrivateData<kCmAdditionalInfo> info{};
  PrivateData<kCmSidrRepPrivate> private_data{};

  template <class Self, class F>
  static void fields(Self& m, F& f) {
    f("request_id", BitField<0, 0, 32>{}, m.request_id);
    f("status", BitField<4, 0, 8>{}, m.status);
    f("info_length", BitField<5, 0, 8>{}, m.info_length);
    f("ece_vendor_high", BitField<6, 0, 16>{}, m.ece_vendor_high);
    f("qpn", BitField<8, 0, 24>{}, m.qpn);
    f("ece_vendor_low", BitField<11, 0, 8>{}, m.ece_vendor_low);
    f("service_id", BitField<12, 0, 64>{}, m.service_id);
    f("qkey", BitField<20, 0, 32>{}, m.qkey);
    f("info", ByteField<24, kCmAdditionalInfo>{}, m.info);
    f("private_data", ByteField<96, kCmSidrRepPrivate>{}, m.private_data);
  }
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) noexcept = default;
};

using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                               CmSidrRep, CmLap, CmApr>;

/// A CM message with what its MAD header adds.
struct CmMad {
  std::uint64_t transaction_id = 0;
  std::uint32_t attribute_modifier = 0;  // ECE's options, else 0
  CmMessage message;

  friend bool operator==(const CmMad&, const CmMad&) noexcept = default;
};

/// Proves that `mad` is a CM message and takes it apart.
/// @return kBadMad (not 256 bytes, base version, method), kUnknownMadClass, kUnknownCmAttribute.
/// A class version that we do not speak is kBadMad too.
[[nodiscard]] tl::expected<CmMad, Drop> parse_cm(Bytes mad) noexcept;

/// Writes all 256 bytes.
void build_cm(const CmMad& mad, MadBytes& out) noexcept;

/// One line: "REQ tid=0x20be17865 local_comm_id=0x6578e10b service_id=…". Zero fields are left out.
[[nodiscard]] std::string to_string(const CmMad& mad);

// ---- what RDMA-CM adds: annex A11 ----

/// Port spaces of rdma_cm; the service ID is 0x00000000'01PP'pppp with PP the low byte and pppp the
/// port. Spec: IBA annex A11.2.2.
enum class PortSpace : std::uint16_t { kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f };

[[nodiscard]] constexpr std::uint64_t rdma_service_id(PortSpace space,
                                                      std::uint16_t port) noexcept {
  return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
}
static_assert(rdma_service_id(PortSpace::kTcp, 7174) == 0x0000'0000'0106'1c06);
/// True if private data of a REQ for `service_id` begins with an IpCmHeader.
[[nodiscard]] constexpr bool is_rdma_service(std::uint64_t service_id) noexcept {
  return service_id >> 24 == 1;
}

/// What the private data of a REQ or SIDR_REQ begins with: the addresses that the application meant.
/// Spec: IBA annex A11.2.2 (IP CM private data).
struct IpCmHeader {
  static constexpr std::size_t kSize = 36;
  std::uint16_t source_port = 0;
  IpAddress source;  // both of one family
  IpAddress destination;

  /// `p` has kSize bytes.
  /// @return kBadVersion (major version not 0), kMalformed (IP version neither 4 nor 6).
  [[nodiscard]] static Result<IpCmHeader> load(const std::uint8_t* p) noexcept;
  void build(std::uint8_t* p) const noexcept;
  friend bool operator==(const IpCmHeader&, const IpCmHeader&) noexcept = default;
};
/// Private data of a REQ and of a SIDR_REQ that are left for the application.
inline constexpr std::size_t kRdmaReqPrivate = kCmReqPrivate - IpCmHeader::kSize;
inline constexpr std::size_t kRdmaSidrReqPrivate = kCmSidrReqPrivate - IpCmHeader::kSize;
static_assert(kRdmaReqPrivate == 56 && kRdmaSidrReqPrivate == 180);

}  // namespace h4a::net
