// A datagram on port 4500: the verdict fits the bytes, and ESP always has a header to read.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "net/esp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const UdpEncap kind = classify_udp_encap({data, size});
  H4A_ASSERT(!to_string(kind).empty());
  if (kind == UdpEncap::kKeepalive) H4A_ASSERT(size == 1 && data[0] == 0xff);
  if (kind == UdpEncap::kIke) H4A_ASSERT(size > kNonEspMarkerSize);
  if (kind != UdpEncap::kEsp) return 0;
  const auto v = EspView::parse({data, size});
  H4A_ASSERT(v.has_value() && v->spi() != h4a::Spi(0));
  H4A_ASSERT(!to_string(*v).empty());
  std::array<std::uint8_t, EspView::kSize> again{};
  build(again.data(), v->fields());
  H4A_ASSERT(std::equal(again.begin(), again.end(), data));
  return 0;
}
