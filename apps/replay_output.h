// How reports are printed: a line of text for people, or an object of JSON, for each frame; a summary last.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/replay_report.h"
#include "base/drop.h"

namespace h4a::apps {

/// What went wrong with a file as a whole.
struct FileError {
  std::string file;
  std::string what;  // with the frame's number, if it is known
};

struct ReplaySummary {
  std::uint64_t files = 0;
  std::uint64_t frames = 0;
  std::map<Verdict, std::uint64_t> verdicts;
  std::map<std::string_view, std::uint64_t> protocols;
  std::map<Check, std::uint64_t> icrc;
  std::map<Check, std::uint64_t> icv;
  DropCounters drops;      // of frames with verdict "drop"
  DropCounters unchecked;  // of frames with verdict "unchecked"
  std::vector<FileError> errors;

  void add(const FrameReport& r);
};

/// @param file named in each line if it is not empty.
[[nodiscard]] std::string to_json(const FrameReport& r, const std::string& file);
[[nodiscard]] std::string to_json(const ReplaySummary& s);
[[nodiscard]] std::string to_text(const FrameReport& r, const std::string& file);
[[nodiscard]] std::string to_text(const ReplaySummary& s);

}  // namespace h4a::apps
