// `h4a rping`: server or client for rdma-core's rping: RDMA-CM, SEND, READ and WRITE in one breath.
#pragma once

#include <cstdint>
#include <string>

#include "apps/host_arguments.h"

namespace h4a::apps {

struct RpingArguments {
  HostArguments host;
  bool server = false;
  bool client = false;
  bool persistent = false;
  std::string address;  // client: the server's; server: the one to listen on, "" for all
  std::string source;   // client: our own, "" for the one that fits
  std::uint16_t port = 7174;
  std::uint32_t count = 0;  // 0: until stopped
  std::uint32_t size = 64;
  bool verbose = false;
  bool validate = false;
  bool json = false;
};

void add_rping_command(CLI::App& app, RpingArguments& a);

[[nodiscard]] int run_rping(const RpingArguments& a);

}  // namespace h4a::apps
