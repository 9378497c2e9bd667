#include "drivers_glue/dpdk/ethdev_port.h"

#include <algorithm>
#include <rte_ethdev.h>
#include <utility>

#include "drivers_glue/dpdk/eal.h"
#include "drivers_glue/dpdk/mbuf.h"

namespace h4a::dpdk {
namespace {

constexpr std::size_t kEthernetBytes = 14;
constexpr std::size_t kTagBytes = 4;
constexpr std::size_t kTagsMax = 2;

[[nodiscard]] bool is_tag(std::uint16_t ethertype) noexcept {
  return ethertype == 0x8100 || ethertype == 0x88a8;  // IEEE 802.1Q, 802.1ad
}

/// Bytes in front of the layer-3 packet: 14, 18 or 22. `size` >= 14.
[[nodiscard]] std::size_t link_header_bytes(const std::uint8_t* p, std::size_t size) noexcept {
  std::size_t n = kEthernetBytes;
  for (std::size_t tags = 0; tags < kTagsMax && n + kTagBytes <= size; ++tags, n += kTagBytes)
    if (!is_tag(load_be16(p + n - 2))) break;
  return n;
}

[[nodiscard]] bool fits_mtu(const std::uint8_t* p, std::size_t size, std::size_t mtu) noexcept {
  return size <= mtu + kEthernetBytes || size <= mtu + link_header_bytes(p, size);
}

/// Hands a frame's bytes to the driver's view of the same buffer.
[[nodiscard]] rte_mbuf* prepare(packet::Frame* f) noexcept {
  H4A_ASSERT(f->pieces().empty() && f->tail().empty());
  rte_mbuf* m = to_mbuf(f);
  m->data_off = static_cast<std::uint16_t>(f->begin());
  m->data_len = static_cast<std::uint16_t>(f->size());
  m->pkt_len = static_cast<std::uint32_t>(f->size());
  m->ol_flags = 0;
  return m;
}

}  // namespace

EthdevPort::EthdevPort(EthdevConfig config) noexcept : config_(std::move(config)) {}

EthdevPort::~EthdevPort() {
  if (config_.guard) config_.guard->enter_to_close();
  remove_ethdev(config_.port_id);
  if (config_.guard) config_.guard->leave();
  config_.guard.reset();
  if (config_.on_closed) config_.on_closed();
}

std::size_t EthdevPort::receive(std::span<packet::Frame*> out) noexcept {
  if (!thread_registered_) {
    register_thread();
    thread_registered_ = true;
  }
  if (config_.guard && !config_.guard->enter()) return 0;
  rte_mbuf* mbufs[kBurstMax];
  const std::size_t n = rte_eth_rx_burst(
      config_.port_id, 0, mbufs, static_cast<std::uint16_t>(std::min(out.size(), kBurstMax)));
  if (config_.guard) config_.guard->leave();

  std::size_t good = 0;
  for (std::size_t i = 0; i < n; ++i) {
    rte_mbuf* m = mbufs[i];
    const bool whole = m->nb_segs == 1 && ((m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) == 0 ||
                                           rte_vlan_insert(&m) == 0);
    const std::uint8_t* data = rte_pktmbuf_mtod(m, const std::uint8_t*);
    if (!whole || m->data_len < kEthernetBytes || !fits_mtu(data, m->data_len, config_.mtu)) {
      counters_.drops.add(whole && m->data_len < kEthernetBytes ? Drop::kTruncated
                                                                : Drop::kOversize);
      rte_pktmbuf_free(m);
      continue;
    }
    packet::Frame* f = to_frame(m);
    f->set_data(m->data_off, m->data_len);
    counters_.rx_bytes += m->data_len;
    out[good++] = f;
  }
  counters_.rx_frames += good;
  return good;
}

bool EthdevPort::fits(const packet::Frame& frame) const noexcept {
  return frame.size() >= kEthernetBytes && fits_mtu(frame.data(), frame.size(), config_.mtu);
}

void EthdevPort::discard(packet::Frame* frame, Drop reason) noexcept {
  counters_.drops.add(reason);
  config_.pool->release_one(frame);
}

/// Sends frames that all fit, at most kBurstMax. @return how many the driver took.
std::size_t EthdevPort::send_run(std::span<packet::Frame* const> frames) noexcept {
  rte_mbuf* mbufs[kBurstMax];
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    mbufs[i] = prepare(frames[i]);
    bytes += frames[i]->size();
  }
  if (config_.guard && !config_.guard->enter()) return 0;
  const std::size_t sent =
      rte_eth_tx_burst(config_.port_id, 0, mbufs, static_cast<std::uint16_t>(frames.size()));
  if (config_.guard) config_.guard->leave();
  for (std::size_t i = sent; i < frames.size(); ++i) bytes -= frames[i]->size();
  counters_.tx_frames += sent;
  counters_.tx_bytes += bytes;
  return sent;
}

std::size_t EthdevPort::transmit(std::span<packet::Frame* const> frames) noexcept {
  std::size_t taken = 0;
  while (taken < frames.size()) {
    const auto rest = frames.subspan(taken);
    std::size_t run = 0;
    while (run < rest.size() && run < kBurstMax && fits(*rest[run])) ++run;
    if (run == 0) {
      discard(rest[0], rest[0]->size() < kEthernetBytes ? Drop::kTruncated : Drop::kOversize);
      ++taken;
      continue;
    }
    const std::size_t sent = send_run(rest.first(run));
    taken += sent;
    if (sent < run) break;
  }
  return taken;
}

void remove_ethdev(std::uint16_t port_id) noexcept {
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(port_id, &info) == 0;
  rte_eth_dev_stop(port_id);
  rte_eth_dev_close(port_id);
  if (known && info.device != nullptr) rte_dev_remove(info.device);
}

}  // namespace h4a::dpdk
