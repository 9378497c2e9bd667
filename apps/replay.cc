// The command: keys first, then file after file, frame after frame, then the summary.
#include "apps/replay.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "apps/replay_as.h"
#include "apps/replay_esp.h"
#include "apps/replay_frame.h"
#include "apps/replay_keys.h"
#include "apps/replay_output.h"
#include "net/capture_reader.h"

namespace h4a::apps {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitDiffers = 1;
constexpr int kExitUnreadable = 2;

std::string why(Error error) {
  switch (error) {
    case Error::kNotFound:
      return "no such file";
    case Error::kAccess:
      return "permission denied";
    case Error::kNoMemory:
      return "too large (4 GiB is the most)";
    default:
      return std::strerror(errno);
  }
}

class Replay {
 public:
  Replay(const ReplayOptions& options, std::FILE* out, std::FILE* errors)
      : options_(options), out_(out), errors_(errors) {}

  int run() {
    if (!load_keys() || !load_host()) return kExitUnreadable;
    for (const std::string& file : options_.files) replay(file);
    if (!host_) print(options_.json ? to_json(summary_) : to_text(summary_));
    if (std::fflush(out_) != 0 || std::ferror(out_) != 0) {
      complain("standard output", std::strerror(errno));
      return kExitUnreadable;
    }
    if (!summary_.errors.empty()) return kExitUnreadable;
    return differs_ ? kExitDiffers : kExitOk;
  }

 private:
  bool load_keys() {
    if (options_.esp_keys.empty()) return true;
    const auto text = net::read_file(options_.esp_keys, std::size_t{16} << 20);
    if (!text) return complain(options_.esp_keys, why(text.error()));
    auto keys = parse_esp_keys({reinterpret_cast<const char*>(text->data()), text->size()});
    if (!keys)
      return complain(options_.esp_keys,
                      fmt::format("line {}: {}", keys.error().line, keys.error().what));
    if (keys->empty())
      return complain(options_.esp_keys,
                      "no key in it; a row is \"IPv4\",\"SOURCE\",\"DESTINATION\",\"SPI\","
                      "\"AES-GCM with 16 octet ICV [RFC4106]\",\"0xKEYSALT\",\"NULL\",\"\"");
    auto opener = EspOpener::create(std::move(*keys));
    if (!opener) return complain(options_.esp_keys, "a cipher cannot be set up on this machine");
    opener_ = std::move(*opener);
    return true;
  }

  bool load_host() {
    if (options_.as.empty()) return true;
    const auto host = IpAddress::parse(options_.as);
    if (!host) return complain("--as " + options_.as, "not an IP address");
    host_ = *host;
    return true;
  }

  void replay(const std::string& file) {
    ++summary_.files;
    const auto bytes = net::read_file(file);
    if (!bytes) return file_error(file, why(bytes.error()));
    opener_.reset();
    if (host_) return play(file, *bytes);
    Dissector dissector(opener_);
    net::CaptureReader reader(*bytes);
    net::CaptureRecord record;
    for (std::uint64_t number = 1; reader.next(record); ++number)
      report(dissector.dissect(record, number), file);
    if (reader.fault()) file_error(file, to_string(*reader.fault()));
  }

  void play(const std::string& file, Bytes bytes) {
    std::optional<net::CaptureFault> fault;
    const auto packets = read_packets(bytes, opener_, fault);
    if (fault) file_error(file, to_string(*fault));
    const std::vector<IpAddress> hosts = hosts_of(packets);
    if (std::find(hosts.begin(), hosts.end(), *host_) == hosts.end())
      return file_error(file, "no RoCE packet from or to " + options_.as);
    const PlayReport report = play_as(packets, *host_);
    differs_ |= !report.clean();
    const std::string& named = options_.files.size() > 1 ? file : kNoName;
    print(options_.json ? to_json(report, named) : to_text(report, named));
  }

  void report(const FrameReport& r, const std::string& file) {
    summary_.add(r);
    if (options_.summary_only) return;
    const std::string& named = options_.files.size() > 1 ? file : kNoName;
    print(options_.json ? to_json(r, named) : to_text(r, named));
  }

  void print(std::string line) {
    if (line.empty() || line.back() != '\n') line += '\n';
    std::fwrite(line.data(), 1, line.size(), out_);
  }

  void file_error(const std::string& file, const std::string& what) {
    complain(file, what);
    summary_.errors.push_back({file, what});
  }

  bool complain(const std::string& file, const std::string& what) {
    std::fflush(out_);  // so that the error stands behind the frames before it
    fmt::print(errors_, "h4a replay: {}: {}\n", file, what);
    return false;
  }

  inline static const std::string kNoName;
  const ReplayOptions& options_;
  std::FILE* out_;
  std::FILE* errors_;
  EspOpener opener_;
  ReplaySummary summary_;
  std::optional<IpAddress> host_;  // to play
  bool differs_ = false;
};

constexpr const char* kFooter =
    R"(For each frame: what it is, whether ICRC and ICV are right, and a verdict:
  ok         a receiving stack would hand it on
  drop       it would be discarded, for the reason that is named (docs/DROPS.md)
  unchecked  nothing in it can be verified: the key or the suite is missing, or it is
             for another program (IKE, TCP, other UDP ports)

Keys are rows of Wireshark's ESP SA table (Preferences > Protocols > ESP), or any text that
quotes them as tshark options. Whether an SA uses extended sequence numbers is found out by
trying; a comment line in front of its row states it:
  # h4a: esn=1 hi=0 window=16384
It holds until the next such line. hi is the high half of the first sequence number, window
the size of the replay window in packets (0: no replay verdicts).

With --json each line is an object: frame, protocol, opcode, dest_qp, psn, icrc, icv, spi,
sequence, verdict, reason, …; the last one is {"summary":{…}}.

With --as ADDRESS no verdicts are given. Our transport engine takes the place of that host: it is
told what the peer sent, and what it sends is compared with what the host sent: opcode, PSN,
syndrome, MSN, lengths, keys, payload. What two right implementations may do differently is left
out, and listed. Queue pairs, PSNs, work requests and memory come from the capture.

Exit code: 0 if all files were read, whatever the verdicts; 1 if something differs with --as; 2 if
a file or the keys could not be read.)";

}  // namespace

int run_replay(const ReplayOptions& options, std::FILE* out, std::FILE* errors) {
  return Replay(options, out, errors).run();
}

CLI::App* add_replay_command(CLI::App& app, ReplayOptions& options, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "replay", "Check captures: ICRC, ICV, replays and malformed packets, frame by frame");
  command->add_option("FILE", options.files, "pcap or pcapng files, - for standard input")
      ->required();
  command->add_option("--esp-keys", options.esp_keys, "Wireshark ESP SA table with keys")
      ->type_name("FILE");
  command->add_option("--as", options.as, "Play this host with our engine, and tell what differs")
      ->type_name("ADDRESS");
  command->add_flag("--json", options.json, "One JSON object a line");
  command->add_flag("--summary", options.summary_only, "Print the summary alone");
  command->footer(kFooter);
  command->callback([&options, &exit_code] { exit_code = run_replay(options); });
  return command;
}

}  // namespace h4a::apps
