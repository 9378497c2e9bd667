// `h4a pingpong rc|uc|ud`: the partner of ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong, as server
// or client, with their options. Messages travel through a stack of our own; only the exchange of queue
// pair numbers before it uses the kernel's TCP.
#pragma once

#include <cstdint>
#include <string>

#include "apps/host_arguments.h"

namespace h4a::apps {

struct PingpongArguments {
  HostArguments host;
  std::string type;    // "rc", "uc", "ud"
  std::string server;  // host name or address of the server; "" to be one
  std::uint16_t tcp_port = 18515;
  std::uint32_t size = 0;  // 0: as rdma-core, 4096, of ud 1024
  std::uint32_t iterations = 1000;
  std::uint16_t path_mtu = 1024;
  std::uint32_t receives = 500;
  std::uint32_t gid_index = 0;
  std::uint16_t priority = 0;
  std::uint32_t timeout_s = 30;
  bool validate = false;
  bool json = false;
};

void add_pingpong_command(CLI::App& app, PingpongArguments& a);

/// @return the exit code.
[[nodiscard]] int run_pingpong(const PingpongArguments& a);

}  // namespace h4a::apps
