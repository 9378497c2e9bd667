#include "net/ipv6.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::net {
namespace {

constexpr std::uint8_t kPad1 = 0;

/// Hop-by-hop and destination options: type, length, data; Pad1 is a lone byte. RFC 8200 §4.2.
Result<void> check_options(Bytes options) noexcept {
  while (!options.empty()) {
    const std::uint8_t type = options[0];
    if (type == kPad1) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2 || std::size_t{options[1]} + 2 > options.size())
      return failure(Error::kMalformed);
    if (type >> 6 != 0) return failure(Error::kMalformed);  // not one we know: discard the packet
    options = options.subspan(std::size_t{options[1]} + 2);
  }
  return {};
}

Result<void> check_extension(IpProtocol kind, Bytes header) noexcept {
  if (kind != IpProtocol::kRouting) return check_options(header.subspan(2));
  if (header[3] != 0) return failure(Error::kMalformed);  // segments left: we do not forward
  return {};
}

}  // namespace

Result<Ipv6Transport> Ipv6View::walk_extensions() const noexcept {
  IpProtocol next = next_header();
  std::size_t offset = kSize;
  for (std::size_t count = 0;; ++count) {
    if (next == IpProtocol::kFragment) return Ipv6Transport{next, offset, true};
    if (next == IpProtocol::kHopByHop && count != 0) return failure(Error::kMalformed);
    if (next != IpProtocol::kHopByHop && next != IpProtocol::kRouting &&
        next != IpProtocol::kDestinationOptions)
      return Ipv6Transport{next, offset, false};

    const Bytes rest = packet_.subspan(offset);
    if (rest.size() < 8) return failure(Error::kTruncated);
    const std::size_t size = (std::size_t{rest[1]} + 1) * 8;
    if (count == kExtensionsMax || offset - kSize + size > kExtensionBytesMax)
      return failure(Error::kUnsupported);
    if (size > rest.size()) return failure(Error::kTruncated);
    if (const auto ok = check_extension(next, rest.first(size)); !ok) return failure(ok.error());
    next = static_cast<IpProtocol>(rest[0]);
    offset += size;
  }
}

Ipv6Fields Ipv6View::fields() const noexcept {
  return {traffic_class(), flow_label(), payload_length(), next_header(),
          hop_limit(),     source(),     destination()};
}

void build(std::uint8_t* p, const Ipv6Fields& f) noexcept {
  store_be<4>(p, 6U << 28 | std::uint32_t{f.traffic_class} << 20 | (f.flow_label & 0xf'ffffU));
  store_be<2>(p + 4, f.payload_length);
  p[6] = static_cast<std::uint8_t>(f.next_header);
  p[7] = f.hop_limit;
  std::copy_n(f.source.bytes().data(), IpAddress::kSize, p + 8);
  std::copy_n(f.destination.bytes().data(), IpAddress::kSize, p + 24);
}

std::string to_string(const Ipv6View& v) {
  std::string s =
      fmt::format("{} > {} ipv6 next {} length {} hops {} class 0x{:02x}", to_string(v.source()),
                  to_string(v.destination()), static_cast<unsigned>(v.next_header()),
                  v.payload_length(), v.hop_limit(), v.traffic_class());
  const auto t = v.transport();
  if (!t) return s + " bad extension headers";
  if (t->fragment) s += " fragment";
  if (t->offset != Ipv6View::kSize)
    s += fmt::format(" extensions {} proto {}", t->offset - Ipv6View::kSize,
                     static_cast<unsigned>(t->protocol));
  return s;
}

}  // namespace h4a::net
