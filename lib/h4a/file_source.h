// Files below one root, for HTTP/4A and for plain HTTPS alike: from a request's path to an open
// file that nobody can lead out of the root.
//
// A path is decoded once and refused if it has "..", an empty segment or NUL. The kernel then
// resolves it beneath the root (openat2 with RESOLVE_BENEATH, so that symbolic links work inside
// the root and cannot leave it); on kernels without that call each segment is opened with
// O_NOFOLLOW, so that links do not work at all. Only regular files are served.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "h4a/conditional.h"

namespace h4a {

/// Turns the target of a request ("/a%20b/c?query") into a path below a root ("a b/c"). A path that
/// ends in
/// '/' means its index.html. @return kMalformed (no leading '/', bad escape, NUL), kAccess ("..").
[[nodiscard]] Result<std::string> path_below_root(std::string_view target);

/// By the name's ending; "application/octet-stream" where unknown.
[[nodiscard]] std::string_view content_type_of(std::string_view path) noexcept;

/// A descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  FileDescriptor& operator=(FileDescriptor&& o) noexcept;
  ~FileDescriptor();
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// A file mapped for reading. Its pages stay readable even if somebody cuts the file short
/// meanwhile: what is gone reads as zeros, and intact() turns false, which must be asked before the
/// octets count as sent.
class FileMapping {
 public:
  FileMapping(FileMapping&& o) noexcept;
  FileMapping& operator=(FileMapping&&) = delete;
  ~FileMapping();

  /// The whole file. Valid as long as this object.
  [[nodiscard]] Bytes bytes() const noexcept { return {address_, size_}; }
  /// False once a page could not be read from the file.
  [[nodiscard]] bool intact() const noexcept;

 private:
  friend class File;
  FileMapping(const std::uint8_t* address, std::size_t size, std::size_t slot) noexcept
      : address_(address), size_(size), slot_(slot) {}
  const std::uint8_t* address_;
  std::size_t size_;
  std::size_t slot_;  // of the guard's table (file_mapping.cc)
};

/// One open file, as it was when it was opened. Any thread may use it.
class File {
 public:
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] const Validators& validators() const noexcept { return validators_; }
  [[nodiscard]] std::string_view content_type() const noexcept { return content_type_; }

  /// Fills `out` from `offset` on. @return octets read, fewer only at the end of the file; kIo.
  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, MutableBytes out) const noexcept;
  /// Says that [offset, offset + length) is read next, so that the disk begins now and a later read() need
  /// not wait. Does not wait itself.
  void will_need(std::uint64_t offset, std::uint64_t length) const noexcept;
  /// Maps the whole file. @return kNoMemory (no address space, or more mappings than the guard
  /// holds), kInvalidState if the file is empty, kIo.
  [[nodiscard]] Result<FileMapping> map() const noexcept;
  /// False if size or modification time are no longer those of the opening.
  [[nodiscard]] bool unchanged() const noexcept;

 private:
  friend class FileRoot;
  File() = default;
  FileDescriptor fd_;
  std::uint64_t size_ = 0;
  std::int64_t mtime_ns_ = 0;
  Validators validators_;
  std::string_view content_type_;
};

/// A folder whose files are served. Any thread may use it.
class FileRoot {
 public:
  /// @return kNotFound, kAccess, kInvalidArgument (not a folder), kIo.
  [[nodiscard]] static Result<FileRoot> open(const std::string& folder) noexcept;

  /// Opens what the target of a request names. @return what path_below_root() returns; kNotFound
  /// (also for folders, devices and sockets), kAccess (permission, or a link that leaves the root),
  /// kNoMemory (no descriptor left), kIo.
  [[nodiscard]] Result<File> open_target(std::string_view target) const;

 private:
  explicit FileRoot(FileDescriptor fd) noexcept : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

namespace detail {
/// The fallback, for kernels without openat2: no symbolic link is followed. @return descriptor or
/// -errno.
[[nodiscard]] int open_without_links(int root, const std::string& path) noexcept;
}  // namespace detail

}  // namespace h4a
