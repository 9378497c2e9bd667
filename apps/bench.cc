#include "apps/bench.h"

#include <CLI/CLI.hpp>
#include <array>
#include <fmt/format.h>
#include <memory>

#include "apps/bench_end.h"
#include "apps/bench_json.h"
#include "apps/bench_link.h"
#include "apps/bench_run.h"
#include "apps/bench_table.h"
#include "apps/host.h"

namespace h4a::apps {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUnusable = 2;

int complain(std::FILE* errors, int code, const std::string& text) {
  fmt::print(errors, "h4a bench: {}\n", text);
  return code;
}

HostArguments host_arguments(const BenchOptions& options, std::string port, std::string ip,
                             bool capture) {
  HostArguments a;
  a.port = std::move(port);
  a.ips = options.ips;
  if (!ip.empty()) a.ips = {std::move(ip)};
  if (capture) a.pcap = options.pcap;
  a.no_hugepages = options.no_hugepages;
  a.busy_poll = true;
  a.qp_max = options.qps;
  return a;
}

std::vector<std::size_t> sizes_of(const BenchOptions& options) {
  if (!options.all_sizes) return {options.size};
  std::vector<std::size_t> sizes;
  for (std::size_t s = 2; s <= kBenchMessageMax; s *= 2) sizes.push_back(s);
  return sizes;
}

/// All rows, from the requester's side.
int run_rows(BenchEnd& requester, BenchTarget& target, const BenchOptions& options, std::FILE* out,
             std::FILE* errors) {
  // First a few messages that do not count: neighbours are resolved, caches and tables are warm.
  BenchOptions warm = options;
  warm.iterations = options.depth;
  References references;
  BenchRow ignored;
  std::string error;
  if (!run_row(requester, target, references, 4096, warm, ignored, error))
    return complain(errors, kExitFailed, error);

  const std::size_t mtu = requester.contact().path_mtu;
  if (!options.json) print_table_head(out, options, mtu);
  std::vector<BenchRow> rows;
  for (const std::size_t size : sizes_of(options)) {
    BenchRow row;
    if (!run_row(requester, target, references, size, options, row, error))
      return complain(errors, kExitFailed, error);
    if (!options.json) print_table_row(out, row);
    if (!options.json && options.profile) print_profile(out, row);
    rows.push_back(row);
  }
  if (options.json) fmt::print(out, "{}\n", bench_json(options, mtu, rows));
  return 0;
}

int run_in_process(const BenchOptions& options, std::FILE* out, std::FILE* errors) {
  std::string error;
  EspKeyLog key_log;
  if (!options.esp_keys.empty() && !key_log.open(options.esp_keys, error))
    return complain(errors, kExitUnusable, error);
  const std::string port = "ring:bench,frames=8192";
  const auto server_host = Host::open(
      host_arguments(options, port, options.ipv6 ? "fd99::1/64" : "10.99.0.1/24", true), error);
  if (!server_host) return complain(errors, kExitUnusable, error);
  const auto client_host = Host::open(
      host_arguments(options, port, options.ipv6 ? "fd99::2/64" : "10.99.0.2/24", false), error);
  if (!client_host) return complain(errors, kExitUnusable, error);
  const auto server = BenchEnd::create(*server_host, options, error);
  const auto client = server ? BenchEnd::create(*client_host, options, error) : nullptr;
  if (!client) return complain(errors, kExitUnusable, error);
  const std::string offer = to_line(client->contact());
  const std::string answer = to_line(server->contact());
  EspKeyLog no_log;  // both ends have the same two SAs
  if (!server->connect(answer, offer, false, key_log, error) ||
      !client->connect(offer, answer, true, no_log, error) ||
      !server->connect_others(*client, error) || !client->connect_others(*server, error))
    return complain(errors, kExitFailed, error);
  LocalTarget target(*server, options);
  int code = run_rows(*client, target, options, out, errors);
  if (!server_host->finish_capture())
    code = complain(errors, kExitFailed, "--pcap: the file could not be written completely");
  return code;
}

/// One of two processes: the server serves rows, the client runs them.
int run_as_one_of_two(const BenchOptions& options, std::FILE* out, std::FILE* errors) {
  const bool client = !options.connect.empty();
  std::string error;
  EspKeyLog key_log;
  if (!options.esp_keys.empty() && !key_log.open(options.esp_keys, error))
    return complain(errors, kExitUnusable, error);
  const auto host = Host::open(host_arguments(options, options.port, "", true), error);
  const auto end = host ? BenchEnd::create(*host, options, error) : nullptr;
  if (!end) return complain(errors, kExitUnusable, error);
  if (!client) fmt::print(errors, "waiting for a client on {}\n", options.listen);
  const auto link = client ? BenchLink::connect(options.connect, error)
                           : BenchLink::listen(options.listen, error);
  if (!link) return complain(errors, kExitUnusable, error);

  const std::string own = to_line(end->contact());
  if (client && !link->send(own)) return complain(errors, kExitFailed, "the server is gone");
  const auto peer = link->receive();
  if (!peer || (!client && !link->send(own)))
    return complain(errors, kExitFailed, "the other end is gone");
  if (!end->connect(own, *peer, client, key_log, error))
    return complain(errors, kExitFailed, error);
  int code = 0;
  if (client) {
    RemoteTarget target(*link);
    code = run_rows(*end, target, options, out, errors);
  } else if (!serve_rows(*end, options, *link, error)) {
    code = complain(errors, kExitFailed, error);
  }
  if (!host->finish_capture())
    code = complain(errors, kExitFailed, "--pcap: the file could not be written completely");
  return code;
}

/// What the options say together that cannot be, or "".
std::string contradiction(const BenchOptions& o) {
  const bool two = !o.listen.empty() || !o.connect.empty();
  if (!o.listen.empty() && !o.connect.empty()) return "--listen and --connect: be one of the two";
  if (two && (o.port.empty() || o.ips.empty()))
    return "--listen and --connect need --port and --ip, as in --port "
           "memif:/tmp/b.sock,role=server "
           "--ip 10.99.0.1/24";
  if (!two && (!o.port.empty() || !o.ips.empty()))
    return "--port and --ip are for two processes: add --listen ADDR:PORT on one side and "
           "--connect ADDR:PORT on the other";
  if (o.qps > 1 && (two || o.operation == BenchOperation::kSend))
    return "--qps is for write and read between the two stacks of this process";
  return "";
}

void add_options(CLI::App& command, BenchOptions& o) {
  command.add_option("--size", o.size, "Bytes of one message")
      ->check(CLI::Range(std::size_t{1}, kBenchMessageMax))
      ->capture_default_str();
  command.add_flag("--all", o.all_sizes, "All sizes from 2 bytes to 8 MiB");
  command
      .add_option("--mtu", o.path_mtu,
                  "Payload bytes of a packet (default: the most the port takes)")
      ->check(CLI::IsMember(std::vector<std::uint16_t>{256, 512, 1024, 2048, 4096}));
  command.add_flag("--clear", o.clear, "Without ESP");
  auto* iterations = command.add_option("--iterations", o.iterations, "Messages a row");
  command.add_option("--duration", o.duration_s, "Seconds a row")
      ->check(CLI::Range(0.01, 3600.0))
      ->excludes(iterations)
      ->capture_default_str();
  command.add_option("--depth", o.depth, "Messages in flight")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--qps", o.qps, "Queue pairs; each message goes over a random one of them")
      ->check(CLI::Range(1U, kBenchQpsMax))
      ->capture_default_str();
  command.add_flag("--ipv6", o.ipv6, "IPv6 between the two stacks of this process");
  command.add_flag("--profile", o.profile, "The receiver's cycles for a packet, stage by stage");
  command.add_flag("--json", o.json, "One JSON object instead of the table");
  command.add_option("--pcap", o.pcap, "Write every frame to a capture file (pcapng)")
      ->type_name("FILE");
  command.add_option("--esp-keys", o.esp_keys, "Write the ESP keys as Wireshark's ESP SA table")
      ->type_name("FILE");
  command.add_flag("--no-hugepages", o.no_hugepages, "Do not use hugepages even if there are some");
  const char* const two = "Between two processes";
  command.add_option("--listen", o.listen, "Be the server; the sides find each other here")
      ->type_name("ADDR:PORT")
      ->group(two);
  command.add_option("--connect", o.connect, "Be the client of the server that listens there")
      ->type_name("ADDR:PORT")
      ->group(two);
  command.add_option("--port", o.port, "Port of this side, e.g. memif:/tmp/b.sock,role=server")
      ->type_name("PORT")
      ->group(two);
  command.add_option("--ip", o.ips, "Address of this side, e.g. 10.99.0.1/24")
      ->type_name("ADDR/N")
      ->group(two);
  command.footer(
      "BW counts time on the wall, with both stacks on one core if they share this process.\n"
      "RxCore is what the receiving core would carry alone: bytes by its busy cycles.\n"
      "cyc/pkt: cycles of the receiver for a packet. own cyc: without port driver, crypto, CRC "
      "and\n"
      "copy, by what bare loops need for them. of ceiling: RxCore against the bare loop of "
      "AES-GCM\n"
      "in place and copy to 64 MiB at the same packet size, measured in the same run.");
}

}  // namespace

