#include "apps/replay_as_compare.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::apps {
namespace {

using net::Header;

class Comparison {
 public:
  void field(std::string_view name, std::uint64_t recorded, std::uint64_t ours) {
    if (recorded != ours)
      found.push_back({name, fmt::format("{:#x}", recorded), fmt::format("{:#x}", ours)});
  }
  void text(std::string_view name, std::string recorded, std::string ours) {
    if (recorded != ours) found.push_back({name, std::move(recorded), std::move(ours)});
  }
  std::vector<FieldDifference> found;
};

std::string payload_text(Bytes payload, Bytes other) {
  const auto at = std::mismatch(payload.begin(), payload.end(), other.begin(), other.end()).first;
  const auto offset = static_cast<std::size_t>(at - payload.begin());
  if (offset == payload.size()) return fmt::format("{} bytes", payload.size());
  return fmt::format("{} bytes, {:#04x} at {}", payload.size(), payload[offset], offset);
}

void compare_bth(const net::BthView& recorded, const net::BthView& ours, Comparison& c) {
  c.field("pad_count", recorded.pad_count(), ours.pad_count());
  c.field("solicited", recorded.solicited(), ours.solicited());
  c.field("pkey", recorded.pkey(), ours.pkey());
  c.field("dest_qp", recorded.dest_qp().value(), ours.dest_qp().value());
  c.field("psn", recorded.psn().value(), ours.psn().value());
}

/// An ACK's low five bits are credits; what every other syndrome says has to be the same.
std::string syndrome_text(const net::Aeth& aeth) {
  return aeth.kind() == net::AckKind::kAck ? "ACK" : to_string(aeth);
}

void compare_aeth(const net::Aeth& recorded, const net::Aeth& ours, std::uint32_t msn_offset,
                  Comparison& c) {
  c.text("syndrome", syndrome_text(recorded), syndrome_text(ours));
  c.field("msn", recorded.msn.value(), (ours.msn + msn_offset).value());
}

void compare_reth(const net::Reth& recorded, const net::Reth& ours, Comparison& c) {
  c.field("virtual_address", recorded.virtual_address, ours.virtual_address);
  c.field("rkey", recorded.rkey.value(), ours.rkey.value());
  c.field("dma_length", recorded.dma_length, ours.dma_length);
}

void compare_atomic(const net::AtomicEth& recorded, const net::AtomicEth& ours, Comparison& c) {
  c.field("virtual_address", recorded.virtual_address, ours.virtual_address);
  c.field("rkey", recorded.rkey.value(), ours.rkey.value());
  c.field("swap_or_add", recorded.swap_or_add, ours.swap_or_add);
  c.field("compare", recorded.compare, ours.compare);
}

}  // namespace

std::vector<FieldDifference> compare_packets(const net::TransportPacket& recorded,
                                             const net::TransportPacket& ours,
                                             std::uint32_t msn_offset) {
  Comparison c;
  c.text("opcode", std::string(recorded.row().name), std::string(ours.row().name));
  compare_bth(recorded.bth(), ours.bth(), c);
  const auto both = [&](Header h) { return recorded.row().has(h) && ours.row().has(h); };
  if (both(Header::kAeth)) compare_aeth(recorded.aeth(), ours.aeth(), msn_offset, c);
  if (both(Header::kReth)) compare_reth(recorded.reth(), ours.reth(), c);
  if (both(Header::kAtomicEth)) compare_atomic(recorded.atomic_eth(), ours.atomic_eth(), c);
  if (both(Header::kAtomicAckEth))
    c.field("original", recorded.atomic_ack_eth().original, ours.atomic_ack_eth().original);
  if (both(Header::kDeth)) {
    c.field("qkey", recorded.deth().qkey, ours.deth().qkey);
    c.field("source_qp", recorded.deth().source_qp.value(), ours.deth().source_qp.value());
  }
  if (both(Header::kImmDt)) c.field("imm", recorded.imm().value, ours.imm().value);
  if (both(Header::kIeth))
    c.field("invalidate_rkey", recorded.ieth().rkey.value(), ours.ieth().rkey.value());
  const Bytes a = recorded.payload();
  const Bytes b = ours.payload();
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end()))
    c.found.push_back({"payload", payload_text(a, b), payload_text(b, a)});
  return std::move(c.found);
}

const std::vector<std::string_view>& what_may_differ() {
  static const std::vector<std::string_view> list = {
      "time",
      "UDP source port, IP identification and TTL",
      "MigReq, FECN and BECN of BTH",
      "which requests ask for an acknowledgement",
      "credits of an ACK",
      "coalescing: an ACK that a later one covers",
      "how often a packet is sent again, and packets that were lost before they were captured",
  };
  return list;
}

}  // namespace h4a::apps
