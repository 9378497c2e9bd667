// The transport opcodes, one row each: parser, builder, printer, requester and responder read the
// same row. Spec: IBA vol. 1 §9.2.1 and table 38 (opcodes), §9.3 (extended headers), annex A17
// (CNP).
//
// A row states what the packet does, where it stands in its message, and which extended headers
// follow BTH. Offsets and lengths are computed from the headers; the spec's sums are asserted
// below.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace h4a::net {

/// BTH byte 0. Values without an enumerator are reserved; find_opcode() tells.
enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastWithImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyWithImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastWithImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyWithImm = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastWithInvalidate = 0x16,
  kRcSendOnlyWithInvalidate = 0x17,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastWithImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyWithImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastWithImm = 0x29,
  kUcWriteOnly = 0x2a,
  kUcWriteOnlyWithImm = 0x2b,
  kUdSendOnly = 0x64,
  kUdSendOnlyWithImm = 0x65,
  kCnp = 0x81,
};

/// Extended headers, in the order in which they stand behind BTH.
enum class Header : std::uint8_t {
  kDeth,
  kReth,
  kAtomicEth,
  kAeth,
  kAtomicAckEth,
  kImmDt,
  kIeth,
  kCnpReserved,  // 16 zero bytes
};
inline constexpr std::size_t kHeaderCount = 8;
inline constexpr std::size_t kBthSize = 12;
inline constexpr std::array<std::uint8_t, kHeaderCount> kHeaderSizes = {8, 16, 28, 4, 8, 4, 4, 16};
/// BTH and the longest row: what a frame needs in front of the payload.
inline constexpr std::size_t kTransportHeaderMax = kBthSize + 28;

/// A set of extended headers.
class HeaderSet {
 public:
  constexpr HeaderSet() noexcept = default;
  constexpr HeaderSet(Header h) noexcept : bits_(bit(h)) {}
  [[nodiscard]] constexpr bool has(Header h) const noexcept { return (bits_ & bit(h)) != 0; }
  [[nodiscard]] constexpr HeaderSet operator|(HeaderSet o) const noexcept {
    return HeaderSet(static_cast<std::uint8_t>(bits_ | o.bits_));
  }
  friend constexpr bool operator==(HeaderSet, HeaderSet) noexcept = default;

 private:
  explicit constexpr HeaderSet(std::uint8_t bits) noexcept : bits_(bits) {}
  static constexpr std::uint8_t bit(Header h) noexcept {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(h));
  }
  std::uint8_t bits_ = 0;
};
[[nodiscard]] constexpr HeaderSet operator|(Header a, Header b) noexcept {
  return HeaderSet(a) | HeaderSet(b);
}

enum class Service : std::uint8_t { kRc, kUc, kUd, kCnp };

enum class Operation : std::uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kCongestion,
};

/// Where a packet stands in its message.
enum class Position : std::uint8_t { kFirst, kMiddle, kLast, kOnly };

/// One row of the opcode table.
struct OpcodeInfo {
  Opcode opcode;
  std::string_view name;  // "RC_SEND_ONLY", stable, as in `h4a replay --json`
  Service service;
  Operation operation;
  Position position;
  HeaderSet headers;
  bool has_payload;  // false: headers only, pad count 0

  /// From requester to responder; false for acknowledgements and responses.
  [[nodiscard]] constexpr bool is_request() const noexcept {
    return operation != Operation::kReadResponse && operation != Operation::kAcknowledge &&
           operation != Operation::kAtomicAcknowledge && operation != Operation::kCongestion;
  }
  [[nodiscard]] constexpr bool starts() const noexcept {
    return position == Position::kFirst || position == Position::kOnly;
  }
  [[nodiscard]] constexpr bool ends() const noexcept {
    return position == Position::kLast || position == Position::kOnly;
  }
  [[nodiscard]] constexpr bool has(Header h) const noexcept { return headers.has(h); }
  /// Offset of `h` from the first byte of BTH; the row must have it.
  [[nodiscard]] constexpr std::size_t offset(Header h) const noexcept {
    return offsets[static_cast<std::size_t>(h)];
  }
  /// Bytes of BTH and all extended headers.
  [[nodiscard]] constexpr std::size_t header_length() const noexcept { return length; }

  std::array<std::uint8_t, kHeaderCount> offsets;  // sums over `headers`, made by the table
  std::uint8_t length;
};

namespace detail {

constexpr OpcodeInfo row(Opcode opcode, std::string_view name, Service service, Operation operation,
                         Position position, HeaderSet headers, bool has_payload) noexcept {
  OpcodeInfo r{opcode, name, service, operation, position, headers, has_payload, {}, kBthSize};
  for (std::size_t i = 0; i < kHeaderCount; ++i) {
    r.offsets[i] = r.length;
    if (headers.has(static_cast<Header>(i)))
      r.length = static_cast<std::uint8_t>(r.length + kHeaderSizes[i]);
  }
  return r;
}

}  // namespace detail

