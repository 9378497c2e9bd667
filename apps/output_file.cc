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

// The way to a descriptor's file that linkat() takes from everybody (open(2), O_TMPFILE).
std::string path_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

// Names that nobody has yet; more than one is needed only if somebody is after them.
constexpr int kNamesTried = 16;

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
    stream_ = true;
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
  stream_ = true;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  return fd_ >= 0 || fail("write to");
}

bool OutputFile::open_temporary() {
  std::error_code failed;
  target_ = std::filesystem::canonical(path_, failed).string();
  if (failed) target_ = path_;  // nothing there yet
  return (wanted_ == Temporary::kNameless && open_nameless()) || open_named();
}

// False also where nothing is wrong with the place: open_named() tells then what is.
bool OutputFile::open_nameless() {
  const std::size_t slash = target_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
  fd_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) return false;
  if (::access(path_of(fd_).c_str(), F_OK) != 0) {  // no /proc: it could never get a name
    ::close(fd_);
    fd_ = -1;
    return false;
  }
  return nameless_ = true;
}

bool OutputFile::open_named() {
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
  if (stream_) {
    error_ = fmt::format("part of the data went to {} already and cannot be taken back", name());
    return false;
  }
  size_ = 0;
  return (::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0) || fail("rewind");
}

bool OutputFile::commit() {
  if (fd_ == STDOUT_FILENO) return true;
  if (nameless_ && !put_in_place()) return fail("put in place");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) return fail("finish");
  if (temporary_.empty()) return true;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return fail("put in place");
  temporary_.clear();
  return true;
}

// A link cannot replace a file. Then the name is a temporary one, for the moment until commit() renames it.
bool OutputFile::put_in_place() {
  if (link_to(target_)) return true;
  for (int i = 0; i < kNamesTried && errno == EEXIST; ++i) {
    std::string name = fmt::format("{}.part-{}-{}", target_, ::getpid(), i);
    if (!link_to(name)) continue;
    temporary_ = std::move(name);
    return true;
  }
  return false;
}

bool OutputFile::link_to(const std::string& name) const noexcept {
  return ::linkat(AT_FDCWD, path_of(fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

}  // namespace h4a::apps
