// Tells pcap and pcapng apart, and reads files.
#include "net/capture_reader.h"

#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <memory>

namespace h4a::net {
namespace {

// The type of a section header block reads the same in both byte orders.
constexpr std::uint32_t kSectionHeader = 0x0a0d'0d0a;

bool is_pcapng(Bytes file) noexcept {
  return file.size() >= 4 && load_be32(file.data()) == kSectionHeader;
}

struct CloseInput {
  void operator()(std::FILE* f) const noexcept {
    if (f != stdin) std::fclose(f);
  }
};

Error error_of_errno() noexcept {
  if (errno == ENOENT) return Error::kNotFound;
  return errno == EACCES ? Error::kAccess : Error::kIo;
}

}  // namespace

std::string to_string(const CaptureFault& fault) {
  if (fault.frame == 0) return fmt::format("{} (at byte {})", fault.what, fault.offset);
  return fmt::format("frame {}: {} (at byte {})", fault.frame, fault.what, fault.offset);
}

CaptureReader::CaptureReader(Bytes file) noexcept : reader_(PcapReader{Bytes{}}) {
  if (is_pcapng(file)) {
    reader_ = PcapngReader(file);
  } else {
    reader_ = PcapReader(file);
  }
}

Result<std::vector<std::uint8_t>> read_file(const std::string& path, std::size_t size_max) {
  const std::unique_ptr<std::FILE, CloseInput> file(path == "-" ? stdin
                                                                : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return failure(error_of_errno());
  std::vector<std::uint8_t> bytes;
  for (std::size_t step = 65'536;; step *= 2) {
    const std::size_t before = bytes.size();
    bytes.resize(before + step);
    const std::size_t got = std::fread(bytes.data() + before, 1, step, file.get());
    bytes.resize(before + got);
    if (bytes.size() > size_max) return failure(Error::kNoMemory);
    if (got < step) break;
  }
  if (std::ferror(file.get()) != 0) return failure(error_of_errno());
  return bytes;
}

}  // namespace h4a::net
