// `h4a bench write|read|send`: what two stacks move between each other, and what it costs the side that
// receives. Columns as in perftest, and per packet the cycles of the receiver.
//
// Both stacks run in this process over ring: (the default), or this is one of two processes: the server
// with --listen, the client with --connect, both with --port and --ip.
//
// Exit codes: 0; 1, an operation failed or data arrived wrong; 2, the options or a port are unusable.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/bench_ceiling.h"

namespace CLI {
class App;
}

namespace h4a::apps {

enum class BenchOperation : std::uint8_t { kWrite, kRead, kSend };

struct BenchOptions {
  BenchOperation operation = BenchOperation::kWrite;
  std::size_t size = 65536;      // bytes of one message
  bool all_sizes = false;        // 2^1 .. 2^23 instead
  std::uint16_t path_mtu = 0;    // payload bytes of a packet; 0: the largest the port allows
  bool clear = false;            // without ESP
  std::uint64_t iterations = 0;  // messages a row; 0: as many as fit duration_s
  double duration_s = 1.0;
  unsigned depth = 128;  // messages in flight
  unsigned qps = 1;      // queue pairs; each message goes over a random one. In one process
  bool ipv6 = false;     // in one process
  bool profile = false;  // the stages under each row
  bool json = false;
  // Two processes.
  std::string listen;   // "ADDR:PORT" or the path of a Unix socket: this is the server
  std::string connect;  // the same: this is the client
  std::string port;
  std::vector<std::string> ips;
  // As everywhere.
  std::string pcap;
  std::string esp_keys;
  bool no_hugepages = false;
  // `h4a bench ceiling`.
  bool only_ceiling = false;
  CeilingArguments ceiling;
};

/// Runs it; the table goes to `out`, errors to `errors`. @return the exit code.
[[nodiscard]] int run_bench(const BenchOptions& options, std::FILE* out = stdout,
                            std::FILE* errors = stderr);

/// Adds `bench` with ceiling, write, read and send. `options` lives as long as `app`.
void add_bench_command(CLI::App& app, BenchOptions& options);

}  // namespace h4a::apps
