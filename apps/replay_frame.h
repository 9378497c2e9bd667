// Dissector: says of one captured frame what it is and what a receiving stack would do with it.
//
// It walks link header, IP, UDP, ESP, RoCE in this order, fills in what it learns, and stops at the
// first thing that is wrong. Inside an ESP packet that a key opened, the walk goes on with the inner
// packet: in transport mode that is the outer IP header with the fields it had before ESP.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "apps/replay_esp.h"
#include "apps/replay_report.h"
#include "base/bytes.h"
#include "net/capture.h"
#include "net/packet_view.h"

namespace h4a::apps {

class Dissector {
 public:
  /// Borrows the opener, whose sequence state the frames advance.
  explicit Dissector(EspOpener& opener) : opener_(opener) {}

  /// Sees each transport packet, BTH to pad, whose ICRC and structure are right; inside ESP too. The
  /// view is of the IP packet it lies in.
  using TransportHook = std::function<void(const FrameReport&, const net::PacketView&, Bytes)>;
  void on_transport(TransportHook hook) { hook_ = std::move(hook); }

  /// Never fails: whatever the bytes are, the report says it.
  [[nodiscard]] FrameReport dissect(const net::CaptureRecord& record, std::uint64_t number);

 private:
  void ethernet(Bytes frame, FrameReport& r);
  void ip_of_version(unsigned version, Bytes packet, FrameReport& r);
  void rocev1(Bytes packet, FrameReport& r) const;
  void arp(Bytes packet, FrameReport& r) const;
  void ip(Bytes packet, FrameReport& r, bool inner);
  void transport(const net::PacketView& view, FrameReport& r, bool inner);
  void udp(const net::PacketView& view, FrameReport& r, bool inner);
  void roce(const net::PacketView& view, FrameReport& r) const;
  void icmp(const net::PacketView& view, FrameReport& r) const;
  void udp_encap(const net::PacketView& view, FrameReport& r);
  void esp(const net::PacketView& view, Bytes packet, FrameReport& r);
  void opened(const net::PacketView& view, const OpenedEsp& esp, FrameReport& r);
  [[nodiscard]] Bytes rebuild(const net::PacketView& view, const OpenedEsp& esp);

  EspOpener& opener_;
  std::vector<std::uint8_t> inner_;
  TransportHook hook_;
};

}  // namespace h4a::apps
