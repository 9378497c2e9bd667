#include "apps/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace h4a::apps {
namespace {

mode_t current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

}  // namespace

OutputFile::~OutputFile() {
  if (fd_ > STDERR_FILENO) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

std::string_view OutputFile::name() const noexcept {
  return path_ == "-" ? "standard output" : std::string_view(path_);
}

bool OutputFile::fail(const char* doing) {
  const char* hint = errno == ENOSPC ? " (make room, or choose another place with -o)" : "";
  error_ = fmt::format("cannot {} {}: {}{}", doing, name(), std::strerror(errno), hint);
  return false;
}

bool OutputFile::open(const std::string& path) {
  path_ = path;
  if (path == "-") {
    fd_ = STDOUT_FILENO;
    return true;
  }
  struct stat existing {};
  const bool exists = ::stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) {
    errno = EISDIR;
    return fail("write to");
  }
  return exists && !S_ISREG(existing.st_mode) ? open_stream() : open_temporary();
}

// A rename would put a regular file in the place of /dev/null.
bool OutputFile::open_stream() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  return fd_ >= 0 || fail("write to");
}

bool OutputFile::open_temporary() {
  std::error_code failed;
  target_ = std::filesystem::canonical(path_, failed).string();
  if (failed) target_ = path_;  // nothing there yet
  std::string name = target_ + ".part-XXXXXX";
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) return fail("create");
  temporary_ = name;
  (void)::fchmod(fd_, 0666 & ~current_umask());  // mkostemp makes it private; a download is not
  return true;
}

bool OutputFile::write(Bytes data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd_, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("write to");
    data = data.subspan(static_cast<std::size_t>(n));
    size_ += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool OutputFile::restart() {
  if (size_ == 0) return true;
  if (temporary_.empty()) {
    error_ = fmt::format("part of the data went to {} already and cannot be taken back", name());
    return false;
  }
  size_ = 0;
  return (::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0) || fail("rewind");
}

bool OutputFile::commit() {
  if (fd_ == STDOUT_FILENO) return true;
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) return fail("finish");
  if (temporary_.empty()) return true;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return fail("put in place");
  temporary_.clear();
  return true;
}

}  // namespace h4a::apps
