#include "net/ipv4.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::net {

bool operator==(const Ipv4Fields& a, const Ipv4Fields& b) noexcept {
  return a.tos == b.tos && a.total_length == b.total_length &&
         a.identification == b.identification && a.dont_fragment == b.dont_fragment &&
         a.more_fragments == b.more_fragments &&
         a.fragment_offset_bytes == b.fragment_offset_bytes && a.ttl == b.ttl &&
         a.protocol == b.protocol && a.source == b.source && a.destination == b.destination &&
         std::equal(a.options.begin(), a.options.end(), b.options.begin(), b.options.end());
}

Ipv4Fields Ipv4View::fields() const noexcept {
  return {tos(),           total_length(),   identification(),
          dont_fragment(), more_fragments(), fragment_offset_bytes(),
          ttl(),           protocol(),       source(),
          destination(),   options()};
}

void build(std::uint8_t* p, const Ipv4Fields& f) noexcept {
  const std::size_t header = header_size(f);
  p[0] = static_cast<std::uint8_t>(0x40 | header / 4);
  p[1] = f.tos;
  store_be<2>(p + 2, f.total_length);
  store_be<2>(p + 4, f.identification);
  const unsigned flags = (f.dont_fragment ? 0x4000U : 0U) | (f.more_fragments ? 0x2000U : 0U);
  store_be<2>(p + 6, flags | (f.fragment_offset_bytes >> 3 & 0x1fffU));
  p[8] = f.ttl;
  p[9] = static_cast<std::uint8_t>(f.protocol);
  store_be<2>(p + 10, 0);
  std::copy_n(f.source.bytes().data() + 12, 4, p + 12);
  std::copy_n(f.destination.bytes().data() + 12, 4, p + 16);
  std::copy(f.options.begin(), f.options.end(), p + Ipv4View::kSize);
  store_be<2>(p + 10, Checksum().add({p, header}).value());
}

void rewrite_ipv4(std::uint8_t* p, std::uint16_t total_length, IpProtocol protocol) noexcept {
  std::uint16_t sum = update_checksum(load_be16(p + 10), load_be16(p + 2), total_length);
  const std::uint16_t ttl_and_protocol =
      static_cast<std::uint16_t>(p[8] << 8 | static_cast<std::uint8_t>(protocol));
  sum = update_checksum(sum, load_be16(p + 8), ttl_and_protocol);
  store_be<2>(p + 2, total_length);
  p[9] = static_cast<std::uint8_t>(protocol);
  store_be<2>(p + 10, sum);
}

std::string to_string(const Ipv4View& v) {
  std::string s =
      fmt::format("{} > {} ipv4 proto {} length {} ttl {} tos 0x{:02x}", to_string(v.source()),
                  to_string(v.destination()), static_cast<unsigned>(v.protocol()), v.total_length(),
                  v.ttl(), v.tos());
  if (v.dont_fragment()) s += " DF";
  if (v.is_fragment())
    s += fmt::format(" fragment {}{}", v.fragment_offset_bytes(), v.more_fragments() ? "+" : "");
  if (!v.options().empty()) s += fmt::format(" options {}", v.options().size());
  if (!v.checksum_ok()) s += " bad checksum";
  return s;
}

}  // namespace h4a::net
