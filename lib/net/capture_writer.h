// What the writers of pcap and pcapng share: a buffered file, and an error that is kept.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/frame_recorder.h"
#include "base/result.h"

namespace h4a::net {

struct CloseFile {
  void operator()(std::FILE* f) const noexcept {
    if (f != stdout) std::fclose(f);  // stdout is the process's to close
  }
};
using OutputFile = std::unique_ptr<std::FILE, CloseFile>;

/// Thread: one at a time. The first failure (a full disk) ends the capture, never the traffic.
class CaptureWriter : public FrameRecorder {
 public:
  ~CaptureWriter() override;
  void flush() noexcept override;
  /// Flushes and tells whether all was written. @return kIo.
  [[nodiscard]] Result<void> finish() noexcept;
  /// True once something could not be written; frames since then are missing.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 protected:
  explicit CaptureWriter(OutputFile file) noexcept : file_(std::move(file)) {}
  [[nodiscard]] static Result<OutputFile> open(const std::string& path) noexcept;
  void write(Bytes bytes) noexcept;

 private:
  OutputFile file_;
  bool dirty_ = false;
  bool failed_ = false;
};

}  // namespace h4a::net