/// The table, in the order of the opcodes. Names follow ibv_opcode.
inline constexpr auto kOpcodeTable = [] {
  using enum Opcode;
  using enum Position;
  using O = Operation;
  using H = Header;
  constexpr auto rc = Service::kRc;
  constexpr auto uc = Service::kUc;
  constexpr auto ud = Service::kUd;
  constexpr HeaderSet none;
  using detail::row;
  return std::to_array<OpcodeInfo>({
      row(kRcSendFirst, "RC_SEND_FIRST", rc, O::kSend, kFirst, none, true),
      row(kRcSendMiddle, "RC_SEND_MIDDLE", rc, O::kSend, kMiddle, none, true),
      row(kRcSendLast, "RC_SEND_LAST", rc, O::kSend, kLast, none, true),
      row(kRcSendLastWithImm, "RC_SEND_LAST_WITH_IMMEDIATE", rc, O::kSend, kLast, H::kImmDt, true),
      row(kRcSendOnly, "RC_SEND_ONLY", rc, O::kSend, kOnly, none, true),
      row(kRcSendOnlyWithImm, "RC_SEND_ONLY_WITH_IMMEDIATE", rc, O::kSend, kOnly, H::kImmDt, true),
      row(kRcWriteFirst, "RC_RDMA_WRITE_FIRST", rc, O::kWrite, kFirst, H::kReth, true),
      row(kRcWriteMiddle, "RC_RDMA_WRITE_MIDDLE", rc, O::kWrite, kMiddle, none, true),
      row(kRcWriteLast, "RC_RDMA_WRITE_LAST", rc, O::kWrite, kLast, none, true),
      row(kRcWriteLastWithImm, "RC_RDMA_WRITE_LAST_WITH_IMMEDIATE", rc, O::kWrite, kLast, H::kImmDt,
          true),
      row(kRcWriteOnly, "RC_RDMA_WRITE_ONLY", rc, O::kWrite, kOnly, H::kReth, true),
      row(kRcWriteOnlyWithImm, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", rc, O::kWrite, kOnly,
          H::kReth | H::kImmDt, true),
      row(kRcReadRequest, "RC_RDMA_READ_REQUEST", rc, O::kReadRequest, kOnly, H::kReth, false),
      row(kRcReadResponseFirst, "RC_RDMA_READ_RESPONSE_FIRST", rc, O::kReadResponse, kFirst,
          H::kAeth, true),
      row(kRcReadResponseMiddle, "RC_RDMA_READ_RESPONSE_MIDDLE", rc, O::kReadResponse, kMiddle,
          none, true),
      row(kRcReadResponseLast, "RC_RDMA_READ_RESPONSE_LAST", rc, O::kReadResponse, kLast, H::kAeth,
          true),
      row(kRcReadResponseOnly, "RC_RDMA_READ_RESPONSE_ONLY", rc, O::kReadResponse, kOnly, H::kAeth,
          true),
      row(kRcAcknowledge, "RC_ACKNOWLEDGE", rc, O::kAcknowledge, kOnly, H::kAeth, false),
      row(kRcAtomicAcknowledge, "RC_ATOMIC_ACKNOWLEDGE", rc, O::kAtomicAcknowledge, kOnly,
          H::kAeth | H::kAtomicAckEth, false),
      row(kRcCompareSwap, "RC_COMPARE_SWAP", rc, O::kCompareSwap, kOnly, H::kAtomicEth, false),
      row(kRcFetchAdd, "RC_FETCH_ADD", rc, O::kFetchAdd, kOnly, H::kAtomicEth, false),
      row(kRcSendLastWithInvalidate, "RC_SEND_LAST_WITH_INVALIDATE", rc, O::kSend, kLast, H::kIeth,
          true),
      row(kRcSendOnlyWithInvalidate, "RC_SEND_ONLY_WITH_INVALIDATE", rc, O::kSend, kOnly, H::kIeth,
          true),
      row(kUcSendFirst, "UC_SEND_FIRST", uc, O::kSend, kFirst, none, true),
      row(kUcSendMiddle, "UC_SEND_MIDDLE", uc, O::kSend, kMiddle, none, true),
      row(kUcSendLast, "UC_SEND_LAST", uc, O::kSend, kLast, none, true),
      row(kUcSendLastWithImm, "UC_SEND_LAST_WITH_IMMEDIATE", uc, O::kSend, kLast, H::kImmDt, true),
      row(kUcSendOnly, "UC_SEND_ONLY", uc, O::kSend, kOnly, none, true),
      row(kUcSendOnlyWithImm, "UC_SEND_ONLY_WITH_IMMEDIATE", uc, O::kSend, kOnly, H::kImmDt, true),
      row(kUcWriteFirst, "UC_RDMA_WRITE_FIRST", uc, O::kWrite, kFirst, H::kReth, true),
      row(kUcWriteMiddle, "UC_RDMA_WRITE_MIDDLE", uc, O::kWrite, kMiddle, none, true),
      row(kUcWriteLast, "UC_RDMA_WRITE_LAST", uc, O::kWrite, kLast, none, true),
      row(kUcWriteLastWithImm, "UC_RDMA_WRITE_LAST_WITH_IMMEDIATE", uc, O::kWrite, kLast, H::kImmDt,
          true),
      row(kUcWriteOnly, "UC_RDMA_WRITE_ONLY", uc, O::kWrite, kOnly, H::kReth, true),
      row(kUcWriteOnlyWithImm, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", uc, O::kWrite, kOnly,
          H::kReth | H::kImmDt, true),
      row(kUdSendOnly, "UD_SEND_ONLY", ud, O::kSend, kOnly, H::kDeth, true),
      row(kUdSendOnlyWithImm, "UD_SEND_ONLY_WITH_IMMEDIATE", ud, O::kSend, kOnly,
          H::kDeth | H::kImmDt, true),
      row(kCnp, "CNP", Service::kCnp, O::kCongestion, kOnly, H::kCnpReserved, false),
  });
}();

