#include "net/udp.h"

#include <fmt/format.h>

#include "net/checksum.h"
#include "net/ip_protocol.h"

namespace h4a::net {
namespace {

Checksum pseudo_header(std::size_t length, const IpAddress& source,
                       const IpAddress& destination) noexcept {
  Checksum sum;
  sum.add_pseudo_header(source, destination, static_cast<std::uint8_t>(IpProtocol::kUdp), length);
  return sum;
}

}  // namespace

bool UdpView::checksum_ok(const IpAddress& source, const IpAddress& destination) const noexcept {
  if (checksum() == 0) return true;
  return pseudo_header(bytes_.size(), source, destination).add(bytes_).ok();
}

void build(std::uint8_t* p, const UdpFields& f) noexcept {
  store_be<2>(p, f.source_port);
  store_be<2>(p + 2, f.destination_port);
  store_be<2>(p + 4, f.length);
  store_be<2>(p + 6, f.checksum);
}

std::uint16_t udp_checksum(Bytes datagram, const IpAddress& source,
                           const IpAddress& destination) noexcept {
  const std::uint16_t value = pseudo_header(datagram.size(), source, destination)
                                  .add(datagram.first(6))
                                  .add(datagram.subspan(UdpView::kSize))
                                  .value();
  return value == 0 ? 0xffff : value;
}

std::string to_string(const UdpView& v) {
  return fmt::format("udp {} > {} length {}", v.source_port(), v.destination_port(), v.length());
}

}  // namespace h4a::net
