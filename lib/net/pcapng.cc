// pcapng read and write. Spec: draft-ietf-opsawg-pcapng §3.1 (blocks), §3.5 (options), §4.1 section
// header, §4.2 interface description, §4.3 enhanced packet, §4.4 simple packet, appendix A
// (obsolete packet).
#include "net/pcapng.h"

#include <algorithm>
#include <limits>

namespace h4a::net {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d'0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kObsoletePacket = 2;
constexpr std::uint32_t kSimplePacket = 3;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b'3c4d;
constexpr std::size_t kBlockMin = 12;  // type, length, length
constexpr std::size_t kBlockMax = 16 * 1024 * 1024;
constexpr std::size_t kInterfaceMax = 65'536;  // interface numbers beyond 16 bits are a lie

constexpr std::uint16_t kOptionEnd = 0;
constexpr std::uint16_t kOptionTimeResolution = 9;
constexpr std::uint16_t kOptionTimeOffset = 14;

__extension__ typedef unsigned __int128 Wide;

std::size_t padded(std::size_t n) noexcept {
  return (n + 3) & ~std::size_t{3};
}

/// `ticks` of if_tsresol `resolution` in nanoseconds; what does not fit becomes the largest value.
std::int64_t to_ns(std::uint64_t ticks, std::uint8_t resolution, std::int64_t offset_s) noexcept {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const unsigned exponent = resolution & 0x7f;
  Wide ns = Wide{ticks} * 1'000'000'000;
  if ((resolution & 0x80) != 0) {
    ns >>= exponent;
  } else {
    for (unsigned i = 0; i < exponent && ns != 0; ++i) ns /= 10;
  }
  const auto limited = ns > Wide{kMax} ? kMax : static_cast<std::int64_t>(ns);
  std::int64_t offset = 0;
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(offset_s, std::int64_t{1'000'000'000}, &offset) ||
      __builtin_add_overflow(limited, offset, &sum))
    return kMax;
  return sum;
}

}  // namespace

PcapngReader::PcapngReader(Bytes file) noexcept : file_(file) {
  if (file_.size() < kBlockMin || load_be32(file_.data()) != kSectionHeader)
    fail(Error::kMalformed, "no pcapng section header");
}

std::uint16_t PcapngReader::u16(Bytes b, std::size_t at) const noexcept {
  return static_cast<std::uint16_t>(big_endian_ ? load_be<2>(&b[at]) : load_le<2>(&b[at]));
}
std::uint32_t PcapngReader::u32(Bytes b, std::size_t at) const noexcept {
  return static_cast<std::uint32_t>(big_endian_ ? load_be<4>(&b[at]) : load_le<4>(&b[at]));
}
std::uint64_t PcapngReader::u64(Bytes b, std::size_t at) const noexcept {
  return big_endian_ ? load_be<8>(&b[at]) : load_le<8>(&b[at]);
}

bool PcapngReader::fail(Error error, std::string_view what) noexcept {
  fault_ = CaptureFault{error, frame_, block_at_, what};
  return false;
}

bool PcapngReader::next(CaptureRecord& out) {
  std::uint32_t type = 0;
  Bytes body;
  while (!fault_.has_value() && at_ < file_.size()) {
    if (!read_block(type, body)) {
      fault_->frame = frame_ + 1;  // the one that would have come next
      return false;
    }
    switch (type) {
      case kInterfaceDescription:
        if (!add_interface(body)) return false;
        break;
      case kEnhancedPacket:
        return enhanced_packet(body, out);
      case kSimplePacket:
        return simple_packet(body, out);
      case kObsoletePacket:
        return obsolete_packet(body, out);
      default:
        break;  // section headers are done with; all others are not about packets
    }
  }
  return false;
}

// One block: its length is proved against the file and against its own repetition.
bool PcapngReader::read_block(std::uint32_t& type, Bytes& body) noexcept {
  block_at_ = at_;
  const Bytes rest = file_.subspan(at_);
  if (rest.size() < kBlockMin) return fail(Error::kTruncated, "cut in a block header");
  if (load_be32(rest.data()) == kSectionHeader && !begin_section(rest)) return false;
  type = u32(rest, 0);
  const std::size_t size = u32(rest, 4);
  if (size < kBlockMin || size % 4 != 0) return fail(Error::kMalformed, "impossible block length");
  if (size > kBlockMax) return fail(Error::kMalformed, "block longer than 16 MiB");
  if (size > rest.size()) return fail(Error::kTruncated, "cut in a block");
  if (u32(rest, size - 4) != size) return fail(Error::kMalformed, "the two block lengths differ");
  body = rest.subspan(8, size - kBlockMin);
  at_ += size;
  return true;
}

// Sets the byte order, which the block's own length needs already.
bool PcapngReader::begin_section(Bytes block) noexcept {
  if (block.size() < 28) return fail(Error::kTruncated, "cut in a section header");
  const std::uint32_t magic = load_be32(&block[8]);
  big_endian_ = magic == kByteOrderMagic;
  if (!big_endian_ && __builtin_bswap32(magic) != kByteOrderMagic)
    return fail(Error::kMalformed, "section header without byte-order magic");
  if (u32(block, 4) < 28) return fail(Error::kMalformed, "impossible section header length");
  if (u16(block, 12) != 1) return fail(Error::kBadVersion, "a pcapng version other than 1");
  interfaces_.clear();
  return true;
}

bool PcapngReader::add_interface(Bytes body) {
  if (body.size() < 8) return fail(Error::kTruncated, "interface block too short");
  if (interfaces_.size() == kInterfaceMax) return fail(Error::kMalformed, "too many interfaces");
  Interface interface;
  interface.link_type = static_cast<LinkType>(u16(body, 0));
  interface.snap_length = u32(body, 4);
  for (Bytes rest = body.subspan(8); rest.size() >= 4;) {
    const std::uint16_t code = u16(rest, 0);
    const std::size_t size = u16(rest, 2);
    if (code == kOptionEnd) break;
    if (padded(size) > rest.size() - 4) return fail(Error::kMalformed, "interface option too long");
    interface_option(interface, code, rest.subspan(4, size));
    rest = rest.subspan(4 + padded(size));
  }
  interfaces_.push_back(interface);
  return true;
}

void PcapngReader::interface_option(Interface& interface, std::uint16_t code,
                                    Bytes value) const noexcept {
  if (code == kOptionTimeResolution && value.size() == 1) interface.time_resolution = value[0];
  if (code == kOptionTimeOffset && value.size() == 8)
    interface.time_offset_s = static_cast<std::int64_t>(u64(value, 0));
}

// interface, time (upper, lower), captured, original, data, options
bool PcapngReader::enhanced_packet(Bytes body, CaptureRecord& out) noexcept {
  ++frame_;
  if (body.size() < 20) return fail(Error::kTruncated, "packet block too short");
  const std::uint32_t index = u32(body, 0);
  if (index >= interfaces_.size()) return fail(Error::kMalformed, "packet of an unknown interface");
  out.original_size = u32(body, 16);
  const std::uint64_t ticks = std::uint64_t{u32(body, 4)} << 32 | u32(body, 8);
  return packet(interfaces_[index], ticks, u32(body, 12), body.subspan(20), out);
}

// original, data; no time, interface 0
bool PcapngReader::simple_packet(Bytes body, CaptureRecord& out) noexcept {
  ++frame_;
  if (body.size() < 4) return fail(Error::kTruncated, "packet block too short");
  if (interfaces_.empty()) return fail(Error::kMalformed, "packet of an unknown interface");
  out.original_size = u32(body, 0);
  const std::uint32_t snap = interfaces_[0].snap_length;
  const std::uint32_t captured = snap == 0 ? out.original_size : std::min(snap, out.original_size);
  return packet(interfaces_[0], 0, captured, body.subspan(4), out);
}

// interface and drop count (16 bits each), time (upper, lower), captured, original, data, options
bool PcapngReader::obsolete_packet(Bytes body, CaptureRecord& out) noexcept {
  ++frame_;
  if (body.size() < 20) return fail(Error::kTruncated, "packet block too short");
  const std::uint16_t index = u16(body, 0);
  if (index >= interfaces_.size()) return fail(Error::kMalformed, "packet of an unknown interface");
  out.original_size = u32(body, 16);
  const std::uint64_t ticks = std::uint64_t{u32(body, 4)} << 32 | u32(body, 8);
  return packet(interfaces_[index], ticks, u32(body, 12), body.subspan(20), out);
}

bool PcapngReader::packet(const Interface& from, std::uint64_t ticks, std::uint32_t captured,
                          Bytes data, CaptureRecord& out) noexcept {
  if (captured > kCaptureRecordMax) return fail(Error::kMalformed, "record longer than any frame");
  if (captured > data.size()) return fail(Error::kMalformed, "frame longer than its block");
  out.link_type = from.link_type;
  out.time_ns = ticks == 0 ? 0 : to_ns(ticks, from.time_resolution, from.time_offset_s);
  out.bytes = data.first(captured);
  return true;
}

// ---- writing: little-endian, which the byte-order magic states ----

Result<std::unique_ptr<PcapngWriter>> PcapngWriter::create(const std::string& path,
                                                           LinkType link_type) {
  auto file = open(path);
  if (!file) return failure(file.error());
  std::unique_ptr<PcapngWriter> writer(new PcapngWriter(std::move(*file)));
  std::uint8_t header[28 + 32] = {};
  store_le<4>(header, kSectionHeader);
  store_le<4>(header + 4, 28);
  store_le<4>(header + 8, kByteOrderMagic);
  store_le<2>(header + 12, 1);
  store_le<8>(header + 16, ~std::uint64_t{0});  // the section's length is not known
  store_le<4>(header + 24, 28);
  std::uint8_t* interface = header + 28;
  store_le<4>(interface, kInterfaceDescription);
  store_le<4>(interface + 4, 32);
  store_le<2>(interface + 8, static_cast<std::uint16_t>(link_type));
  store_le<4>(interface + 12, kCaptureRecordMax);
  store_le<2>(interface + 16, kOptionTimeResolution);
  store_le<2>(interface + 18, 1);
  interface[20] = 9;  // 10^-9 s
  store_le<4>(interface + 24, kOptionEnd);
  store_le<4>(interface + 28, 32);
  writer->write(header);
  writer->flush();
  if (writer->failed()) return failure(Error::kIo);
  return writer;
}

void PcapngWriter::record(Bytes frame, std::int64_t time_ns) noexcept {
  const auto time = static_cast<std::uint64_t>(time_ns < 0 ? 0 : time_ns);
  const Bytes kept = frame.first(std::min(frame.size(), kCaptureRecordMax));
  const std::size_t pad = padded(kept.size()) - kept.size();
  const std::size_t size = 32 + kept.size() + pad;
  std::uint8_t header[28];
  store_le<4>(header, kEnhancedPacket);
  store_le<4>(header + 4, size);
  store_le<4>(header + 8, 0);
  store_le<4>(header + 12, time >> 32);
  store_le<4>(header + 16, time);
  store_le<4>(header + 20, kept.size());
  store_le<4>(header + 24, frame.size());
  std::uint8_t tail[3 + 4] = {};
  store_le<4>(tail + pad, size);
  write(header);
  write(kept);
  write(Bytes(tail).first(pad + 4));
}

}  // namespace h4a::net
