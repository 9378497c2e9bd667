#include "verbs/datagram.h"

namespace h4a::verbs {

Result<AhAttributes> reply_address(const Completion& c, Bytes grh) noexcept {
  if (!c.has_grh) return failure(Error::kInvalidArgument);
  if (grh.size() < kGrhBytes) return failure(Error::kTruncated);
  AhAttributes a;
  a.association = c.association;
  if (c.grh_is_ipv4) {
    const std::uint8_t* ip = grh.data() + 20;
    a.traffic_class = ip[1];
    a.remote_address = IpAddress::load_v4(ip + 12);
    a.local_address = IpAddress::load_v4(ip + 16);
  } else {
    const std::uint8_t* ip = grh.data();
    a.traffic_class = static_cast<std::uint8_t>(load_be16(ip) >> 4);
    a.remote_address = IpAddress::load_v6(ip + 8);
    a.local_address = IpAddress::load_v6(ip + 24);
  }
  a.traffic_class &= 0xfc;  // the network's congestion marks are not for the way back
  return a;
}

}  // namespace h4a::verbs
