// A burst on its way out: transport → UDP, IP and ICRC → ESP seal or copy → link header → port.
//
// Payload stays in application memory until the last step that must touch it: sealing encrypts it into
// the frame, a clear frame copies it. A retransmission passes here again and is sealed anew (DESIGN D7).
#include <algorithm>

#include "ipsec/esp.h"
#include "net/ether.h"
#include "net/icrc.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/udp.h"
#include "stack/stack.h"

namespace h4a::stack {
namespace {

using packet::Frame;

void prepend_link_header(Frame* frame, const MacAddress& to, const MacAddress& from) noexcept {
  const bool v4 = frame->data()[0] >> 4 == 4;
  net::EtherFields f;
  f.destination = to;
  f.source = from;
  f.type = v4 ? net::EtherType::kIpv4 : net::EtherType::kIpv6;
  if (frame->priority > 0) {  // a priority tag: VLAN 0 (IEEE 802.1Q §6.9)
    f.tag_count = 1;
    f.tags[0].priority = frame->priority;
  }
  net::build(frame->prepend(net::header_size(f)), f);
}

}  // namespace

std::size_t Stack::transmit_burst(Instant now) noexcept {
  std::size_t sent = flush_queue();
  if (queue_count_ > 0) return sent;  // the port is full: building more would only age it
  release_pending();
  solicit(now);

  CycleLap lap;
  std::array<Frame*, kBurstMax> frames;
  const std::size_t count = engine_.transmit(port_.pool(), frames, now);
  lap.add_to(cycles_.transport_transmit);
  build_and_queue({frames.data(), count}, now);
  lap.add_to(cycles_.build);
  return sent + flush_queue();
}

void Stack::build_and_queue(Frames frames, Instant now) noexcept {
  for (Frame* f : frames) add_network_headers(f, paths_[f->path]);
  // Runs of frames for one association are sealed together.
  while (!frames.empty()) {
    const AssociationId association = frames.front()->association;
    const auto end = std::find_if(frames.begin(), frames.end(),
                                  [&](const Frame* f) { return f->association != association; });
    const Frames run = frames.first(static_cast<std::size_t>(end - frames.begin()));
    const std::size_t good = protect(run, association);
    for (Frame* f : run.first(good)) queue_on_link(f, paths_[f->path], now);
    frames = frames.subspan(run.size());
  }
}

void Stack::add_network_headers(Frame* frame, const Path& path) noexcept {
  const std::size_t roce_size = frame->total_size() + net::kIcrcSize;
  net::UdpFields udp;
  udp.source_port = frame->udp_source_port;
  udp.destination_port = net::kRoceUdpPort;
  udp.length = static_cast<std::uint16_t>(net::UdpView::kSize + roce_size);
  net::build(frame->prepend(net::UdpView::kSize), udp);  // checksum 0: the ICRC is stronger (A17)

  std::size_t ip_size = net::Ipv4View::kSize;
  if (path.local.is_v4()) {
    net::Ipv4Fields ip;
    ip.tos = path.traffic_class;
    ip.total_length = static_cast<std::uint16_t>(ip_size + udp.length);
    ip.ttl = path.hop_limit;
    ip.source = path.local;
    ip.destination = path.remote;
    net::build(frame->prepend(ip_size), ip);
  } else {
    ip_size = net::Ipv6View::kSize;
    net::Ipv6Fields ip;
    ip.traffic_class = path.traffic_class;
    ip.payload_length = udp.length;
    ip.hop_limit = path.hop_limit;
    ip.source = path.local;
    ip.destination = path.remote;
    net::build(frame->prepend(ip_size), ip);
  }
  frame->l3_offset = 0;
  frame->transport_offset = static_cast<std::uint8_t>(ip_size);

  net::IcrcBuilder icrc(frame->bytes(), ip_size);
  for (const Frame::Piece& piece : frame->pieces()) icrc.add({piece.data, piece.size});
  if (!frame->tail().empty()) icrc.add(frame->tail());
  net::store_icrc(frame->append_tail(net::kIcrcSize), icrc.value());
}

// Makes the frames of one association whole. Returns how many are good, in front; drops the others.
std::size_t Stack::protect(Frames frames, AssociationId association) noexcept {
  if (association == kClear) {
    for (Frame* f : frames) f->flatten();
    return frames.size();
  }
  Associations::Association* a = associations_.find(association);
  if (a == nullptr || !a->outbound) {
    for (Frame* f : frames) drop(f, Drop::kNoSa);
    return 0;
  }
  const std::size_t good = ipsec::seal_burst(*a->outbound, frames);
  for (Frame* f : frames.subspan(good)) drop(f, f->drop);
  report_limits(association, a->outbound->soft_limit_reached(), a->outbound->exhausted(),
                a->outbound_reported);
  return good;
}

void Stack::queue_on_link(Frame* frame, const Path& path, Instant now) noexcept {
  if (frame->size() > port_.mtu()) return drop(frame, Drop::kMtuTooSmall);
  frame->priority = path.priority;
  if (path.remote.is_multicast()) {
    prepend_link_header(frame, net::multicast_mac(path.remote), mac_);
    queue(frame);
  } else if (const MacAddress* mac = neighbours_.resolve(path.next_hop, now)) {
    prepend_link_header(frame, *mac, mac_);
    queue(frame);
  } else if (neighbours_.hold(path.next_hop, frame)) {
    engine_.hold_path(frame->path);
  } else {
    drop(frame, Drop::kNoNeighbour);
  }
}

void Stack::release_pending() noexcept {
  std::array<Frame*, kBurstMax> frames;
  std::array<MacAddress, kBurstMax> macs;
  const std::size_t ready = neighbours_.take_ready(frames, macs);
  for (std::size_t i = 0; i < ready; ++i) {
    prepend_link_header(frames[i], macs[i], mac_);
    queue(frames[i]);
  }
  const std::size_t expired = neighbours_.take_expired(frames);
  if (ready + expired > 0) engine_.resume_paths();
  for (std::size_t i = 0; i < expired; ++i) drop(frames[i], Drop::kNoNeighbour);
}

void Stack::queue(Frame* frame) noexcept {
  if (queue_count_ == kQueueMax) return drop(frame, Drop::kTransmitFull);
  queue_[queue_count_++] = frame;
}

std::size_t Stack::flush_queue() noexcept {
  if (queue_count_ == 0) return 0;
  CycleLap lap;
  const std::size_t taken = port_.transmit({queue_.data(), queue_count_});
  std::copy(queue_.begin() + static_cast<std::ptrdiff_t>(taken),
            queue_.begin() + static_cast<std::ptrdiff_t>(queue_count_), queue_.begin());
  queue_count_ -= taken;
  lap.add_to(cycles_.port_transmit);
  return taken;
}

void Stack::drop(Frame* frame, Drop reason) noexcept {
  drops_.add(reason);
  port_.pool().release_one(frame);
}

}  // namespace h4a::stack
