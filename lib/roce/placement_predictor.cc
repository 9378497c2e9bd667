#include "roce/placement_predictor.h"

#include "net/bth.h"

namespace h4a::roce {

PrefetchRange PlacementPredictor::predict(Bytes packet) noexcept {
  if (packet.size() < net::kBthSize) return {};
  const net::OpcodeInfo* row = net::find_opcode(packet[0]);
  if (row == nullptr || row->operation != net::Operation::kWrite) return {};
  if (packet.size() < row->header_length()) return {};
  const std::size_t size = packet.size() - row->header_length();
  const std::uint32_t qpn = load_be24(&packet[5]);
  const Psn psn(load_be24(&packet[9]));
  Stream& stream = streams_[qpn % streams_.size()];
  if (row->has(net::Header::kReth)) {
    const std::uint64_t address = load_be64(&packet[row->offset(net::Header::kReth)]);
    if (!row->ends()) stream = {qpn, psn, address, static_cast<std::uint32_t>(size)};
    return {address, size};
  }
  const std::int32_t packets = psn.since(stream.first_psn);
  if (stream.qpn != qpn || packets <= 0) return {};
  return {stream.address + std::uint64_t{stream.mtu} * static_cast<std::uint32_t>(packets), size};
}

}  // namespace h4a::roce
