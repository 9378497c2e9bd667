// OutputFile: a download on its way to disk. It is written under a temporary name beside the final one
// and renamed when complete, so that nothing partial ever stands under the final name. Devices, FIFOs
// and standard output are written to directly. A symbolic link stays; the file it names is replaced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace h4a::apps {

class OutputFile {
 public:
  OutputFile() = default;
  /// Removes what was not committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// @param path the final name; "-" is standard output. What went there or into a device cannot be
  /// taken back.
  /// Each call returns false after a failure, and error() tells what and where in one line.
  [[nodiscard]] bool open(const std::string& path);
  /// Appends.
  [[nodiscard]] bool write(Bytes data);
  /// Throws away what was written so far, to begin again. False on a stream with data written.
  [[nodiscard]] bool restart();
  /// Puts the file in its place.
  [[nodiscard]] bool commit();
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }

 private:
  [[nodiscard]] bool fail(const char* doing);
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] bool open_stream();
  [[nodiscard]] bool open_temporary();

  std::string path_;
  std::string target_;     // what path_ leads to
  std::string temporary_;  // empty: a stream, or committed
  std::string error_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace h4a::apps
