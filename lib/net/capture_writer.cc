// The file behind a capture: standard I/O with its buffer, no exceptions, the first error kept.
#include "net/capture_writer.h"

#include <cerrno>

namespace h4a::net {

CaptureWriter::~CaptureWriter() {
  flush();
}

void CaptureWriter::flush() noexcept {
  if (!dirty_) return;
  dirty_ = false;
  if (std::fflush(file_.get()) != 0) failed_ = true;
}

Result<void> CaptureWriter::finish() noexcept {
  flush();
  if (failed_) return failure(Error::kIo);
  return {};
}

Result<OutputFile> CaptureWriter::open(const std::string& path) noexcept {
  if (path == "-") return OutputFile(stdout);
  std::FILE* f = std::fopen(path.c_str(), "wb");
  if (f != nullptr) return OutputFile(f);
  if (errno == ENOENT) return failure(Error::kNotFound);
  return failure(errno == EACCES ? Error::kAccess : Error::kIo);
}

void CaptureWriter::write(Bytes bytes) noexcept {
  if (failed_ || bytes.empty()) return;
  dirty_ = true;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) failed_ = true;
}

}  // namespace h4a::net
