// `h4a get`: fetches one URL over HTTP/4A, or over HTTPS where HTTP/4A is not to be had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/host_arguments.h"

namespace h4a::apps {

struct GetArguments {
  HostArguments host;
  std::string url;
  std::string output;  // "": the last segment of the URL's path; "-": standard output
  std::string ca_file;
  std::vector<std::string> headers;  // "Name: value"
  bool require_h4a = false;
  bool json = false;
  bool quiet = false;
  std::uint32_t timeout_s = 0;  // for all of it; 0: none
  std::uint32_t chunk_kib = 16384;
  std::uint32_t in_flight = 4;
};

void add_get_command(CLI::App& app, GetArguments& a);

/// @return the exit code (apps/report.h).
[[nodiscard]] int run_get(const GetArguments& a);

}  // namespace h4a::apps
