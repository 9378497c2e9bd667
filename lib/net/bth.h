// Base Transport Header and extended headers: views, builders, and the parser of a transport
// packet. Spec: IBA vol. 1 §9.2 (BTH), §9.3 (extended headers), §9.7.5.2 (AETH), annex A17
// (RoCEv2).
//
// Views borrow bytes; parse is the only place that proves length, accessors then cannot fail. Spare
// bits are sent as zero and ignored on receipt. MigReq is sent as 1, as NICs do, and either is
// accepted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/serial.h"
#include "base/time.h"
#include "net/opcode.h"
#include "net/udp.h"

namespace h4a::net {

inline constexpr std::uint16_t kDefaultPkey = 0xffff;

/// Base Transport Header, 12 bytes, network order. Spec: IBA vol. 1 §9.2. Borrows `bytes`.
class BthView {
 public:
  static constexpr std::size_t kSize = kBthSize;
  /// @return kTruncated if shorter than kSize, kBadVersion if TVer is not 0.
  [[nodiscard]] static Result<BthView> parse(Bytes b) noexcept {
    if (b.size() < kSize) return failure(Error::kTruncated);
    if ((b[1] & 0x0f) != 0) return failure(Error::kBadVersion);
    return BthView(b);
  }
  [[nodiscard]] std::uint8_t opcode_byte() const noexcept { return p_[0]; }
  /// Meaningful if find_opcode(opcode_byte()) is not nullptr.
  [[nodiscard]] Opcode opcode() const noexcept { return Opcode{p_[0]}; }
  [[nodiscard]] bool solicited() const noexcept { return (p_[1] & 0x80) != 0; }
  [[nodiscard]] bool mig_req() const noexcept { return (p_[1] & 0x40) != 0; }
  [[nodiscard]] std::uint8_t pad_count() const noexcept { return (p_[1] >> 4) & 3; }
  [[nodiscard]] std::uint16_t pkey() const noexcept { return load_be16(p_ + 2); }
  /// Forward and backward congestion marks, and six spare bits, share byte 4 (masked in the ICRC).
  [[nodiscard]] bool fecn() const noexcept { return (p_[4] & 0x80) != 0; }
  [[nodiscard]] bool becn() const noexcept { return (p_[4] & 0x40) != 0; }
  [[nodiscard]] Qpn dest_qp() const noexcept { return Qpn(load_be24(p_ + 5)); }
  [[nodiscard]] bool ack_req() const noexcept { return (p_[8] & 0x80) != 0; }
  [[nodiscard]] Psn psn() const noexcept { return Psn(load_be24(p_ + 9)); }
  [[nodiscard]] Bytes rest() const noexcept { return {p_ + kSize, n_ - kSize}; }

 private:
  explicit BthView(Bytes b) noexcept : p_(b.data()), n_(b.size()) {}
  const std::uint8_t* p_;
  std::size_t n_;
};

/// What a BTH says; TVer and spare bits are zero.
struct Bth {
  Opcode opcode = Opcode::kRcSendOnly;
  bool solicited = false;
  bool mig_req = true;
  std::uint8_t pad_count = 0;  // 0..3
  std::uint16_t pkey = kDefaultPkey;
  bool becn = false;
  Qpn dest_qp;
  bool ack_req = false;
  Psn psn;

  /// Writes kBthSize bytes.
  void build(std::uint8_t* p) const noexcept {
    p[0] = static_cast<std::uint8_t>(opcode);
    p[1] = static_cast<std::uint8_t>((solicited ? 0x80 : 0) | (mig_req ? 0x40 : 0) |
                                     (pad_count & 3) << 4);
    store_be<2>(p + 2, pkey);
    p[4] = becn ? 0x40 : 0;
    store_be<3>(p + 5, dest_qp.value());
    p[8] = ack_req ? 0x80 : 0;
    store_be<3>(p + 9, psn.value());
  }
};

/// RDMA Extended Transport Header. Spec: IBA vol. 1 §9.3.3.
struct Reth {
  static constexpr std::size_t kSize = 16;
  std::uint64_t virtual_address = 0;
  Rkey rkey;
  std::uint32_t dma_length = 0;

