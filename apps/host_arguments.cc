#include "apps/host_arguments.h"

namespace h4a::apps {
namespace {

/// The peer of a ring cannot exist in another process.
std::string refuse_ring(const std::string& port) {
  return port.starts_with("ring:") ? "a ring has both ends in one process: use memif:PATH here"
                                   : "";
}

}  // namespace

void add_host_arguments(CLI::App& command, HostArguments& a) {
  command
      .add_option("--port", a.port,
                  "Port to use: memif:PATH[,role=server], af_packet:IFACE, af_xdp:IFACE, tap:NAME, "
                  "pci:ADDR, or DPDK devargs such as net_tap0,iface=x")
      ->required()
      ->check(refuse_ring)
      ->type_name("PORT");
  command
      .add_option(
          "--ip", a.ips,
          "Address of this stack on the port, with prefix, e.g. 10.99.0.1/24, or link-local "
          "for the IPv6 address of its MAC address; may be given more than once")
      ->required()
      ->type_name("ADDR/N");
  command.add_option("--gateway", a.gateways, "Router for addresses that are not on-link")
      ->type_name("ADDR");
  command.add_option("--mtu", a.mtu, "Layer-3 MTU of the port (default: the port's own)")
      ->check(CLI::Range(576, 9100));
  command.add_option("--pcap", a.pcap, "Write every frame on the port to a capture file (pcapng)")
      ->type_name("FILE");
  command
      .add_option("--esp-keys", a.esp_keys,
                  "Write the ESP keys as Wireshark's ESP SA table, to look inside the capture")
      ->type_name("FILE");
  command.add_flag("--busy-poll", a.busy_poll, "Keep spinning when idle: lowest latency, one core");
  command.add_flag("--no-hugepages", a.no_hugepages, "Do not use hugepages even if there are some");
  const char* const group = "Fault injection";
  const auto add_fault = [&](const char* name, double& p, const char* text) {
    command.add_option(name, p, text)->check(CLI::Range(0.0, 1.0))->group(group)->type_name("P");
  };
  add_fault("--loss", a.loss, "Probability that a frame is lost, each way");
  add_fault("--duplicate", a.duplicate, "Probability that a frame arrives twice");
  add_fault("--reorder", a.reorder, "Probability that a frame is overtaken");
  add_fault("--corrupt", a.corrupt, "Probability that one bit of a frame flips");
  command.add_option("--fault-seed", a.fault_seed, "Seed of the faults")->group(group);
}

}  // namespace h4a::apps
