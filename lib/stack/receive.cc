// A burst on its way in: classify → ESP open → UDP and ICRC → transport.
//
// Every frame ends in exactly one place: it is answered in its own buffer (control), or it comes back to
// the pool at the end of the turn, dropped frames with their reason counted.
#include <algorithm>

#include "ipsec/esp.h"
#include "net/esp.h"
#include "net/icrc.h"
#include "net/opcode.h"
#include "net/packet_view.h"
#include "net/udp.h"
#include "stack/stack.h"

namespace h4a::stack {
namespace {

using packet::Frame;

}  // namespace

std::size_t Stack::receive_burst(Instant now) noexcept {
  CycleLap lap;
  std::array<Frame*, kBurstMax> frames;
  const std::size_t count = port_.receive(frames);
  lap.add_to(cycles_.port_receive);
  if (count == 0) return 0;

  Batch esp, roce, done;
  for (std::size_t i = 0; i < count; ++i) classify(frames[i], now, esp, roce, done);
  lap.add_to(cycles_.classify);

  if (esp.count > 0) {
    const std::size_t good = ipsec::open_burst(associations_.inbound_table(), esp.span());
    report_inbound_limits(esp.span());
    std::copy_n(esp.frames.begin(), good,
                roce.frames.begin() + static_cast<std::ptrdiff_t>(roce.count));
    roce.count += good;
    for (Frame* f : esp.span().subspan(good)) {
      drops_.add(f->drop);
      done.add(f);
    }
    lap.add_to(cycles_.esp_open);
  }
  deliver(roce, done, now);
  port_.pool().release(done.span());
  return count;
}

void Stack::classify(Frame* frame, Instant now, Batch& esp, Batch& roce, Batch& done) noexcept {
  const auto view = net::parse_packet(frame->bytes());
  Drop reason = Drop::kNone;
  if (!view) {
    reason = view.error();
  } else if (!view->is_for(mac_)) {
    reason = Drop::kBadMac;
  } else if (view->type == net::EtherType::kArp) {
    reason = handle_arp(frame, *view, now);
  } else {
    reason = classify_ip(frame, *view, now, esp, roce);
  }
  if (reason == Drop::kNone) return;
  drops_.add(reason);
  done.add(frame);
}

Drop Stack::classify_ip(Frame* frame, const net::PacketView& view, Instant now, Batch& esp,
                        Batch& roce) noexcept {
  if (view.protocol == net::IpProtocol::kIcmpv6 && view.ip_version == 6)
    return handle_icmpv6(frame, view, now);
  if (!is_ours(view.destination) &&
      !(view.destination.is_multicast() && engine_.hears(view.destination)))
    return Drop::kBadAddress;
  frame->source = view.source;
  frame->destination = view.destination;
  frame->ecn_ce = view.ecn() == net::Ecn::kCongestionExperienced;
  frame->l3_offset = view.l3_offset;
  frame->transport_offset = view.transport_offset;
  frame->truncate(view.l3_end);
  switch (view.protocol) {
    case net::IpProtocol::kEsp:
      esp.add(frame);
      return Drop::kNone;
    case net::IpProtocol::kUdp:
      roce.add(frame);
      return Drop::kNone;
    case net::IpProtocol::kIcmp:
      if (view.destination.is_multicast()) return Drop::kBadAddress;
      return handle_icmp(frame, view);
    default:
      return Drop::kUnknownIpProtocol;
  }
}

// Strips a frame down to BTH, payload and pad. UDP inside ESP was proven by nobody yet.
Drop Stack::enter_transport(Frame* frame) noexcept {
  const auto udp = net::UdpView::parse(Bytes(frame->bytes()).subspan(frame->transport_offset));
  if (!udp) return Drop::kBadUdp;
  if (udp->destination_port() == net::kUdpEncapPort) {
    switch (net::classify_udp_encap(udp->payload())) {
      case net::UdpEncap::kKeepalive:
        return Drop::kUdpEncapKeepalive;
      case net::UdpEncap::kIke:
        return Drop::kUdpEncapIke;
      case net::UdpEncap::kBad:
        return Drop::kBadUdpEncap;
      case net::UdpEncap::kEsp:
        return Drop::kUnknownUdpPort;
    }
  }
  if (udp->destination_port() != net::kRoceUdpPort) return Drop::kUnknownUdpPort;
  if (udp->payload().size() < net::kBthSize + net::kIcrcSize) return Drop::kTruncated;

  const std::size_t l3 = frame->l3_offset;
  const std::size_t end = frame->transport_offset + udp->bytes().size();
  const std::size_t icrc_at = end - net::kIcrcSize;
  frame->udp_source_port = udp->source_port();
  const std::uint32_t computed =
      net::icrc_in_place(frame->bytes().subspan(l3, icrc_at - l3), frame->transport_offset - l3);
  if (computed != net::load_icrc(frame->data() + icrc_at)) return Drop::kBadIcrc;
  frame->truncate(icrc_at);
  const std::size_t bth = frame->transport_offset + net::UdpView::kSize;
  frame->network_size = static_cast<std::uint8_t>(bth - l3);
  frame->trim_front(bth);
  return Drop::kNone;
}

void Stack::deliver(Batch& roce, Batch& done, Instant now) noexcept {
  if (roce.count == 0) return;
  CycleLap lap;
  Batch good;
  for (Frame* f : roce.span()) {
    const Drop reason = enter_transport(f);
    if (reason == Drop::kNone) {
      good.add(f);
      engine_.expect(*f);
    } else {
      drops_.add(reason);
    }
    done.add(f);
  }
  lap.add_to(cycles_.icrc_check);
  if (good.count > 0) engine_.receive(good.span(), now);
  lap.add_to(cycles_.transport_receive);
}

bool Stack::is_ours(const IpAddress& ip) const noexcept {
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&](const IpInterface& i) { return i.address == ip; });
}

}  // namespace h4a::stack
