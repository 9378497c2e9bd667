#include "net/bth.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::net {
namespace {

/// Hundredths of a millisecond by timer code. Spec: IBA vol. 1 table 48 (RNR NAK timer).
constexpr std::array<std::uint32_t, 32> kRnrTimer10us = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

/// Receives by credit code. Spec: IBA vol. 1 table 53 (end-to-end flow control credits).
constexpr std::array<std::uint32_t, 31> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

bool payload_fits(const OpcodeInfo& row, std::size_t after_headers) noexcept {
  return row.has_payload || after_headers == 0;
}

bool pad_fits(std::size_t after_headers, std::size_t pad) noexcept {
  return pad <= after_headers && after_headers % 4 == 0;
}

std::string extended_to_string(const TransportPacket& p) {
  std::string s;
  const OpcodeInfo& row = p.row();
  if (row.has(Header::kReth)) {
    const Reth r = p.reth();
    s += fmt::format(" va={:#x} rkey={:#010x} len={}", r.virtual_address, r.rkey.value(),
                     r.dma_length);
  }
  if (row.has(Header::kAtomicEth)) {
    const AtomicEth a = p.atomic_eth();
    s += fmt::format(" va={:#x} rkey={:#010x} swap_or_add={:#x} compare={:#x}", a.virtual_address,
                     a.rkey.value(), a.swap_or_add, a.compare);
  }
  if (row.has(Header::kAeth)) s += " " + to_string(p.aeth());
  if (row.has(Header::kAtomicAckEth))
    s += fmt::format(" original={:#x}", p.atomic_ack_eth().original);
  if (row.has(Header::kImmDt)) s += fmt::format(" imm={:#010x}", p.imm().value);
  if (row.has(Header::kIeth)) s += fmt::format(" invalidate={:#010x}", p.ieth().rkey.value());
  if (row.has(Header::kDeth))
    s += fmt::format(" qkey={:#010x} src_qp={:#08x}", p.deth().qkey, p.deth().source_qp.value());
  return s;
}

}  // namespace

AckKind Aeth::kind() const noexcept {
  if ((syndrome & 0x80) != 0) return AckKind::kReserved;
  switch (syndrome >> 5) {
    case 0:
      return AckKind::kAck;
    case 1:
      return AckKind::kRnrNak;
    case 2:
      return AckKind::kReserved;
    default:
      break;
  }
  switch (syndrome) {
    case kNakSequence:
      return AckKind::kNakSequence;
    case kNakInvalidRequest:
      return AckKind::kNakInvalidRequest;
    case kNakRemoteAccess:
      return AckKind::kNakRemoteAccess;
    case kNakRemoteOperation:
      return AckKind::kNakRemoteOperation;
    case 0x64:
      return AckKind::kNakInvalidRdRequest;
    default:
      return AckKind::kNakReserved;
  }
}

std::uint32_t credits_of(std::uint8_t code) noexcept {
  return kCredits[std::min<std::size_t>(code, kCredits.size() - 1)];
}

std::uint8_t credit_code(std::uint32_t receives) noexcept {
  const auto above = std::upper_bound(kCredits.begin(), kCredits.end(), receives);
  return static_cast<std::uint8_t>(above - kCredits.begin() - 1);
}

Duration rnr_timer(std::uint8_t code) noexcept {
  return Duration::us(std::int64_t{kRnrTimer10us[code & 0x1f]} * 10);
}

ParsedTransport parse_transport(Bytes packet) noexcept {
  const Result<BthView> bth = BthView::parse(packet);
  if (!bth)
    return tl::unexpected(bth.error() == Error::kTruncated ? Drop::kTruncated : Drop::kBadBth);
  const OpcodeInfo* row = find_opcode(bth->opcode_byte());
  if (row == nullptr) return tl::unexpected(Drop::kBadOpcode);
  const std::size_t head = row->header_length();
  if (packet.size() < head) return tl::unexpected(Drop::kBadExtendedHeader);
  const std::size_t after_headers = packet.size() - head;
  if (!payload_fits(*row, after_headers)) return tl::unexpected(Drop::kBadExtendedHeader);
  if (!pad_fits(after_headers, bth->pad_count())) return tl::unexpected(Drop::kBadPad);
  return TransportPacket(*bth, *row, packet);
}

std::string to_string(const TransportPacket& p) {
  const BthView& bth = p.bth();
  std::string s =
      fmt::format("{} qp={:#08x} psn={}", p.row().name, bth.dest_qp().value(), bth.psn().value());
  if (bth.ack_req()) s += " ack_req";
  if (bth.solicited()) s += " solicited";
  if (bth.becn()) s += " becn";
  s += extended_to_string(p);
  if (p.row().has_payload) s += fmt::format(" payload={}", p.payload().size());
  return s;
}

std::string to_string(const Aeth& aeth) {
  const auto with_msn = [&](std::string text) {
    return text + fmt::format(" msn={}", aeth.msn.value());
  };
  switch (aeth.kind()) {
    case AckKind::kAck:
      return with_msn("ACK");
    case AckKind::kRnrNak:
      return with_msn(fmt::format("RNR NAK {} ms",
                                  static_cast<double>(rnr_timer(aeth.code()).count_ns()) * 1e-6));
    case AckKind::kNakSequence:
      return with_msn("NAK PSN sequence error");
    case AckKind::kNakInvalidRequest:
      return with_msn("NAK invalid request");
    case AckKind::kNakRemoteAccess:
      return with_msn("NAK remote access error");
    case AckKind::kNakRemoteOperation:
      return with_msn("NAK remote operational error");
    case AckKind::kNakInvalidRdRequest:
      return with_msn("NAK invalid RD request");
    case AckKind::kReserved:
    case AckKind::kNakReserved:
      break;
  }
  return with_msn(fmt::format("reserved syndrome {:#04x}", aeth.syndrome));
}

}  // namespace h4a::net
