// `h4a replay FILE… [--esp-keys FILE] [--json]`: for each frame of capture files what it is and a verdict.
//
// With --as IP one host of the recorded conversations is played instead (replay_as.h).
//
// Exit codes: 0, every file was read to its end, whatever the verdicts are; 2, a file or the key table
// could not be read or understood (frames before the fault are reported). With --as also 1: something
// differs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

namespace h4a::apps {

struct ReplayOptions {
  std::vector<std::string> files;  // pcap or pcapng; "-" is standard input
  std::string esp_keys;            // Wireshark's ESP SA table, or "" for none
  std::string as;                  // address of the host to play, or "" for frame by frame
  bool json = false;
  bool summary_only = false;
};

/// Reads all, prints reports to `out` and errors to `errors`. @return the exit code.
[[nodiscard]] int run_replay(const ReplayOptions& options, std::FILE* out = stdout,
                             std::FILE* errors = stderr);

/// Adds the command with its help to `app`; its callback runs it and stores the exit code.
/// `options` and `exit_code` live as long as `app`.
CLI::App* add_replay_command(CLI::App& app, ReplayOptions& options, int& exit_code);

}  // namespace h4a::apps
