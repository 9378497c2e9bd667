#include "net/esp.h"

#include <fmt/format.h>

namespace h4a::net {

void build(std::uint8_t* p, const EspFields& f) noexcept {
  store_be<4>(p, f.spi.value());
  store_be<4>(p + 4, f.sequence);
}

std::string to_string(const EspView& v) {
  return fmt::format("esp spi 0x{:08x} seq {} length {}", v.spi().value(), v.sequence(),
                     EspView::kSize + v.rest().size());
}

std::string_view to_string(UdpEncap kind) noexcept {
  switch (kind) {
    case UdpEncap::kKeepalive:
      return "keepalive";
    case UdpEncap::kIke:
      return "ike";
    case UdpEncap::kEsp:
      return "esp";
    case UdpEncap::kBad:
      break;
  }
  return "bad";
}

}  // namespace h4a::net