  /// `p` has kSize bytes.
  [[nodiscard]] static Reth load(const std::uint8_t* p) noexcept {
    return {load_be64(p), Rkey(load_be32(p + 8)), load_be32(p + 12)};
  }
  void build(std::uint8_t* p) const noexcept {
    store_be<8>(p, virtual_address);
    store_be<4>(p + 8, rkey.value());
    store_be<4>(p + 12, dma_length);
  }
};

/// What an AETH syndrome says. Spec: IBA vol. 1 §9.7.5.2, tables 46 to 49.
enum class AckKind : std::uint8_t {
  kAck,                  // 0x00..0x1f, credit code in the low five bits
  kRnrNak,               // 0x20..0x3f, timer code in the low five bits
  kReserved,             // 0x40..0x5f and bit 7 set: the packet is dropped
  kNakSequence,          // 0x60
  kNakInvalidRequest,    // 0x61
  kNakRemoteAccess,      // 0x62
  kNakRemoteOperation,   // 0x63
  kNakInvalidRdRequest,  // 0x64; not for RC
  kNakReserved,          // 0x65..0x7f: a bad response
};

/// ACK Extended Transport Header. Spec: IBA vol. 1 §9.3.5.
struct Aeth {
  static constexpr std::size_t kSize = 4;
  /// "No end-to-end credits": what a responder that does not count them sends.
  static constexpr std::uint8_t kAckUnlimited = 0x1f;
  static constexpr std::uint8_t kRnrNak = 0x20;
  static constexpr std::uint8_t kNakSequence = 0x60;
  static constexpr std::uint8_t kNakInvalidRequest = 0x61;
  static constexpr std::uint8_t kNakRemoteAccess = 0x62;
  static constexpr std::uint8_t kNakRemoteOperation = 0x63;

  std::uint8_t syndrome = kAckUnlimited;
  Msn msn;

  [[nodiscard]] static Aeth load(const std::uint8_t* p) noexcept {
    return {p[0], Msn(load_be24(p + 1))};
  }
  void build(std::uint8_t* p) const noexcept {
    p[0] = syndrome;
    store_be<3>(p + 1, msn.value());
  }
  [[nodiscard]] AckKind kind() const noexcept;
  /// Credit code of an ACK, timer code of an RNR NAK.
  [[nodiscard]] std::uint8_t code() const noexcept { return syndrome & 0x1f; }
};

/// How many receives an ACK's credit code says are posted. Code 31 (kAckUnlimited): none are counted.
/// Spec: IBA vol. 1 §9.7.7.2.
/// @param code 0..30.
[[nodiscard]] std::uint32_t credits_of(std::uint8_t code) noexcept;
/// The largest code that promises no more than `receives`; 0..30.
[[nodiscard]] std::uint8_t credit_code(std::uint32_t receives) noexcept;

/// How long a requester waits after an RNR NAK. Code 0 is the longest. Spec: IBA vol. 1 table 48.
/// @param code 0..31; higher bits are ignored.
[[nodiscard]] Duration rnr_timer(std::uint8_t code) noexcept;

/// Atomic Extended Transport Header. Spec: IBA vol. 1 §9.3.4.
struct AtomicEth {
  static constexpr std::size_t kSize = 28;
  std::uint64_t virtual_address = 0;
  Rkey rkey;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  [[nodiscard]] static AtomicEth load(const std::uint8_t* p) noexcept {
    return {load_be64(p), Rkey(load_be32(p + 8)), load_be64(p + 12), load_be64(p + 20)};
  }
  void build(std::uint8_t* p) const noexcept {
    store_be<8>(p, virtual_address);
    store_be<4>(p + 8, rkey.value());
    store_be<8>(p + 12, swap_or_add);
    store_be<8>(p + 20, compare);
  }
};

/// Atomic ACK Extended Transport Header. Spec: IBA vol. 1 §9.5.3.
struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;
  std::uint64_t original = 0;

  [[nodiscard]] static AtomicAckEth load(const std::uint8_t* p) noexcept { return {load_be64(p)}; }
  void build(std::uint8_t* p) const noexcept { store_be<8>(p, original); }
};

/// Immediate data, handed on as it is. Spec: IBA vol. 1 §9.3.6.
struct ImmDt {
  static constexpr std::size_t kSize = 4;
  std::uint32_t value = 0;

  [[nodiscard]] static ImmDt load(const std::uint8_t* p) noexcept { return {load_be32(p)}; }
  void build(std::uint8_t* p) const noexcept { store_be<4>(p, value); }
};

/// Invalidate Extended Transport Header. Spec: IBA vol. 1 §9.3.7.
struct Ieth {
  static constexpr std::size_t kSize = 4;
  Rkey rkey;

