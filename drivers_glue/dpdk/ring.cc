// ring: two ports over two rte_rings, one for each direction, on one pool. Frames change hands by
// pointer; nothing is copied.
#include <array>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <rte_bus_vdev.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "drivers_glue/dpdk/devices.h"
#include "drivers_glue/dpdk/eal.h"

namespace h4a::dpdk {
namespace {

/// Owned by both ends; the second to go drains and frees the rings.
class RingPair {
 public:
  static Result<std::shared_ptr<RingPair>> create(std::size_t frames, std::uint16_t slots,
                                                  std::uint16_t mtu, std::string& error);
  RingPair(std::shared_ptr<MbufPool> pool, std::array<rte_ring*, 2> rings, std::uint16_t mtu)
      : pool_(std::move(pool)), rings_(rings), mtu_(mtu) {}
  RingPair(const RingPair&) = delete;
  RingPair& operator=(const RingPair&) = delete;
  ~RingPair();

  /// Makes the port of one end: it receives from ring `end` and transmits into the other.
  static PortResult open_end(const std::shared_ptr<RingPair>& pair, std::size_t end,
                             std::optional<MacAddress> mac, std::string& error);

 private:
  std::shared_ptr<MbufPool> pool_;
  std::array<rte_ring*, 2> rings_;
  std::uint16_t mtu_;
};

Result<std::shared_ptr<RingPair>> RingPair::create(std::size_t frames, std::uint16_t slots,
                                                   std::uint16_t mtu, std::string& error) {
  auto pool = MbufPool::create(frames, kDataRoomBytes, error);
  if (!pool) return failure(pool.error());
  std::array<rte_ring*, 2> rings{};
  const std::string base = next_device_name("h4a_ring_");
  for (std::size_t i = 0; i < rings.size(); ++i)
    rings[i] = rte_ring_create(fmt::format("{}_{}", base, i).c_str(), slots, SOCKET_ID_ANY,
                               RING_F_SP_ENQ | RING_F_SC_DEQ);
  if (rings[0] == nullptr || rings[1] == nullptr) {
    for (rte_ring* r : rings) rte_ring_free(r);
    error = fmt::format("ring: no memory for two rings of {} slots (a power of two)", slots);
    return failure(Error::kNoMemory);
  }
  return std::make_shared<RingPair>(*std::move(pool), rings, mtu);
}

RingPair::~RingPair() {
  for (rte_ring* ring : rings_) {
    void* m = nullptr;
    while (rte_ring_dequeue(ring, &m) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
    rte_ring_free(ring);
  }
}

PortResult RingPair::open_end(const std::shared_ptr<RingPair>& pair, std::size_t end,
                              std::optional<MacAddress> mac, std::string& error) {
  clear_log();
  rte_ring* rx[] = {pair->rings_[end]};
  rte_ring* tx[] = {pair->rings_[1 - end]};
  const int id = rte_eth_from_rings(next_device_name("h4a_end").c_str(), rx, 1, tx, 1,
                                    static_cast<unsigned>(SOCKET_ID_ANY));
  if (id < 0) {
    error = fmt::format("ring: DPDK cannot make the device: {}", last_log());
    return failure(Error::kIo);
  }
  const auto port_id = static_cast<std::uint16_t>(id);
  if (const auto r = set_up_queues(port_id, *pair->pool_, {}, error); !r) return failure(r.error());
  if (const auto r = start_device(port_id, error); !r) return failure(r.error());
  EthdevConfig config;
  config.port_id = port_id;
  config.pool = pair->pool_;
  config.mac = mac ? *mac : random_mac();
  config.mtu = pair->mtu_;
  config.on_closed = [pair] {};  // keeps rings and pool until the device is gone
  return std::make_unique<EthdevPort>(std::move(config));
}

std::uint16_t ring_mtu(std::uint16_t wanted) noexcept {
  return wanted != 0 ? wanted : 9000;
}

/// First ends that wait for their second, by name.
struct Waiting {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<RingPair>> pairs;
};
Waiting& waiting() {
  static Waiting w;
  return w;
}

}  // namespace

PortResult open_ring_end(const PortSpec& spec, const PortOptions& options, std::string& error) {
  Waiting& w = waiting();
  const std::lock_guard lock(w.mutex);
  if (const auto it = w.pairs.find(spec.target); it != w.pairs.end()) {
    const std::shared_ptr<RingPair> pair = it->second.lock();
    w.pairs.erase(it);
    if (pair) return RingPair::open_end(pair, 1, spec.mac, error);
  }
  auto pair = RingPair::create(frame_count(spec, options), options.ring_descriptors,
                               ring_mtu(wanted_mtu(spec, options)), error);
  if (!pair) return failure(pair.error());
  auto port = RingPair::open_end(*pair, 0, spec.mac, error);
  if (port) w.pairs[spec.target] = *pair;
  return port;
}

Result<std::pair<std::unique_ptr<packet::Port>, std::unique_ptr<packet::Port>>> open_ring_pair(
    const PortOptions& options, std::string& error) {
  if (const auto r = start_eal({}, error); !r) return failure(r.error());
  auto pair =
      RingPair::create(options.frames, options.ring_descriptors, ring_mtu(options.mtu), error);
  if (!pair) return failure(pair.error());
  auto a = RingPair::open_end(*pair, 0, std::nullopt, error);
  if (!a) return failure(a.error());
  auto b = RingPair::open_end(*pair, 1, std::nullopt, error);
  if (!b) return failure(b.error());
  return std::pair{*std::move(a), *std::move(b)};
}

}  // namespace h4a::dpdk
