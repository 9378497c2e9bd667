// Reads a capture of either format, and whole files into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "net/capture.h"
#include "net/pcap.h"
#include "net/pcapng.h"

namespace h4a::net {

/// Reads either format, told apart by the first four bytes.
class CaptureReader {
 public:
  /// Borrows `file` for as long as the reader and its records are used.
  explicit CaptureReader(Bytes file) noexcept;
  /// @return false at the end, and after a fault.
  [[nodiscard]] bool next(CaptureRecord& out) {
    return std::visit([&out](auto& reader) { return reader.next(out); }, reader_);
  }
  [[nodiscard]] const std::optional<CaptureFault>& fault() const noexcept {
    return std::visit(
        [](const auto& r) -> const auto& { return r.fault(); }, reader_);
  }

 private:
  std::variant<PcapReader, PcapngReader> reader_;
};

/// Reads a whole file, or standard input for "-", up to `size_max` bytes.
/// @return kNotFound, kAccess, kIo (errno tells), kNoMemory if it is longer than `size_max`.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_file(const std::string& path,
                                                          std::size_t size_max = std::size_t{4}
                                                                                 << 30);

}  // namespace h4a::net