  [[nodiscard]] static Ieth load(const std::uint8_t* p) noexcept { return {Rkey(load_be32(p))}; }
  void build(std::uint8_t* p) const noexcept { store_be<4>(p, rkey.value()); }
};

/// Datagram Extended Transport Header. Spec: IBA vol. 1 §9.3.2.
struct Deth {
  static constexpr std::size_t kSize = 8;
  std::uint32_t qkey = 0;
  Qpn source_qp;

  [[nodiscard]] static Deth load(const std::uint8_t* p) noexcept {
    return {load_be32(p), Qpn(load_be24(p + 5))};
  }
  void build(std::uint8_t* p) const noexcept {
    store_be<4>(p, qkey);
    p[4] = 0;
    store_be<3>(p + 5, source_qp.value());
  }
};

static_assert(Deth::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kDeth)]);
static_assert(Reth::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kReth)]);
static_assert(AtomicEth::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kAtomicEth)]);
static_assert(Aeth::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kAeth)]);
static_assert(AtomicAckEth::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kAtomicAckEth)]);
static_assert(ImmDt::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kImmDt)]);
static_assert(Ieth::kSize == kHeaderSizes[static_cast<std::size_t>(Header::kIeth)]);

/// A packet from BTH to the pad whose structure is proven. Borrows the bytes it was parsed from.
/// The accessor of an extended header may be called only if `row().has(…)`.
class TransportPacket {
 public:
  TransportPacket(BthView bth, const OpcodeInfo& row, Bytes packet) noexcept
      : bth_(bth), row_(&row), p_(packet.data()), size_(packet.size()) {}

  [[nodiscard]] const BthView& bth() const noexcept { return bth_; }
  [[nodiscard]] const OpcodeInfo& row() const noexcept { return *row_; }
  [[nodiscard]] Opcode opcode() const noexcept { return row_->opcode; }
  [[nodiscard]] Reth reth() const noexcept { return Reth::load(at(Header::kReth)); }
  [[nodiscard]] Aeth aeth() const noexcept { return Aeth::load(at(Header::kAeth)); }
  [[nodiscard]] AtomicEth atomic_eth() const noexcept {
    return AtomicEth::load(at(Header::kAtomicEth));
  }
  [[nodiscard]] AtomicAckEth atomic_ack_eth() const noexcept {
    return AtomicAckEth::load(at(Header::kAtomicAckEth));
  }
  [[nodiscard]] ImmDt imm() const noexcept { return ImmDt::load(at(Header::kImmDt)); }
  [[nodiscard]] Ieth ieth() const noexcept { return Ieth::load(at(Header::kIeth)); }
  [[nodiscard]] Deth deth() const noexcept { return Deth::load(at(Header::kDeth)); }
  /// The payload, pad excluded.
  [[nodiscard]] Bytes payload() const noexcept {
    const std::size_t head = row_->header_length();
    return {p_ + head, size_ - head - bth_.pad_count()};
  }

 private:
  [[nodiscard]] const std::uint8_t* at(Header h) const noexcept { return p_ + row_->offset(h); }

  BthView bth_;
  const OpcodeInfo* row_;
  const std::uint8_t* p_;
  std::size_t size_;
};

/// What parse_transport found: a packet, or why it is none.
using ParsedTransport = tl::expected<TransportPacket, Drop>;

/// Proves the structure of a packet. Spec: IBA vol. 1 §9.6.1 (packet header validation).
/// @param packet from BTH up to and with the pad, no ICRC.
/// @return kTruncated (no room for BTH), kBadBth (TVer), kBadOpcode (reserved), kBadExtendedHeader
/// (its headers do not fit, or bytes follow where none may), kBadPad (more pad than payload, or
/// payload and pad are not a multiple of four bytes).
[[nodiscard]] ParsedTransport parse_transport(Bytes packet) noexcept;

/// Pad bytes behind a payload of `n` bytes. Spec: IBA vol. 1 §9.2.3 (PadCnt).
[[nodiscard]] constexpr std::uint8_t pad_for(std::size_t n) noexcept {
  return static_cast<std::uint8_t>((4 - n % 4) % 4);
}

/// One line: "RC_SEND_ONLY qp=0x00003b psn=7503213 ack_req payload=32".
[[nodiscard]] std::string to_string(const TransportPacket& packet);
/// "ACK", "RNR NAK, 0.64 ms", "NAK remote access error", ….
[[nodiscard]] std::string to_string(const Aeth& aeth);

}  // namespace h4a::net
