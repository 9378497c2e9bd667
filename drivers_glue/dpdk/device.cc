// What all devices have in common: names, creation, queues, start.
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "drivers_glue/dpdk/devices.h"
#include "drivers_glue/dpdk/eal.h"

namespace h4a::dpdk {
namespace {

std::string because(int code) {
  const std::string log = last_log();
  return log.empty() ? std::string(rte_strerror(code < 0 ? -code : code)) : log;
}

}  // namespace

MacAddress random_mac() {
  std::uint8_t b[MacAddress::kSize];
  SystemRandom().fill(b);
  b[0] = static_cast<std::uint8_t>((b[0] & 0xfcU) | 0x02U);
  return MacAddress::load(b);
}

std::string next_device_name(std::string_view driver) {
  static std::atomic<unsigned> serial{0};
  return fmt::format("{}{}", driver, serial++);
}

Result<std::uint16_t> add_device(const std::string& name, const std::string& arguments,
                                 std::string& error) {
  clear_log();
  std::uint16_t port_id = 0;
  const int code = rte_eal_hotplug_add("vdev", name.c_str(), arguments.c_str());
  if (code != 0 || rte_eth_dev_get_port_by_name(name.c_str(), &port_id) != 0) {
    error = fmt::format("DPDK cannot make the device: {}", because(code));
    return failure(code == -ENOMEM ? Error::kNoMemory : Error::kIo);
  }
  return port_id;
}

Result<void> set_up_queues(std::uint16_t port_id, MbufPool& pool, const QueueSetup& setup,
                           std::string& error) {
  clear_log();
  rte_eth_conf conf{};
  conf.rxmode.mtu = setup.driver_mtu;
  conf.intr_conf.rxq = setup.rx_interrupt ? 1 : 0;
  std::uint16_t rx = setup.descriptors;
  std::uint16_t tx = setup.descriptors;
  int code = rte_eth_dev_configure(port_id, 1, 1, &conf);
  if (code == 0) code = rte_eth_dev_adjust_nb_rx_tx_desc(port_id, &rx, &tx);
  if (code == 0)
    code = rte_eth_rx_queue_setup(port_id, 0, rx, static_cast<unsigned>(SOCKET_ID_ANY), nullptr,
                                  pool.mempool());
  if (code == 0)
    code = rte_eth_tx_queue_setup(port_id, 0, tx, static_cast<unsigned>(SOCKET_ID_ANY), nullptr);
  if (code == 0) return {};
  error = fmt::format("the device does not accept its queues: {}", because(code));
  remove_ethdev(port_id);
  return failure(Error::kIo);
}

Result<void> start_device(std::uint16_t port_id, std::string& error) {
  clear_log();
  const int code = rte_eth_dev_start(port_id);
  if (code == 0) {
    // Neighbour solicitations and datagrams to groups come to many MAC addresses; what nobody here asked
    // for is dropped by its IP address. Devices that cannot filter have no such call.
    static_cast<void>(rte_eth_allmulticast_enable(port_id));
    return {};
  }
  error = fmt::format("the device does not start: {}", because(code));
  remove_ethdev(port_id);
  return failure(Error::kIo);
}

}  // namespace h4a::dpdk
