// Classic pcap files. Spec: draft-ietf-opsawg-pcap §4, §5.
//
// A header of 24 bytes whose magic tells byte order and time unit, then records of 16 bytes and
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "net/capture.h"
#include "net/capture_writer.h"

namespace h4a::net {

/// Classic pcap: magic of either byte order, microseconds or nanoseconds.
class PcapReader {
 public:
  /// Sets a fault at once if `file` does not begin with a pcap header.
  explicit PcapReader(Bytes file) noexcept;
  /// @return false at the end, and after a fault.
  [[nodiscard]] bool next(CaptureRecord& out) noexcept;
  [[nodiscard]] const std::optional<CaptureFault>& fault() const noexcept { return fault_; }

 private:
  [[nodiscard]] std::uint32_t u32(std::size_t at) const noexcept;
  bool fail(Error error, std::string_view what) noexcept;

  Bytes file_;
  std::size_t at_ = 0;
  std::uint64_t frame_ = 0;
  bool big_endian_ = false;
  bool nanoseconds_ = false;
  LinkType link_type_ = LinkType::kEthernet;
  std::optional<CaptureFault> fault_;
};

/// Writes pcap with nanoseconds, in the machine's byte order. It can be read while it grows.
class PcapWriter final : public CaptureWriter {
 public:
  /// Creates or truncates `path`; "-" is standard output.
  /// @return kIo, kAccess, kNotFound (a folder is missing); errno tells more.
  [[nodiscard]] static Result<std::unique_ptr<PcapWriter>> create(
      const std::string& path, LinkType link_type = LinkType::kEthernet);
  void record(Bytes frame, std::int64_t time_ns) noexcept override;

 private:
  explicit PcapWriter(OutputFile file) noexcept : CaptureWriter(std::move(file)) {}
};

}  // namespace h4a::net
