// pcap read and write. Spec: draft-ietf-opsawg-pcap §4 (file header), §5 (packet record).
#include "net/pcap.h"

#include <bit>

namespace h4a::net {
namespace {

constexpr std::size_t kFileHeader = 24;
constexpr std::size_t kRecordHeader = 16;
constexpr std::uint32_t kMagicMicroseconds = 0xa1b2'c3d4;
constexpr std::uint32_t kMagicNanoseconds = 0xa1b2'3c4d;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::uint32_t load(Bytes b, std::size_t at, bool big_endian) noexcept {
  return static_cast<std::uint32_t>(big_endian ? load_be<4>(&b[at]) : load_le<4>(&b[at]));
}

/// Stores in the byte order of this machine, as libpcap does.
template <std::size_t N>
void store_native(std::uint8_t* p, std::uint64_t v) noexcept {
  if constexpr (std::endian::native == std::endian::big) {
    store_be<N>(p, v);
  } else {
    store_le<N>(p, v);
  }
}

}  // namespace

PcapReader::PcapReader(Bytes file) noexcept : file_(file) {
  if (file_.size() < kFileHeader) {
    fail(Error::kTruncated, "shorter than a pcap file header");
    return;
  }
  const std::uint32_t magic = u32(0);
  const std::uint32_t swapped = __builtin_bswap32(magic);
  big_endian_ = swapped == kMagicMicroseconds || swapped == kMagicNanoseconds;
  const std::uint32_t seen = big_endian_ ? swapped : magic;
  nanoseconds_ = seen == kMagicNanoseconds;
  if (seen != kMagicMicroseconds && !nanoseconds_) {
    fail(Error::kMalformed, "neither a pcap nor a pcapng file");
    return;
  }
  const std::uint32_t major = big_endian_ ? load_be16(&file_[4]) : u32(4) & 0xffff;
  if (major != 2) {
    fail(Error::kBadVersion, "a pcap version other than 2");
    return;
  }
  link_type_ = static_cast<LinkType>(u32(20) & 0xffff);  // the upper bits speak of the FCS
  at_ = kFileHeader;
}

std::uint32_t PcapReader::u32(std::size_t at) const noexcept {
  return load(file_, at, big_endian_);
}

bool PcapReader::fail(Error error, std::string_view what) noexcept {
  fault_ = CaptureFault{error, frame_, at_, what};
  return false;
}

bool PcapReader::next(CaptureRecord& out) noexcept {
  if (fault_.has_value() || at_ == file_.size()) return false;
  ++frame_;
  if (file_.size() - at_ < kRecordHeader) return fail(Error::kTruncated, "cut in a record header");
  const std::uint32_t captured = u32(at_ + 8);
  if (captured > kCaptureRecordMax) return fail(Error::kMalformed, "record longer than any frame");
  if (file_.size() - at_ - kRecordHeader < captured)
    return fail(Error::kTruncated, "cut in a frame's bytes");
  out.link_type = link_type_;
  out.time_ns = std::int64_t{u32(at_)} * kNsPerSecond +
                std::int64_t{u32(at_ + 4)} * (nanoseconds_ ? 1 : 1000);
  out.original_size = u32(at_ + 12);
  out.bytes = file_.subspan(at_ + kRecordHeader, captured);
  at_ += kRecordHeader + captured;
  return true;
}

Result<std::unique_ptr<PcapWriter>> PcapWriter::create(const std::string& path,
                                                       LinkType link_type) {
  auto file = open(path);
  if (!file) return failure(file.error());
  std::unique_ptr<PcapWriter> writer(new PcapWriter(std::move(*file)));
  std::uint8_t header[kFileHeader] = {};
  store_native<4>(header, kMagicNanoseconds);
  store_native<2>(header + 4, 2);
  store_native<2>(header + 6, 4);
  store_native<4>(header + 16, kCaptureRecordMax);
  store_native<4>(header + 20, static_cast<std::uint16_t>(link_type));
  writer->write(header);
  writer->flush();  // a reader may follow the file from its first frame
  if (writer->failed()) return failure(Error::kIo);
  return writer;
}

void PcapWriter::record(Bytes frame, std::int64_t time_ns) noexcept {
  const auto time = static_cast<std::uint64_t>(time_ns < 0 ? 0 : time_ns);
  const Bytes kept =
      frame.first(frame.size() < kCaptureRecordMax ? frame.size() : kCaptureRecordMax);
  std::uint8_t header[kRecordHeader];
  store_native<4>(header, time / kNsPerSecond);
  store_native<4>(header + 4, time % kNsPerSecond);
  store_native<4>(header + 8, kept.size());
  store_native<4>(header + 12, frame.size());
  write(header);
  write(kept);
}

}  // namespace h4a::net
