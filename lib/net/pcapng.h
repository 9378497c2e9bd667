// pcapng files. Spec: draft-ietf-opsawg-pcapng §3, §4.
//
// A file is a row of blocks: type, length, body, length again. A section header block sets the byte
// order of what follows; packets name an interface that a block before them described.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "net/capture.h"
#include "net/capture_writer.h"

namespace h4a::net {

/// pcapng: sections of either byte order, any number of interfaces with their own link type and
/// time resolution; enhanced, simple and (obsolete) packet blocks. Other blocks are skipped.
class PcapngReader {
 public:
  explicit PcapngReader(Bytes file) noexcept;
  [[nodiscard]] bool next(CaptureRecord& out);
  [[nodiscard]] const std::optional<CaptureFault>& fault() const noexcept { return fault_; }

 private:
  struct Interface {
    LinkType link_type = LinkType::kEthernet;
    std::uint32_t snap_length = 0;     // 0: no limit
    std::uint8_t time_resolution = 6;  // if_tsresol: 10^-n, or 2^-n if the top bit is set
    std::int64_t time_offset_s = 0;
  };

  [[nodiscard]] std::uint16_t u16(Bytes b, std::size_t at) const noexcept;
  [[nodiscard]] std::uint32_t u32(Bytes b, std::size_t at) const noexcept;
  [[nodiscard]] std::uint64_t u64(Bytes b, std::size_t at) const noexcept;
  bool fail(Error error, std::string_view what) noexcept;
  bool read_block(std::uint32_t& type, Bytes& body) noexcept;
  bool begin_section(Bytes block) noexcept;
  bool add_interface(Bytes body);
  void interface_option(Interface& interface, std::uint16_t code, Bytes value) const noexcept;
  bool enhanced_packet(Bytes body, CaptureRecord& out) noexcept;
  bool simple_packet(Bytes body, CaptureRecord& out) noexcept;
  bool obsolete_packet(Bytes body, CaptureRecord& out) noexcept;
  bool packet(const Interface& from, std::uint64_t ticks, std::uint32_t captured, Bytes data,
              CaptureRecord& out) noexcept;

  Bytes file_;
  std::size_t at_ = 0;
  std::size_t block_at_ = 0;
  std::uint64_t frame_ = 0;
  bool big_endian_ = false;
  std::vector<Interface> interfaces_;  // of the current section
  std::optional<CaptureFault> fault_;
};

/// Writes pcapng: one section, one interface with nanoseconds, enhanced packet blocks.
class PcapngWriter final : public CaptureWriter {
 public:
  /// Creates or truncates `path`; "-" is standard output. @return as PcapWriter::create.
  [[nodiscard]] static Result<std::unique_ptr<PcapngWriter>> create(
      const std::string& path, LinkType link_type = LinkType::kEthernet);
  void record(Bytes frame, std::int64_t time_ns) noexcept override;

 private:
  explicit PcapngWriter(OutputFile file) noexcept : CaptureWriter(std::move(file)) {}
};

}  // namespace h4a::net
