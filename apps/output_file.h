// OutputFile: a download on its way to disk. It is written to a file that has no name (O_TMPFILE) and gets
// the final one when complete, so that nothing partial ever stands under it, and nothing at all is left by
// a process that is killed. Where the file system does not know such files it has a temporary name beside
// the final one. Devices, FIFOs and standard output are written to directly. A symbolic link stays; the
// file it names is replaced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace h4a::apps {

class OutputFile {
 public:
  enum class Temporary : std::uint8_t {
    kNameless,  // where that can be had
    kNamed,
  };
  explicit OutputFile(Temporary temporary = Temporary::kNameless) noexcept : wanted_(temporary) {}
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
  [[nodiscard]] bool open_nameless();
  [[nodiscard]] bool open_named();
  [[nodiscard]] bool put_in_place();
  [[nodiscard]] bool link_to(const std::string& name) const noexcept;

  Temporary wanted_;
  std::string path_;
  std::string target_;     // what path_ leads to
  std::string temporary_;  // name to be removed if it is not committed
  bool nameless_ = false;
  bool stream_ = false;
  std::string error_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace h4a::apps
