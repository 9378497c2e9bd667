#include "h4a/file_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace h4a {
namespace {

/// Non-blocking, so that a FIFO without a writer does not stop the server in open().
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Error error_of(int err) noexcept {
  switch (err) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ENXIO:  // a socket
    case ENODEV:
      return Error::kNotFound;
    case EACCES:
    case EPERM:
    case EXDEV:  // resolution left the root
    case ELOOP:
      return Error::kAccess;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Error::kNoMemory;
    default:
      return Error::kIo;
  }
}

/// @return the descriptor, or -errno.
int open_beneath(int root, const std::string& path) noexcept {
  struct open_how how = {};
  how.flags = static_cast<std::uint64_t>(kOpenFlags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const long fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how));
    if (fd >= 0) return static_cast<int>(fd);
    // EAGAIN: something was renamed while ".." of a link was resolved, so the kernel cannot be
    // sure.
    if (errno != EAGAIN && errno != EINTR) break;
  }
  // Old kernels do not have the call; some sandboxes answer EPERM to calls that they do not know.
  if (errno == ENOSYS || errno == EPERM) return detail::open_without_links(root, path);
  return -errno;
}

std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return failure(Error::kMalformed);
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (!high || !low) return failure(Error::kMalformed);
      c = static_cast<char>(*high * 16 + *low);
      i += 2;
    }
    if (c == '\0') return failure(Error::kMalformed);
    out.push_back(c);
  }
  return out;
}

struct ContentType {
  std::string_view ending;
  std::string_view type;
};
constexpr std::array kContentTypes{
    ContentType{".avif", "image/avif"},
    ContentType{".bin", "application/octet-stream"},
    ContentType{".css", "text/css; charset=utf-8"},
    ContentType{".csv", "text/csv; charset=utf-8"},
    ContentType{".fb", "application/flatbuffers"},
    ContentType{".gif", "image/gif"},
    ContentType{".gz", "application/gzip"},
    ContentType{".htm", "text/html; charset=utf-8"},
    ContentType{".html", "text/html; charset=utf-8"},
    ContentType{".jpeg", "image/jpeg"},
    ContentType{".jpg", "image/jpeg"},
    ContentType{".js", "text/javascript; charset=utf-8"},
    ContentType{".json", "application/json"},
    ContentType{".md", "text/markdown; charset=utf-8"},
    ContentType{".mp4", "video/mp4"},
    ContentType{".pdf", "application/pdf"},
    ContentType{".png", "image/png"},
    ContentType{".svg", "image/svg+xml"},
    ContentType{".tar", "application/x-tar"},
    ContentType{".txt", "text/plain; charset=utf-8"},
    ContentType{".wasm", "application/wasm"},
    ContentType{".webp", "image/webp"},
    ContentType{".xml", "application/xml"},
    ContentType{".zip", "application/zip"},
};

std::int64_t modified_ns(const struct stat& st) noexcept {
  return static_cast<std::int64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec;
}

}  // namespace

Result<std::string> path_below_root(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.empty() || target.front() != '/') return failure(Error::kMalformed);
  auto decoded = percent_decode(target);
  if (!decoded) return failure(decoded.error());
  std::string path;
  std::string_view rest(*decoded);
  while (!rest.empty()) {
    rest.remove_prefix(1);  // '/'
    const std::string_view segment = rest.substr(0, rest.find('/'));
    rest.remove_prefix(segment.size());
    if (segment == "..") return failure(Error::kAccess);
    if (segment.empty() && !rest.empty()) return failure(Error::kNotFound);
    if (segment == ".") continue;
    if (!path.empty()) path.push_back('/');
    path.append(segment.empty() ? "index.html" : segment);
  }
  if (path.empty()) return std::string("index.html");  // "/."
  return path;
}

std::string_view content_type_of(std::string_view path) noexcept {
  const std::size_t dot = path.rfind('.');
  if (dot != std::string_view::npos) {
    const std::string_view ending = path.substr(dot);
    const auto* found = std::find_if(kContentTypes.begin(), kContentTypes.end(),
                                     [&](const ContentType& t) { return t.ending == ending; });
    if (found != kContentTypes.end()) return found->type;
  }
  return "application/octet-stream";
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& o) noexcept {
  std::swap(fd_, o.fd_);  // `o` closes what was ours
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::size_t> File::read(std::uint64_t offset, MutableBytes out) const noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure(Error::kIo);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

void File::will_need(std::uint64_t offset, std::uint64_t length) const noexcept {
  if (offset >= size_) return;
  static_cast<void>(::posix_fadvise(fd_.get(), static_cast<off_t>(offset),
                                    static_cast<off_t>(std::min(length, size_ - offset)),
                                    POSIX_FADV_WILLNEED));
}

bool File::unchanged() const noexcept {
  struct stat st = {};
  return ::fstat(fd_.get(), &st) == 0 && static_cast<std::uint64_t>(st.st_size) == size_ &&
         modified_ns(st) == mtime_ns_;
}

Result<FileRoot> FileRoot::open(const std::string& folder) noexcept {
  const int fd = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) return FileRoot(FileDescriptor(fd));
  return failure(errno == ENOTDIR ? Error::kInvalidArgument : error_of(errno));
}

Result<File> FileRoot::open_target(std::string_view target) const {
  const auto path = path_below_root(target);
  if (!path) return failure(path.error());
  const int fd = open_beneath(fd_.get(), *path);
  if (fd < 0) return failure(error_of(-fd));
  File file;
  file.fd_ = FileDescriptor(fd);
  struct stat st = {};
  if (::fstat(fd, &st) != 0) return failure(Error::kIo);
  if (!S_ISREG(st.st_mode)) return failure(Error::kNotFound);
  file.size_ = static_cast<std::uint64_t>(st.st_size);
  file.mtime_ns_ = modified_ns(st);
  file.validators_ = {fmt::format("\"{:x}-{:x}-{:x}\"", st.st_ino, st.st_size, file.mtime_ns_),
                      st.st_mtim.tv_sec};
  file.content_type_ = content_type_of(*path);
  return file;
}

int detail::open_without_links(int root, const std::string& path) noexcept {
  FileDescriptor folder;  // of the segments so far; the root's own is not ours to close
  int at = root;
  std::size_t begin = 0;
  while (true) {
    const std::size_t slash = path.find('/', begin);
    const bool last = slash == std::string::npos;
    const std::string segment = path.substr(begin, last ? slash : slash - begin);
    if (segment.empty() || segment == "..") return -EACCES;
    const int flags =
        last ? kOpenFlags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    const int fd = ::openat(at, segment.c_str(), flags);
    if (fd < 0) return -errno;
    if (last) return fd;
    folder = FileDescriptor(fd);
    at = fd;
    begin = slash + 1;
  }
}

}  // namespace h4a
