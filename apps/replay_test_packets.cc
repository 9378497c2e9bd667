// Built forwards: every packet here is valid; the tests spoil it afterwards.
#include "apps/replay_test_packets.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "base/assert.h"
#include "ipsec/aead.h"
#include "ipsec/esp.h"
#include "net/ether.h"
#include "net/icrc.h"
#include "net/ipv4.h"
#include "net/ipv6.h"
#include "net/udp.h"
#include "packet/frame_pool.h"

namespace h4a::apps::test {
namespace {

void append(Packet& to, Bytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// BTH and the extended headers of the opcode's row, filled with values that are easy to recognise.
Packet transport_headers(const RoceSpec& spec) {
  const net::OpcodeInfo& row = net::info(spec.opcode);
  Packet h(row.header_length());
  net::Bth bth;
  bth.opcode = spec.opcode;
  bth.pad_count = net::pad_for(spec.payload_bytes);
  bth.dest_qp = Qpn(spec.dest_qp);
  bth.psn = Psn(spec.psn);
  bth.ack_req = true;
  bth.build(h.data());
  const auto at = [&h, &row](net::Header header) { return h.data() + row.offset(header); };
  if (row.has(net::Header::kReth))
    net::Reth{0x1122'3344'5566'7788, Rkey(0xabcd), static_cast<std::uint32_t>(spec.payload_bytes)}
        .build(at(net::Header::kReth));
  if (row.has(net::Header::kAeth)) net::Aeth{spec.syndrome, Msn(7)}.build(at(net::Header::kAeth));
  if (row.has(net::Header::kDeth)) net::Deth{0x1, Qpn(0x99)}.build(at(net::Header::kDeth));
  if (row.has(net::Header::kImmDt)) net::ImmDt{0xcafe}.build(at(net::Header::kImmDt));
  if (row.has(net::Header::kIeth)) net::Ieth{Rkey(0xabcd)}.build(at(net::Header::kIeth));
  if (row.has(net::Header::kAtomicEth))
    net::AtomicEth{8, Rkey(0xabcd), 1, 2}.build(at(net::Header::kAtomicEth));
  return h;
}

}  // namespace

IpAddress address(bool v6, int host) {
  return *IpAddress::parse(v6 ? fmt::format("fd99::{}", host) : fmt::format("10.99.0.{}", host));
}

Packet ip_packet(bool v6, std::uint8_t protocol, Bytes payload) {
  Packet p;
  if (v6) {
    net::Ipv6Fields f;
    f.payload_length = static_cast<std::uint16_t>(payload.size());
    f.next_header = static_cast<net::IpProtocol>(protocol);
    f.source = address(true, 1);
    f.destination = address(true, 2);
    p.resize(net::Ipv6View::kSize);
    net::build(p.data(), f);
  } else {
    net::Ipv4Fields f;
    f.total_length = static_cast<std::uint16_t>(net::Ipv4View::kSize + payload.size());
    f.protocol = static_cast<net::IpProtocol>(protocol);
    f.source = address(false, 1);
    f.destination = address(false, 2);
    p.resize(net::Ipv4View::kSize);
    net::build(p.data(), f);
  }
  append(p, payload);
  return p;
}

Packet udp_datagram(std::uint16_t source_port, std::uint16_t port, Bytes payload) {
  Packet p(net::UdpView::kSize);
  const auto length = static_cast<std::uint16_t>(p.size() + payload.size());
  net::build(p.data(), net::UdpFields{source_port, port, length, 0});
  append(p, payload);
  return p;
}

Packet roce_packet(const RoceSpec& spec) {
  Packet transport = transport_headers(spec);
  for (std::size_t i = 0; i < spec.payload_bytes; ++i)
    transport.push_back(static_cast<std::uint8_t>(i * 7 + spec.psn));
  transport.resize(transport.size() + net::pad_for(spec.payload_bytes) + net::kIcrcSize);
  Packet p = ip_packet(spec.v6, kUdp, udp_datagram(0xc000, net::kRoceUdpPort, transport));
  const std::size_t covered = p.size() - net::kIcrcSize;
  const std::size_t udp_offset = spec.v6 ? net::Ipv6View::kSize : net::Ipv4View::kSize;
  net::store_icrc(&p[covered], net::icrc(Bytes(p).first(covered), udp_offset));
  return p;
}

Packet ethernet_frame(Bytes ip_packet, std::size_t vlan_tags) {
  net::EtherFields f;
  f.destination = MacAddress({2, 0, 0, 0, 0, 2});
  f.source = MacAddress({2, 0, 0, 0, 0, 1});
  f.tag_count = vlan_tags;
  for (std::size_t i = 0; i < vlan_tags; ++i) f.tags[i].id = static_cast<std::uint16_t>(10 + i);
  f.type = ip_packet[0] >> 4 == 6 ? net::EtherType::kIpv6 : net::EtherType::kIpv4;
  Packet frame(net::header_size(f));
  net::build(frame.data(), f);
  append(frame, ip_packet);
  return frame;
}

Packet key_material(std::size_t size) {
  Packet key(size);
  for (std::size_t i = 0; i < size; ++i) key[i] = static_cast<std::uint8_t>(i);
  return key;
}

std::unique_ptr<ipsec::OutboundSa> outbound_sa(std::uint32_t spi, std::size_t key_size, bool esn,
                                               std::uint64_t first, bool v6) {
  ipsec::SaConfig config;
  config.spi = Spi(spi);
  config.source = address(v6, 1);
  config.destination = address(v6, 2);
  config.suite = key_size == 20 ? EspSuite::kAesGcm128 : EspSuite::kAesGcm256;
  config.key = Secret<kEspKeyMaterialMax>(key_material(key_size));
  config.esn = esn;
  config.first_sequence = first;
  auto sa = ipsec::make_outbound(std::move(config));
  H4A_ASSERT(sa.has_value());
  return std::move(*sa);
}

Packet seal_transport(ipsec::OutboundSa& sa, Bytes ip_packet) {
  packet::HeapFramePool pool(1);
  packet::Frame* frame = pool.allocate_one();
  std::memcpy(frame->append(ip_packet.size()), ip_packet.data(), ip_packet.size());
  frame->transport_offset = ip_packet[0] >> 4 == 6 ? net::Ipv6View::kSize : net::Ipv4View::kSize;
  H4A_ASSERT(ipsec::seal_burst(sa, {&frame, 1}) == 1);
  Packet sealed(frame->bytes().begin(), frame->bytes().end());
  pool.release_one(frame);
  return sealed;
}

Packet esp_packet(const EspSpec& spec, Bytes plaintext, bool append_trailer) {
  Packet text(plaintext.begin(), plaintext.end());
  if (append_trailer) {
    const auto pad = static_cast<std::uint8_t>((4 - (text.size() + 2) % 4) % 4);
    for (std::uint8_t i = 1; i <= pad; ++i) text.push_back(i);
    text.push_back(pad);
    text.push_back(spec.next_header);
  }
  Packet p(8 + 8 + text.size() + spec.icv_size);
  store_be<4>(p.data(), spec.spi);
  store_be<4>(&p[4], spec.sequence);
  store_be<8>(&p[8], spec.sequence);
  const Packet key = key_material(spec.key_size);
  auto aead =
      ipsec::make_aes_gcm(Bytes(key).first(key.size() - 4), Bytes(key).last(4), spec.icv_size);
  H4A_ASSERT(aead.has_value());
  ipsec::SealJob job;
  job.segment_count = 0;
  job.out = &p[16];
  job.add_segment(text.data(), text.size());
  job.tag = &p[16 + text.size()];
  job.iv = &p[8];
  store_be<4>(job.aad.data(), spec.spi);
  job.aad_size = spec.esn ? 12 : 8;
  if (spec.esn) {
    store_be<8>(&job.aad[4], spec.sequence);
  } else {
    store_be<4>(&job.aad[4], spec.sequence);
  }
  (*aead)->seal({&job, 1});
  return p;
}

std::string key_row(std::uint32_t spi, std::size_t key_size) {
  return fmt::format(
      "\"*\",\"*\",\"*\",\"{}\",\"AES-GCM with 16 octet ICV "
      "[RFC4106]\",\"0x{:02x}\",\"NULL\",\"\"\n",
      spi, fmt::join(key_material(key_size), ""));
}

}  // namespace h4a::apps::test
