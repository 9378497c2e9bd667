#include "roce/read_resources.h"

#include <algorithm>

#include "roce/packet_builder.h"

namespace h4a::roce::read_resources {
namespace {

using net::Position;

ReadResource& at(ResponderState& r, std::uint32_t i) noexcept {
  return r.reads[(r.read_begin + i) % kReadResourcesMax];
}

bool pending(const ReadResource& read) noexcept {
  return read.next < read.packets;
}

ReadResource& oldest_pending(ResponderState& r) noexcept {
  for (std::uint32_t i = 0; i + 1 < r.read_count; ++i)
    if (pending(at(r, i))) return at(r, i);
  return at(r, r.read_count - 1U);
}

Position position_of(const ReadResource& read) noexcept {
  const bool first = read.next == read.start;
  const bool last = read.next + 1 == read.packets;
  if (first) return last ? Position::kOnly : Position::kFirst;
  return last ? Position::kLast : Position::kMiddle;
}

/// The bytes of the next packet, or false if the key does not allow it any more.
bool payload_of(Core& core, Qp& qp, const ReadResource& read, std::uint64_t address,
                std::uint32_t length) noexcept {
  ResponderState& r = qp.responder;
  if (length == 0) return true;  // needs no key: C9-88
  if (r.read_remote.fresh() && r.read_remote.rkey == read.rkey &&
      address >= r.read_remote.grant->address &&
      address + length <= r.read_remote.grant->address + r.read_remote.grant->length)
    return r.read_remote.verdict == KeyVerdict::kAllowed;
  return core.memory.open(r.read_remote, qp.accessor(), read.rkey, address, length,
                          verbs::Access::kRemoteRead) == KeyVerdict::kAllowed;
}

void finish(ResponderState& r, ReadResource& read) noexcept {
  read.next = read.packets;
  --r.reads_pending;
}

}  // namespace

bool has_room(const ResponderState& r) noexcept {
  // A READ that is answered again does not count: its requester may have got the first answer
  // already, and then rightly asks for the next READ.
  std::uint32_t unanswered = 0;
  for (std::uint32_t i = 0; i < r.read_count; ++i) {
    const ReadResource& read = r.reads[(r.read_begin + i) % kReadResourcesMax];
    unanswered += pending(read) && !read.replay ? 1U : 0U;
  }
  return unanswered < r.attributes.max_dest_rd_atomic;
}

void add(ResponderState& r, const net::Reth& reth, std::uint32_t packets) noexcept {
  if (r.read_count == r.attributes.max_dest_rd_atomic) {
    // has_room() and order: if the oldest waits, then it is answered again, and no longer wanted.
    if (pending(at(r, 0))) finish(r, at(r, 0));
    r.read_begin = static_cast<std::uint8_t>((r.read_begin + 1) % kReadResourcesMax);
  } else {
    ++r.read_count;
  }
  at(r, r.read_count - 1U) = {r.expected, packets,         0,         0,    reth.virtual_address,
                              reth.rkey,  reth.dma_length, r.msn + 1, false};
  ++r.reads_pending;
}

bool replay(const Qp& qp, ResponderState& r, Psn psn, const net::Reth& reth) noexcept {
  for (std::uint32_t i = 0; i < r.read_count; ++i) {
    ReadResource& read = at(r, i);
    const std::uint32_t from = (psn.value() - read.first_psn.value()) & Psn::kMask;
    if (from >= read.packets) continue;
    const std::uint64_t offset = std::uint64_t{from} * qp.mtu;
    if (reth.rkey != read.rkey || reth.virtual_address != read.address + offset ||
        reth.dma_length != read.length - offset)
      return false;
    if (pending(read) && read.next <= from) return true;  // on its way already
    if (!pending(read)) {
      ++r.reads_pending;
      read.replay = true;
    }
    read.start = read.next = from;
    return true;
  }
  return false;
}

Response build(Core& core, Qp& qp, packet::Frame& frame, Psn& revoked_psn) noexcept {
  ResponderState& r = qp.responder;
  ReadResource& read = oldest_pending(r);
  const std::uint64_t offset = std::uint64_t{read.next} * qp.mtu;
  const auto length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(qp.mtu, read.length - offset));
  if (!payload_of(core, qp, read, read.address + offset, length)) {
    revoked_psn = read.first_psn + read.next;
    finish(r, read);
    return read.replay ? Response::kSkipped : Response::kRevoked;
  }
  const net::OpcodeInfo& row = net::info(net::rc_read_response(position_of(read)));
  std::uint8_t* p = begin_packet(frame, qp, row, read.first_psn + read.next, {.payload = length});
  if (row.has(net::Header::kAeth))
    net::Aeth{net::Aeth::kAckUnlimited, read.msn}.build(p + row.offset(net::Header::kAeth));
  if (length > 0)
    frame.add_piece(reinterpret_cast<const std::uint8_t*>(read.address + offset), length);
  core.counters.tx_payload_bytes += length;
  if (++read.next == read.packets) --r.reads_pending;
  return Response::kBuilt;
}

void clear_pending(ResponderState& r) noexcept {
  for (std::uint32_t i = 0; i < r.read_count; ++i) at(r, i).next = at(r, i).packets;
  r.reads_pending = 0;
}

}  // namespace h4a::roce::read_resources
