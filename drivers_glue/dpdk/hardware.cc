// Network cards by PCI address, and any device by DPDK's own arguments.
#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "drivers_glue/dpdk/devices.h"
#include "drivers_glue/dpdk/eal.h"

namespace h4a::dpdk {
namespace {

MacAddress device_mac(std::uint16_t port_id) {
  rte_ether_addr a{};
  if (rte_eth_macaddr_get(port_id, &a) != 0) return random_mac();
  const MacAddress mac = MacAddress::load(a.addr_bytes);
  return mac.is_zero() || mac.is_multicast() ? random_mac() : mac;
}

/// Probes `devargs`, whose device is called `name`, and makes a port of it.
PortResult open_device(const std::string& devargs, const std::string& name, const PortSpec& spec,
                       const PortOptions& options, std::string& error) {
  constexpr std::uint16_t kDefaultMtu = 1500;
  clear_log();
  EthdevConfig config;
  const int code = rte_dev_probe(devargs.c_str());
  if (code != 0 || rte_eth_dev_get_port_by_name(name.c_str(), &config.port_id) != 0) {
    const std::string log = last_log();
    error = log.empty() ? std::string(rte_strerror(code != 0 ? -code : ENODEV)) : log;
    return failure(code == -EACCES || code == -EPERM ? Error::kAccess : Error::kNotFound);
  }
  config.mac = spec.mac ? *spec.mac : device_mac(config.port_id);
  const std::uint16_t mtu = wanted_mtu(spec, options);
  config.mtu = mtu != 0 ? mtu : kDefaultMtu;
  auto pool = MbufPool::create(frame_count(spec, options), kDataRoomBytes, error);
  if (!pool) {
    remove_ethdev(config.port_id);
    return failure(pool.error());
  }
  config.pool = *std::move(pool);
  const QueueSetup queues{.descriptors = options.ring_descriptors, .driver_mtu = mtu};
  if (const auto r = set_up_queues(config.port_id, *config.pool, queues, error); !r)
    return failure(r.error());
  if (const auto r = start_device(config.port_id, error); !r) return failure(r.error());
  return std::make_unique<EthdevPort>(std::move(config));
}

}  // namespace

PortResult open_pci(const PortSpec& spec, const PortOptions& options, std::string& error) {
  auto port = open_device(spec.target, spec.target, spec, options, error);
  if (!port)
    error = fmt::format(
        "pci:{}: {}; is it bound (dpdk-devbind.py --bind=vfio-pci {}), are hugepages "
        "there (sysctl vm.nr_hugepages=1024), is this root?",
        spec.target, error, spec.target);
  return port;
}

PortResult open_devargs(const PortSpec& spec, const PortOptions& options, std::string& error) {
  auto port =
      open_device(spec.target, spec.target.substr(0, spec.target.find(',')), spec, options, error);
  if (!port) error = fmt::format("{}: {}", spec.target, error);
  return port;
}

}  // namespace h4a::dpdk
