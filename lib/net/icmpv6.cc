#include "net/icmpv6.h"

#include <algorithm>
#include <fmt/format.h>

#include "net/checksum.h"
#include "net/ip_protocol.h"

namespace h4a::net {
namespace {

Checksum pseudo_header(std::size_t length, const IpAddress& source,
                       const IpAddress& destination) noexcept {
  Checksum sum;
  sum.add_pseudo_header(source, destination, static_cast<std::uint8_t>(IpProtocol::kIcmpv6),
                        length);
  return sum;
}

}  // namespace

bool Icmpv6View::checksum_ok(const IpAddress& source, const IpAddress& destination) const noexcept {
  return pseudo_header(bytes_.size(), source, destination).add(bytes_).ok();
}

std::uint16_t icmpv6_checksum(Bytes message, const IpAddress& source,
                              const IpAddress& destination) noexcept {
  return pseudo_header(message.size(), source, destination)
      .add(message.first(2))
      .add(message.subspan(4))
      .value();
}

void build(MutableBytes message, const Icmpv6Fields& f, const IpAddress& source,
           const IpAddress& destination) noexcept {
  std::uint8_t* p = message.data();
  p[0] = static_cast<std::uint8_t>(f.type);
  p[1] = f.code;
  store_be<4>(p + 4, f.word);
  store_be<2>(p + 2, icmpv6_checksum(message, source, destination));
}

void make_echo_reply_v6(MutableBytes message) noexcept {
  std::uint8_t* p = message.data();
  const std::uint16_t before = load_be16(p);
  p[0] = static_cast<std::uint8_t>(Icmpv6Type::kEchoReply);
  store_be<2>(p + 2, update_checksum(load_be16(p + 2), before, load_be16(p)));
}

std::size_t build_error(MutableBytes out, const Icmpv6Fields& f, Bytes offending,
                        const IpAddress& source, const IpAddress& destination) noexcept {
  const std::size_t room = std::min(out.size(), kIcmpv6ErrorSizeMax) - Icmpv6View::kSize;
  const Bytes quote = offending.first(std::min(room, offending.size()));
  const std::size_t size = Icmpv6View::kSize + quote.size();
  std::copy(quote.begin(), quote.end(), out.data() + Icmpv6View::kSize);
  build(out.first(size), f, source, destination);
  return size;
}

std::string to_string(const Icmpv6View& v) {
  switch (v.type()) {
    case Icmpv6Type::kEchoRequest:
    case Icmpv6Type::kEchoReply:
      return fmt::format("icmpv6 echo {} id {} seq {} data {}",
                         v.type() == Icmpv6Type::kEchoRequest ? "request" : "reply", v.identifier(),
                         v.sequence(), v.rest().size());
    case Icmpv6Type::kUnreachable:
      return fmt::format("icmpv6 unreachable code {}", v.code());
    case Icmpv6Type::kPacketTooBig:
      return fmt::format("icmpv6 packet too big mtu {}", v.mtu());
    default:
      return fmt::format("icmpv6 type {} code {}", static_cast<unsigned>(v.type()), v.code());
  }
}

}  // namespace h4a::net
