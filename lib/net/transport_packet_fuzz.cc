// Transport packets: whatever parses can be printed, read through every accessor, and built again.
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "net/bth.h"

namespace h4a::net {
namespace {

Bth bth_of(const TransportPacket& p) {
  Bth b;
  b.opcode = p.opcode();
  b.solicited = p.bth().solicited();
  b.mig_req = p.bth().mig_req();
  b.pad_count = p.bth().pad_count();
  b.pkey = p.bth().pkey();
  b.becn = p.bth().becn();
  b.dest_qp = p.bth().dest_qp();
  b.ack_req = p.bth().ack_req();
  b.psn = p.bth().psn();
  return b;
}

void build_headers(const TransportPacket& p, std::uint8_t* out) {
  const OpcodeInfo& row = p.row();
  bth_of(p).build(out);
  if (row.has(Header::kReth)) p.reth().build(out + row.offset(Header::kReth));
  if (row.has(Header::kAtomicEth)) p.atomic_eth().build(out + row.offset(Header::kAtomicEth));
  if (row.has(Header::kAeth)) p.aeth().build(out + row.offset(Header::kAeth));
  if (row.has(Header::kAtomicAckEth))
    p.atomic_ack_eth().build(out + row.offset(Header::kAtomicAckEth));
  if (row.has(Header::kImmDt)) p.imm().build(out + row.offset(Header::kImmDt));
  if (row.has(Header::kIeth)) p.ieth().build(out + row.offset(Header::kIeth));
  if (row.has(Header::kDeth)) p.deth().build(out + row.offset(Header::kDeth));
}

}  // namespace
}  // namespace h4a::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const auto parsed = parse_transport({data, size});
  if (!parsed) return 0;
  H4A_ASSERT(!to_string(*parsed).empty());
  H4A_ASSERT(parsed->payload().size() <= size - kBthSize);
  std::vector<std::uint8_t> again(data, data + size);
  build_headers(*parsed, again.data());
  const auto reparsed = parse_transport(again);
  H4A_ASSERT(reparsed.has_value());
  H4A_ASSERT(to_string(*reparsed) == to_string(*parsed));
  return 0;
}
