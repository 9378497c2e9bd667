#include "apps/replay_as_facts.h"

#include <algorithm>
#include <set>

#include "base/limits.h"

namespace h4a::apps {
namespace {

using net::Header;
using net::Operation;

constexpr std::uint16_t kMtus[] = {256, 512, 1024, 2048, 4096};

bool is_request(const RecordedPacket& p) noexcept {
  return p.packet().row().is_request();
}

/// FIRST and MIDDLE are full. Without any, the smallest that all payloads fit, and at least 1024.
std::uint16_t mtu_of(const Conversation& c) {
  std::size_t largest = 1024;
  for (const RecordedPacket* p : c.packets) {
    const net::TransportPacket packet = p->packet();
    const std::size_t size = packet.payload().size();
    if (packet.row().has_payload && !packet.row().ends() && size > 0)
      return *std::find_if(std::begin(kMtus), std::end(kMtus) - 1,
                           [&](std::uint16_t m) { return m >= size; });
    largest = std::max(largest, size);
  }
  return *std::find_if(std::begin(kMtus), std::end(kMtus) - 1,
                       [&](std::uint16_t m) { return m >= largest; });
}

/// Requests of one direction. The base is half the PSN space before the first of them.
PsnMap requests_of(const Conversation& c, bool of_host) {
  PsnMap map;
  bool based = false;
  for (const RecordedPacket* p : c.packets) {
    if (c.from_host(*p) != of_host || !is_request(*p)) continue;
    const Psn psn = p->packet().bth().psn();
    if (!based) map.set_base(psn - (1U << 23));
    based = true;
    map.add(psn, *p);
  }
  return map;
}

/// PSNs of the peer's requests that the host refused for their key.
std::set<std::uint32_t> refused_keys(const Conversation& c) {
  std::set<std::uint32_t> psns;
  for (const RecordedPacket* p : c.packets) {
    const net::TransportPacket packet = p->packet();
    if (c.from_host(*p) && packet.row().has(Header::kAeth) &&
        packet.aeth().kind() == net::AckKind::kNakRemoteAccess)
      psns.insert(packet.bth().psn().value());
  }
  return psns;
}

void find_memory(const Conversation& c, Facts& facts) {
  const auto refused = refused_keys(c);
  for (const RecordedPacket* p : c.packets) {
    if (c.from_host(*p) || !is_request(*p)) continue;
    const net::TransportPacket packet = p->packet();
    facts.inbound_bytes += packet.payload().size();
    if (packet.row().has(Header::kIeth)) facts.memory[packet.ieth().rkey.value()].window = true;
    const Reach reach = reach_of(packet);
    const bool wraps = reach.address + reach.length < reach.address;
    if (reach.length == 0 || wraps || refused.contains(packet.bth().psn().value())) continue;
    ReachedMemory& m = facts.memory[reach.rkey.value()];
    const bool fresh = m.begin == m.end;
    m.begin = fresh ? reach.address : std::min(m.begin, reach.address);
    m.end = fresh ? reach.address + reach.length : std::max(m.end, reach.address + reach.length);
  }
}

/// The message that starts with `first`. @return false if it is not there as a whole.
bool read_message(const PsnMap& requests, const RecordedPacket& first, std::uint16_t mtu,
                  Message& m) {
  const net::TransportPacket head = first.packet();
  m.first_psn = head.bth().psn();
  m.first = m.last = &first;
  m.packets = psns_of(head, mtu);
  if (head.row().operation == Operation::kReadRequest)
    return head.reth().dma_length <= kMessageMaxBytes;
  if (head.row().has(Header::kAtomicEth)) return true;
  if (!head.row().starts()) return false;
  for (m.packets = 1;; ++m.packets) {
    const net::TransportPacket packet = m.last->packet();
    m.payload.insert(m.payload.end(), packet.payload().begin(), packet.payload().end());
    if (packet.row().ends()) return true;
    m.last = requests.find(m.first_psn + m.packets);
    if (m.last == nullptr || m.last->packet().row().starts()) return false;
  }
}

void find_messages(Facts& facts) {
  if (facts.requests_out.empty()) return;
  const Psn end = facts.requests_out.last() + 1;
  for (Psn psn = facts.sq_psn; psn.since(end) < 0;) {
    const RecordedPacket* first = facts.requests_out.find(psn);
    Message m;
    facts.messages_cut =
        first == nullptr || !read_message(facts.requests_out, *first, facts.mtu, m);
    if (facts.messages_cut) return;
    psn = psn + m.packets;
    facts.messages.push_back(std::move(m));
  }
}

void find_rnr_timer(const Conversation& c, Facts& facts) {
  for (const RecordedPacket* p : c.packets) {
    const net::TransportPacket packet = p->packet();
    if (!c.from_host(*p) || !packet.row().has(Header::kAeth)) continue;
    if (packet.aeth().kind() != net::AckKind::kRnrNak) continue;
    facts.rnr_timer = packet.aeth().code();
    return;
  }
}

}  // namespace

std::uint32_t psns_of(const net::TransportPacket& p, std::uint16_t mtu) noexcept {
  if (p.row().operation != Operation::kReadRequest) return 1;
  const std::uint32_t length = p.reth().dma_length;
  return length == 0 ? 1 : (length - 1) / mtu + 1;
}

Reach reach_of(const net::TransportPacket& p) noexcept {
  if (p.row().has(Header::kReth)) {
    const net::Reth reth = p.reth();
    return {reth.virtual_address, reth.dma_length, reth.rkey};
  }
  if (!p.row().has(Header::kAtomicEth)) return {};
  const net::AtomicEth atomic = p.atomic_eth();
  return {atomic.virtual_address, 8, atomic.rkey};
}

Facts facts_of(const Conversation& c) {
  Facts facts;
  facts.mtu = mtu_of(c);
  facts.requests_in = requests_of(c, false);
  facts.requests_out = requests_of(c, true);
  if (!facts.requests_in.empty()) facts.rq_psn = facts.requests_in.first();
  if (!facts.requests_out.empty()) facts.sq_psn = facts.requests_out.first();
  find_memory(c, facts);
  find_messages(facts);
  find_rnr_timer(c, facts);
  return facts;
}

}  // namespace h4a::apps
