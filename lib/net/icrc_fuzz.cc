// Differential: both CRC back ends, any split of the bytes, and both ways to the ICRC give one
// answer.
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "net/icrc.h"

namespace {

using h4a::Bytes;
using h4a::net::CrcBackend;

void compare_back_ends(Bytes bytes) {
  const std::uint32_t portable = h4a::net::crc32_with(CrcBackend::kPortable, bytes);
  if (h4a::net::crc_backend_available(CrcBackend::kIpsecMb))
    H4A_ASSERT(h4a::net::crc32_with(CrcBackend::kIpsecMb, bytes) == portable);
  const std::size_t split = bytes.empty() ? 0 : bytes[0] * bytes.size() / 256;
  const std::uint32_t a = h4a::net::crc32(bytes.first(split));
  const std::uint32_t b = h4a::net::crc32(bytes.subspan(split));
  H4A_ASSERT(h4a::net::crc32_combine(a, b, bytes.size() - split) == portable);
}

void compare_icrc(Bytes bytes) {
  if (bytes.size() < 62) return;
  const std::size_t udp = (bytes[1] >> 4 == 4 ? 20U : 40U) + (bytes[0] & 3U) * 8U;
  if (bytes.size() - 1 < udp + 20) return;
  std::vector<std::uint8_t> copy(h4a::net::kIcrcHeadroom + bytes.size() - 1);
  std::memcpy(copy.data() + h4a::net::kIcrcHeadroom, bytes.data() + 1, bytes.size() - 1);
  const auto packet = h4a::MutableBytes(copy).subspan(h4a::net::kIcrcHeadroom);
  H4A_ASSERT(h4a::net::icrc_in_place(packet, udp) == h4a::net::icrc(bytes.subspan(1), udp));
  H4A_ASSERT(std::memcmp(packet.data(), bytes.data() + 1, packet.size()) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  compare_back_ends({data, size});
  compare_icrc({data, size});
  return 0;
}
