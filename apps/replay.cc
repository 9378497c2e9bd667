// The command: keys first, then file after file, frame after frame, then the summary.
#include "apps/replay.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "apps/replay_esp.h"
#include "apps/replay_frame.h"
#include "apps/replay_keys.h"
#include "apps/replay_output.h"
#include "net/capture_reader.h"

namespace h4a::apps {
namespace {

constexpr int kExitOk = 0;
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
    if (!load_keys()) return kExitUnreadable;
    for (const std::string& file : options_.files) replay(file);
    print(options_.json ? to_json(summary_) : to_text(summary_));
    if (std::fflush(out_) != 0 || std::ferror(out_) != 0) {
      complain("standard output", std::strerror(errno));
      return kExitUnreadable;
    }
    return summary_.errors.empty() ? kExitOk : kExitUnreadable;
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

  void replay(const std::string& file) {
    ++summary_.files;
    const auto bytes = net::read_file(file);
    if (!bytes) return file_error(file, why(bytes.error()));
    opener_.reset();
    Dissector dissector(opener_);
    net::CaptureReader reader(*bytes);
    net::CaptureRecord record;
    for (std::uint64_t number = 1; reader.next(record); ++number)
      report(dissector.dissect(record, number), file);
    if (reader.fault()) file_error(file, to_string(*reader.fault()));
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

Exit code: 0 if all files were read, whatever the verdicts; 2 if a file or the keys could not be.)";

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
  command->add_flag("--json", options.json, "One JSON object a line");
  command->add_flag("--summary", options.summary_only, "Print the summary alone");
  command->footer(kFooter);
  command->callback([&options, &exit_code] { exit_code = run_replay(options); });
  return command;
}

}  // namespace h4a::apps
