// FileHandler: GET and HEAD of the files below one root (RFC 9110): ranges, conditions, ETag,
// Last-Modified and Content-Type, as the HTTPS server of the same root answers them.
//
// Files are read with pread into the session's registered staging memory, not mapped (docs/adr/0003). A
// body whose file changed while it was read never counts as sent: the response becomes a 500.
//
// Thread: the one that polls the sessions. Opening a file takes memory and system calls, reading takes a
// system call a chunk; both may wait for the disk. One turn reads and opens only so
// much (docs/adr/0004-files-in-the-poll-loop.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "h4a/file_source.h"
#include "h4a/handler.h"

namespace h4a::http {

class FileHandler final : public Handler {
 public:
  struct Options {
    /// Authorities that may be asked for ("host" or "host:port"); empty: any. Others get 421.
    std::vector<std::string> authorities;
    /// Files open at a time, all sessions together; beyond it 503.
    std::uint32_t bodies_max = 1024;
  };
  struct Counters {
    std::uint64_t served = 0;      // 200, 206
    std::uint64_t unmodified = 0;  // 304
    std::uint64_t refused = 0;     // 4xx
    std::uint64_t failed = 0;      // 5xx, and bodies that changed while they were read
  };

  FileHandler(FileRoot root, Options options);
  ~FileHandler() override;

  /// Seconds since 1970, for Date (RFC 9110 §6.6.1). Until it is set, no Date is sent.
  void set_time(std::int64_t unix_seconds) noexcept { unix_seconds_ = unix_seconds; }
  [[nodiscard]] bool serves(std::string_view scheme, std::string_view authority) noexcept override;
  void handle(const RequestHead& head, ServerResponse& response) noexcept override;
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  class FileBody;

  void answer(const RequestHead& head, const File& file, ServerResponse& response,
              ByteRange& range);
  [[nodiscard]] FileBody* free_body() noexcept;
  void count(std::uint16_t status) noexcept;

  FileRoot root_;
  Options options_;
  Counters counters_;
  std::int64_t unix_seconds_ = 0;
  std::vector<FileBody> bodies_;
};

}  // namespace h4a::http
