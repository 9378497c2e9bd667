#include "apps/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
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

bool OutputFile::fail(const char* doing) {
  const char* hint = errno == ENOSPC ? " (make room, or choose another place with -o)" : "";
  error_ = fmt::format("cannot {} {}: {}{}", doing, path_, std::strerror(errno), hint);
  return false;
}

bool OutputFile::open(const std::string& path) {
  path_ = path;
  if (path == "-") {
    fd_ = STDOUT_FILENO;
    return true;
  }
  struct stat existing {};
  if (::stat(path.c_str(), &existing) == 0 && S_ISDIR(existing.st_mode)) {
    errno = EISDIR;
    return fail("write to");
  }
  std::string name = path + ".part-XXXXXX";
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
  if (fd_ == STDOUT_FILENO) {
    error_ = "part of the data went to standard output already and cannot be taken back";
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
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail("put in place");
  temporary_.clear();
  return true;
}

}  // namespace h4a::apps
