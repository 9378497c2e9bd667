// What an IP host must answer itself: ARP (RFC 826), neighbour discovery (RFC 4861), echo (RFC 1122
// §3.2.2.6, RFC 4443 §4.2). Answers are built in the frame of the question; solicitations in a new one.
//
// A neighbour is remembered if it answers us or asks us. What it says of an address that we know already is
// believed whoever it speaks to (RFC 826), so that addresses can move: whoever is on the link can divert
// frames and stop traffic, but ESP keeps it from reading or changing any.
#include <algorithm>

#include "net/arp.h"
#include "net/ether.h"
#include "net/icmp.h"
#include "net/icmpv6.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/ndp.h"
#include "stack/stack.h"

namespace h4a::stack {
namespace {

using packet::Frame;

constexpr std::size_t kSolicitationsPerTurn = 8;

void write_ether(Frame* frame, const MacAddress& to, const MacAddress& from,
                 net::EtherType type) noexcept {
  net::EtherFields f;
  f.destination = to;
  f.source = from;
  f.type = type;
  net::build(frame->append(net::EtherView::kSize), f);
}

// Link and IPv6 header for an NDP message of `size` bytes; returns where the message goes.
std::uint8_t* write_ndp_headers(Frame* frame, const MacAddress& to, const MacAddress& from,
                                const IpAddress& source, const IpAddress& destination,
                                std::size_t size) noexcept {
  write_ether(frame, to, from, net::EtherType::kIpv6);
  net::Ipv6Fields ip;
  ip.payload_length = static_cast<std::uint16_t>(size);
  ip.next_header = net::IpProtocol::kIcmpv6;
  ip.hop_limit = net::kNdpHopLimit;
  ip.source = source;
  ip.destination = destination;
  net::build(frame->append(net::Ipv6View::kSize), ip);
  return frame->append(size);
}

// Sends a frame back where it came from; tags stay.
void swap_macs(Frame* frame, const MacAddress& ours) noexcept {
  MacAddress::load(frame->data() + MacAddress::kSize).store(frame->data());
  ours.store(frame->data() + MacAddress::kSize);
}

bool may_answer(const IpAddress& source) noexcept {
  return !source.is_unspecified() && source != IpAddress::v4(255, 255, 255, 255);
}

}  // namespace

Drop Stack::handle_arp(Frame* frame, const net::PacketView& view, Instant now) noexcept {
  const auto arp = net::ArpView::parse(Bytes(frame->bytes()).subspan(view.l3_offset));
  // Who claims an address must send from it: a damaged or lazily forged packet teaches us nothing.
  if (!arp || arp->sender_mac() != view.source_mac()) return Drop::kBadArp;
  const bool for_us = is_ours(arp->target_ip());
  if (is_ours(arp->sender_ip())) return Drop::kBadAddress;
  if (!arp->sender_ip().is_unspecified())
    neighbours_.learn(arp->sender_ip(), arp->sender_mac(), now, for_us);
  if (!for_us || arp->operation() != net::ArpOperation::kRequest) {
    port_.pool().release_one(frame);
    return Drop::kNone;
  }
  const net::ArpFields reply = net::arp_reply(*arp, mac_);
  frame->reset(kFrameHeadroomBytes);
  write_ether(frame, reply.target_mac, mac_, net::EtherType::kArp);
  net::build(frame->append(net::ArpView::kSize), reply);
  queue(frame);
  return Drop::kNone;
}

Drop Stack::handle_icmp(Frame* frame, const net::PacketView& view) noexcept {
  const MutableBytes message =
      frame->bytes().subspan(view.transport_offset, view.l3_end - view.transport_offset);
  const auto icmp = net::IcmpView::parse(message);
  if (!icmp || !icmp->checksum_ok()) return Drop::kBadIcmp;
  if (icmp->type() != net::IcmpType::kEchoRequest || icmp->code() != 0) return Drop::kIcmpUnhandled;
  if (!may_answer(view.source)) return Drop::kBadAddress;
  net::make_echo_reply(message);
  // Addresses swap places, options stay; the header's sum changes only by the TTL.
  std::uint8_t* ip = frame->data() + view.l3_offset;
  std::swap_ranges(ip + 12, ip + 16, ip + 16);
  const std::uint16_t before = load_be16(ip + 8);
  ip[8] = 64;
  store_be<2>(ip + 10, net::update_checksum(load_be16(ip + 10), before, load_be16(ip + 8)));
  swap_macs(frame, mac_);
  queue(frame);
  return Drop::kNone;
}

Drop Stack::handle_icmpv6(Frame* frame, const net::PacketView& view, Instant now) noexcept {
  frame->truncate(view.l3_end);
  const MutableBytes message = frame->bytes().subspan(view.transport_offset);
  const auto icmp = net::Icmpv6View::parse(message);
  if (!icmp || !icmp->checksum_ok(view.source, view.destination)) return Drop::kBadIcmp;
  switch (icmp->type()) {
    case net::Icmpv6Type::kNeighbourSolicitation:
    case net::Icmpv6Type::kNeighbourAdvertisement:
      return handle_ndp(frame, view, now);
    case net::Icmpv6Type::kEchoRequest:
      break;
    default:
      return Drop::kIcmpUnhandled;
  }
  if (!is_ours(view.destination) || !may_answer(view.source)) return Drop::kBadAddress;
  net::make_echo_reply_v6(message);
  std::uint8_t* ip = frame->data() + view.l3_offset;
  std::swap_ranges(ip + 8, ip + 24, ip + 24);
  ip[7] = 64;
  swap_macs(frame, mac_);
  queue(frame);
  return Drop::kNone;
}

Drop Stack::handle_ndp(Frame* frame, const net::PacketView& view, Instant now) noexcept {
  const auto ndp = net::NdpView::parse(Bytes(frame->bytes()).subspan(view.transport_offset));
  if (!ndp || !ndp->acceptable(view.source, view.destination, view.ttl)) return Drop::kBadIcmp;
  if (ndp->type() == net::Icmpv6Type::kNeighbourAdvertisement) {
    if (const auto mac = ndp->target_link_address(); mac && !is_ours(ndp->target()))
      neighbours_.learn(ndp->target(), *mac, now, false);
    port_.pool().release_one(frame);
    return Drop::kNone;
  }
  const IpAddress target = ndp->target();
  if (!is_ours(target)) return Drop::kBadAddress;
  const MacAddress to = view.source_mac();
  if (const auto mac = ndp->source_link_address(); mac && !is_ours(view.source))
    neighbours_.learn(view.source, *mac, now, true);
  net::NeighbourAdvertisement a;
  a.target = target;
  a.link_address = mac_;
  // A probe for duplicates comes from `::` and is answered to all nodes (RFC 4861 §7.2.4).
  const bool probe = view.source.is_unspecified();
  a.is_solicited = !probe;
  const IpAddress destination = probe ? net::all_nodes_group() : view.source;
  frame->reset(kFrameHeadroomBytes);
  std::uint8_t* message =
      write_ndp_headers(frame, probe ? net::multicast_mac(destination) : to, mac_, target,
                        destination, net::kNeighbourMessageSizeMax);
  (void)net::build_neighbour_advertisement(message, a, target, destination);
  queue(frame);
  return Drop::kNone;
}

void Stack::solicit(Instant now) noexcept {
  std::array<IpAddress, kSolicitationsPerTurn> due;
  const std::size_t n = neighbours_.due_solicitations(due, now);
  for (std::size_t i = 0; i < n; ++i) send_solicitation(due[i]);
}

void Stack::send_solicitation(const IpAddress& target) noexcept {
  const IpInterface* interface = interface_for(target);
  Frame* frame = port_.pool().allocate_one();
  if (interface == nullptr || frame == nullptr) {
    drops_.add(frame == nullptr ? Drop::kNoFrames : Drop::kNoRoute);
    if (frame != nullptr) port_.pool().release_one(frame);
    return;
  }
  const IpAddress& source = interface->address;
  if (target.is_v4()) {
    write_ether(frame, MacAddress::broadcast(), mac_, net::EtherType::kArp);
    net::build(frame->append(net::ArpView::kSize), net::arp_request(mac_, source, target));
  } else {
    const IpAddress group = net::solicited_node_group(target);
    std::uint8_t* message = write_ndp_headers(frame, net::multicast_mac(group), mac_, source, group,
                                              net::kNeighbourMessageSizeMax);
    (void)net::build_neighbour_solicitation(message, target, mac_, source, group);
  }
  queue(frame);
}

const IpInterface* Stack::interface_for(const IpAddress& target) const noexcept {
  const auto it = std::find_if(addresses_.begin(), addresses_.end(), [&](const IpInterface& i) {
    return i.address.same_prefix(target, i.prefix_bits);
  });
  return it == addresses_.end() ? nullptr : &*it;
}

}  // namespace h4a::stack
