// `h4a serve`: files below a root, over HTTP/4A and over plain HTTPS.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/host_arguments.h"

namespace h4a::apps {

struct ServeArguments {
  HostArguments host;
  std::string root;
  std::string https = "127.0.0.1:8443";  // ADDR:PORT
  std::string certificate;
  std::string key;
  bool self_signed = false;
  std::vector<std::string> names;  // of the self-signed certificate, beside the address
  std::uint32_t sessions_max = 64;
  std::uint32_t sessions_per_client = 16;
  std::uint32_t session_lifetime_s = 3600;
  bool quiet = false;
};

void add_serve_command(CLI::App& app, ServeArguments& a);

/// Serves until SIGINT or SIGTERM. @return the exit code.
[[nodiscard]] int run_serve(const ServeArguments& a);

}  // namespace h4a::apps