namespace detail {

inline constexpr std::uint8_t kNoRow = 0xff;
inline constexpr auto kRowOfOpcode = [] {
  std::array<std::uint8_t, 256> rows{};
  rows.fill(kNoRow);
  for (std::size_t i = 0; i < kOpcodeTable.size(); ++i)
    rows[static_cast<std::size_t>(kOpcodeTable[i].opcode)] = static_cast<std::uint8_t>(i);
  return rows;
}();

}  // namespace detail

/// The row of a BTH opcode byte, or nullptr if it is reserved.
[[nodiscard]] constexpr const OpcodeInfo* find_opcode(std::uint8_t opcode) noexcept {
  const std::uint8_t i = detail::kRowOfOpcode[opcode];
  return i == detail::kNoRow ? nullptr : &kOpcodeTable[i];
}
/// The row of an enumerator.
[[nodiscard]] constexpr const OpcodeInfo& info(Opcode opcode) noexcept {
  return kOpcodeTable[detail::kRowOfOpcode[static_cast<std::size_t>(opcode)]];
}

/// The opcode of one packet of a message: `plain` at `position`, without immediate or invalidate.
[[nodiscard]] constexpr Opcode rc_send(Position p) noexcept {
  constexpr std::array by_position = {Opcode::kRcSendFirst, Opcode::kRcSendMiddle,
                                      Opcode::kRcSendLast, Opcode::kRcSendOnly};
  return by_position[static_cast<std::size_t>(p)];
}
[[nodiscard]] constexpr Opcode rc_write(Position p) noexcept {
  constexpr std::array by_position = {Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle,
                                      Opcode::kRcWriteLast, Opcode::kRcWriteOnly};
  return by_position[static_cast<std::size_t>(p)];
}
[[nodiscard]] constexpr Opcode rc_read_response(Position p) noexcept {
  constexpr std::array by_position = {Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseMiddle,
                                      Opcode::kRcReadResponseLast, Opcode::kRcReadResponseOnly};
  return by_position[static_cast<std::size_t>(p)];
}

/// The name of an opcode byte, or "RESERVED".
[[nodiscard]] std::string_view opcode_name(std::uint8_t opcode) noexcept;

// The spec's numbers. IBA vol. 1 §9.2 and §9.3; annex A17.9.3 (CNP).
static_assert(kHeaderSizes.size() == kHeaderCount);
static_assert(info(Opcode::kRcSendOnly).header_length() == 12);
static_assert(info(Opcode::kRcSendOnlyWithImm).header_length() == 16);
static_assert(info(Opcode::kRcSendOnlyWithInvalidate).header_length() == 16);
static_assert(info(Opcode::kRcWriteOnly).header_length() == 28);
static_assert(info(Opcode::kRcWriteOnlyWithImm).header_length() == 32);
static_assert(info(Opcode::kRcWriteOnlyWithImm).offset(Header::kImmDt) == 28);
static_assert(info(Opcode::kRcReadRequest).header_length() == 28);
static_assert(info(Opcode::kRcReadResponseOnly).header_length() == 16);
static_assert(info(Opcode::kRcAcknowledge).header_length() == 16);
static_assert(info(Opcode::kRcAtomicAcknowledge).header_length() == 24);
static_assert(info(Opcode::kRcAtomicAcknowledge).offset(Header::kAtomicAckEth) == 16);
static_assert(info(Opcode::kRcCompareSwap).header_length() == 40);
static_assert(info(Opcode::kUdSendOnlyWithImm).header_length() == 24);
static_assert(info(Opcode::kUdSendOnlyWithImm).offset(Header::kImmDt) == 20);
static_assert(info(Opcode::kCnp).header_length() == 28);
static_assert([] {
  for (std::size_t i = 0; i < kOpcodeTable.size(); ++i) {
    if (i > 0 && kOpcodeTable[i - 1].opcode >= kOpcodeTable[i].opcode) return false;
    if (kOpcodeTable[i].header_length() > kTransportHeaderMax) return false;
  }
  return true;
}());

}  // namespace h4a::net
