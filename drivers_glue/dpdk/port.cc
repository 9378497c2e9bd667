#include "drivers_glue/dpdk/port.h"

#include <fmt/format.h>

#include "drivers_glue/dpdk/devices.h"
#include "drivers_glue/dpdk/eal.h"

namespace h4a::dpdk {
namespace {

Result<void> start_for(const PortSpec& spec, std::string& error) {
  const bool pci = spec.kind == PortKind::kPci;
  if (pci && eal_running() && !eal_has_pci()) {
    error =
        fmt::format("pci:{}: DPDK runs without PCI already: open the pci: port first", spec.target);
    return failure(Error::kInvalidState);
  }
  EalOptions options;
  options.pci = pci;
  return start_eal(options, error);
}

}  // namespace

PortResult open_port(std::string_view text, const PortOptions& options, std::string& error) {
  const auto spec = parse_port_spec(text, error);
  if (!spec) return failure(spec.error());
  if (const auto r = start_for(*spec, error); !r) return failure(r.error());
  switch (spec->kind) {
    case PortKind::kRing:
      return open_ring_end(*spec, options, error);
    case PortKind::kMemif:
      return open_memif(*spec, options, error);
    case PortKind::kAfPacket:
      return open_af_packet(*spec, options, error);
    case PortKind::kAfXdp:
      return open_af_xdp(*spec, options, error);
    case PortKind::kTap:
      return open_tap(*spec, options, error);
    case PortKind::kPci:
      return open_pci(*spec, options, error);
    case PortKind::kDevargs:
      return open_devargs(*spec, options, error);
  }
  return failure(Error::kUnsupported);
}

}  // namespace h4a::dpdk
