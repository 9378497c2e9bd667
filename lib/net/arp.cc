#include "net/arp.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::net {

void build(std::uint8_t* p, const ArpFields& f) noexcept {
  store_be<2>(p, 1);           // Ethernet
  store_be<2>(p + 2, 0x0800);  // IPv4
  p[4] = MacAddress::kSize;
  p[5] = 4;
  store_be<2>(p + 6, static_cast<std::uint16_t>(f.operation));
  f.sender_mac.store(p + 8);
  std::copy_n(f.sender_ip.bytes().data() + 12, 4, p + 14);
  f.target_mac.store(p + 18);
  std::copy_n(f.target_ip.bytes().data() + 12, 4, p + 24);
}

ArpFields arp_request(const MacAddress& mac, const IpAddress& ip,
                      const IpAddress& target) noexcept {
  return {ArpOperation::kRequest, mac, ip, MacAddress{}, target};
}

ArpFields arp_reply(const ArpView& request, const MacAddress& mac) noexcept {
  return {ArpOperation::kReply, mac, request.target_ip(), request.sender_mac(),
          request.sender_ip()};
}

std::string to_string(const ArpView& v) {
  if (v.operation() == ArpOperation::kReply)
    return fmt::format("arp {} is at {}", to_string(v.sender_ip()), to_string(v.sender_mac()));
  return fmt::format("arp who has {} tell {}", to_string(v.target_ip()), to_string(v.sender_ip()));
}

}  // namespace h4a::net