int run_bench(const BenchOptions& options, std::FILE* out, std::FILE* errors) {
  if (options.only_ceiling) return run_bench_ceiling(options.ceiling);
  if (const std::string text = contradiction(options); !text.empty())
    return complain(errors, kExitUnusable, text);
  return options.port.empty() ? run_in_process(options, out, errors)
                              : run_as_one_of_two(options, out, errors);
}

void add_bench_command(CLI::App& app, BenchOptions& options) {
  struct Row {
    const char* name;
    BenchOperation operation;
    const char* help;
  };
  constexpr std::array<Row, 3> kRows{{
      {"write", BenchOperation::kWrite, "RDMA WRITE between two stacks"},
      {"read", BenchOperation::kRead, "RDMA READ between two stacks"},
      {"send", BenchOperation::kSend, "SEND and receive between two stacks"},
  }};
  CLI::App* bench = app.add_subcommand("bench", "Measure what this machine and this stack can do");
  bench->require_subcommand(1);
  add_bench_ceiling_command(*bench, options.ceiling);
  bench->get_subcommand("ceiling")->callback([&options] { options.only_ceiling = true; });
  for (const Row& row : kRows) {
    CLI::App* command = bench->add_subcommand(row.name, row.help);
    add_options(*command, options);
    command->callback([&options, operation = row.operation] { options.operation = operation; });
  }
}

}  // namespace h4a::apps
