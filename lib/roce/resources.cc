#include "roce/resources.h"

#include <algorithm>

#include "roce/packet_builder.h"

namespace h4a::roce::resources {
namespace {

using net::Position;

Resource& at(ResponderState& r, std::uint32_t i) noexcept {
  return r.resources[(r.resource_begin + i) % kResourcesMax];
}

bool pending(const Resource& resource) noexcept {
  return resource.next < resource.packets;
}

/// Looked for from the newest, since few wait and the others need not be touched.
Resource& oldest_pending(ResponderState& r) noexcept {
  std::uint32_t i = r.resource_count;
  for (std::uint32_t found = 0; i > 0 && found < r.resources_pending; --i)
    found += pending(at(r, i - 1)) ? 1U : 0U;
  return at(r, i);
}

/// The newest resource that `psn` belongs to, or nullptr.
Resource* find(ResponderState& r, Psn psn) noexcept {
  for (std::uint32_t i = r.resource_count; i > 0; --i) {
    Resource& resource = at(r, i - 1);
    if (((psn.value() - resource.first_psn.value()) & Psn::kMask) < resource.packets)
      return &resource;
  }
  return nullptr;
}

Position position_of(const Resource& read) noexcept {
  const bool first = read.next == read.start;
  const bool last = read.next + 1 == read.packets;
  if (first) return last ? Position::kOnly : Position::kFirst;
  return last ? Position::kLast : Position::kMiddle;
}

/// The bytes of the next packet, or false if the key does not allow it any more.
bool payload_of(Core& core, Qp& qp, const Resource& read, std::uint64_t address,
                std::uint32_t length) noexcept {
  ResponderState& r = qp.responder;
  if (length == 0) return true;  // needs no key: C9-88
  if (r.resource_remote.fresh() && r.resource_remote.rkey == read.rkey &&
      address >= r.resource_remote.grant->address &&
      address + length <= r.resource_remote.grant->address + r.resource_remote.grant->length)
    return r.resource_remote.verdict == KeyVerdict::kAllowed;
  return core.memory.open(r.resource_remote, qp.accessor(), read.rkey, address, length,
                          verbs::Access::kRemoteRead) == KeyVerdict::kAllowed;
}

void finish(ResponderState& r, Resource& resource) noexcept {
  resource.next = resource.packets;
  --r.resources_pending;
  if (resource.replay) --r.replays_pending;
}

/// The next place in the ring. If it is full the oldest goes: has_room() and the order of answers
/// mean that it was answered, or waits to be answered again and is no longer wanted.
Resource& take(ResponderState& r) noexcept {
  while (r.resource_count >= r.attributes.max_dest_rd_atomic) {
    if (pending(at(r, 0))) finish(r, at(r, 0));
    r.resource_begin = static_cast<std::uint8_t>((r.resource_begin + 1) % kResourcesMax);
    --r.resource_count;
  }
  ++r.resource_count;
  ++r.resources_pending;
  return at(r, r.resource_count - 1U);
}

void answer_again(ResponderState& r, Resource& resource, std::uint32_t from) noexcept {
  if (pending(resource) && resource.next <= from) return;  // on its way already
  if (!pending(resource)) {
    ++r.resources_pending;
    ++r.replays_pending;
    resource.replay = true;
  }
  resource.start = resource.next = from;
}

Response build_atomic(Qp& qp, Resource& atomic, packet::Frame& frame) noexcept {
  const net::OpcodeInfo& row = net::info(net::Opcode::kRcAtomicAcknowledge);
  std::uint8_t* p = begin_packet(frame, qp, row, atomic.first_psn, {});
  net::Aeth{ack_syndrome(qp), atomic.msn}.build(p + row.offset(net::Header::kAeth));
  net::AtomicAckEth{atomic.original}.build(p + row.offset(net::Header::kAtomicAckEth));
  finish(qp.responder, atomic);
  return Response::kBuilt;
}

}  // namespace

bool has_room(const ResponderState& r) noexcept {
  // One that is answered again does not count: its requester may have got the first answer
  // already, and then rightly asks for the next.
  return r.resources_pending - r.replays_pending < r.attributes.max_dest_rd_atomic;
}

void add_read(ResponderState& r, const net::Reth& reth, std::uint32_t packets) noexcept {
  Resource read;
  read.first_psn = r.expected;
  read.packets = packets;
  read.address = reth.virtual_address;
  read.rkey = reth.rkey;
  read.length = reth.dma_length;
  read.msn = r.msn + 1;
  take(r) = read;
}

void add_atomic(ResponderState& r, const net::AtomicEth& request, std::uint64_t original) noexcept {
  Resource atomic;
  atomic.first_psn = r.expected;
  atomic.packets = 1;
  atomic.address = request.virtual_address;
  atomic.rkey = request.rkey;
  atomic.msn = r.msn + 1;
  atomic.atomic = true;
  atomic.original = original;
  take(r) = atomic;
}

bool replay_read(const Qp& qp, ResponderState& r, Psn psn, const net::Reth& reth) noexcept {
  Resource* read = find(r, psn);
  if (read == nullptr || read->atomic) return false;
  const std::uint32_t from = (psn.value() - read->first_psn.value()) & Psn::kMask;
  const std::uint64_t offset = std::uint64_t{from} * qp.mtu;
  if (reth.rkey != read->rkey || reth.virtual_address != read->address + offset ||
      reth.dma_length != read->length - offset)
    return false;
  answer_again(r, *read, from);
  return true;
}

bool replay_atomic(ResponderState& r, Psn psn, const net::AtomicEth& request) noexcept {
  Resource* atomic = find(r, psn);
  if (atomic == nullptr || !atomic->atomic || request.rkey != atomic->rkey ||
      request.virtual_address != atomic->address)
    return false;
  answer_again(r, *atomic, 0);
  return true;
}

Response build(Core& core, Qp& qp, packet::Frame& frame, Psn& revoked_psn) noexcept {
  ResponderState& r = qp.responder;
  Resource& read = oldest_pending(r);
  if (read.atomic) return build_atomic(qp, read, frame);
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
    net::Aeth{ack_syndrome(qp), read.msn}.build(p + row.offset(net::Header::kAeth));
  if (length > 0)
    frame.add_piece(reinterpret_cast<const std::uint8_t*>(read.address + offset), length);
  core.counters.tx_payload_bytes += length;
  if (++read.next == read.packets) finish(r, read);
  return Response::kBuilt;
}

void clear_pending(ResponderState& r) noexcept {
  for (std::uint32_t i = 0; i < r.resource_count; ++i) at(r, i).next = at(r, i).packets;
  r.resources_pending = r.replays_pending = 0;
}

}  // namespace h4a::roce::resources
