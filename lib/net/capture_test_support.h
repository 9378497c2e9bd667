// Builds capture files byte by byte for the tests of their readers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/bytes.h"

namespace h4a::net::test {

/// Appends integers in one byte order.
class FileBuilder {
 public:
  explicit FileBuilder(bool big_endian) : big_endian_(big_endian) {}
  FileBuilder& u16(std::uint64_t v) { return put<2>(v); }
  FileBuilder& u32(std::uint64_t v) { return put<4>(v); }
  FileBuilder& u64(std::uint64_t v) { return put<8>(v); }
  FileBuilder& text(std::string_view s) {
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    return *this;
  }
  /// A pcapng block around `body`, padded to four bytes.
  FileBuilder& block(std::uint32_t type, const FileBuilder& body) {
    std::vector<std::uint8_t> data = body.bytes_;
    while (data.size() % 4 != 0) data.push_back(0);
    u32(type).u32(data.size() + 12);
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    return u32(data.size() + 12);
  }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  template <std::size_t N>
  FileBuilder& put(std::uint64_t v) {
    std::uint8_t b[N];
    if (big_endian_) {
      store_be<N>(b, v);
    } else {
      store_le<N>(b, v);
    }
    for (std::uint8_t x : b) bytes_.push_back(x);
    return *this;
  }
  bool big_endian_;
  std::vector<std::uint8_t> bytes_;
};

inline std::string text_of(Bytes b) {
  return {b.begin(), b.end()};
}
inline Bytes bytes_of(std::string_view s) {
  return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

/// A file name in the temporary folder that goes with its object.
class TemporaryPath {
 public:
  explicit TemporaryPath(std::string_view name) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/h4a-" + std::to_string(getpid()) +
            "-" + std::string(name);
  }
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath() { unlink(path_.c_str()); }
  [[nodiscard]] const std::string& string() const { return path_; }

 private:
  std::string path_;
};

}  // namespace h4a::net::test
