// Command-line options of every command that opens a port, and what they mean together.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace h4a::apps {

struct HostArguments {
  std::string port;                   // "memif:/run/x.sock", "af_packet:eth0", DPDK devargs, …
  std::vector<std::string> ips;       // "10.99.0.1/24", "fd77::1/64"
  std::vector<std::string> gateways;  // at most one of each family
  std::string pcap;                   // capture file, "" for none
  std::string esp_keys;               // Wireshark ESP SA table, "" for none
  std::uint16_t mtu = 0;              // 0: the port's own
  std::size_t qp_max = 0;  // queue pairs wanted, if more than the usual; no option of its own
  bool busy_poll = false;
  bool no_hugepages = false;
  // Faults on purpose, on what this side receives and sends.
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  std::uint64_t fault_seed = 1;
};

/// Adds the options to `command`; `a` must live as long as it.
void add_host_arguments(CLI::App& command, HostArguments& a);

}  // namespace h4a::apps
