// Progress: one line on a terminal, redrawn a few times a second; nothing where stderr is no terminal.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace h4a::apps {

class Progress {
 public:
  /// @param enabled false: prints nothing at all.
  explicit Progress(bool enabled);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// @param total 0: not known.
  void update(std::uint64_t done, std::uint64_t total, Instant now);
  /// Takes the line away.
  void clear();

 private:
  bool enabled_;
  bool drawn_ = false;
  Instant started_;
  Instant last_;
};

}  // namespace h4a::apps
