#include "net/ether.h"

#include <fmt/format.h>

namespace h4a::net {

EtherFields EtherView::fields() const noexcept {
  EtherFields f{destination(), source(), tag_count(), {}, type()};
  for (std::size_t i = 0; i < f.tag_count; ++i) f.tags[i] = tag(i);
  return f;
}

void build(std::uint8_t* p, const EtherFields& f) noexcept {
  f.destination.store(p);
  f.source.store(p + 6);
  p += 12;
  for (std::size_t i = 0; i < f.tag_count; ++i, p += EtherView::kTagSize) {
    const VlanTag& t = f.tags[i];
    store_be<2>(p, static_cast<std::uint16_t>(t.tpid));
    const unsigned eligible = t.drop_eligible ? 0x1000U : 0U;
    store_be<2>(p + 2, (t.priority & 7U) << 13 | eligible | (t.id & 0xfffU));
  }
  store_be<2>(p, static_cast<std::uint16_t>(f.type));
}

MacAddress multicast_mac(const IpAddress& ip) noexcept {
  const auto& b = ip.bytes();
  if (!ip.is_v4()) return MacAddress({0x33, 0x33, b[12], b[13], b[14], b[15]});
  const auto low_7_bits = static_cast<std::uint8_t>(b[13] & 0x7f);
  return MacAddress({0x01, 0x00, 0x5e, low_7_bits, b[14], b[15]});
}

IpAddress link_local_address(const MacAddress& mac) noexcept {
  const auto& m = mac.bytes();
  const std::array<std::uint8_t, IpAddress::kSize> b = {
      0xfe, 0x80, 0,    0,    0,    0,    0,   0, static_cast<std::uint8_t>(m[0] ^ 2),
      m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  return IpAddress::load_v6(b.data());
}

std::string to_string(const EtherView& v) {
  std::string s = fmt::format("{} > {}", to_string(v.source()), to_string(v.destination()));
  for (std::size_t i = 0; i < v.tag_count(); ++i) {
    const VlanTag t = v.tag(i);
    s += fmt::format(" {} {} prio {}", t.tpid == EtherType::kServiceVlan ? "svlan" : "vlan", t.id,
                     t.priority);
  }
  return s + fmt::format(" type 0x{:04x}", static_cast<unsigned>(v.type()));
}

}  // namespace h4a::net
