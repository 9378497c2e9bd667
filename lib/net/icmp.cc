#include "net/icmp.h"

#include <algorithm>
#include <fmt/format.h>

#include "net/checksum.h"

namespace h4a::net {

bool IcmpView::checksum_ok() const noexcept {
  return Checksum().add(bytes_).ok();
}

void build(MutableBytes message, const IcmpFields& f) noexcept {
  std::uint8_t* p = message.data();
  p[0] = static_cast<std::uint8_t>(f.type);
  p[1] = f.code;
  store_be<2>(p + 2, 0);
  store_be<2>(p + 4, f.word0);
  store_be<2>(p + 6, f.word1);
  store_be<2>(p + 2, Checksum().add(message).value());
}

void make_echo_reply(MutableBytes message) noexcept {
  // The type falls by 8, so the checksum rises by 0800. Not update_checksum(): for a reply that is all
  // zeros that gives 0000, and only ffff is right (RFC 1624 §3 assumes a word that is not zero).
  std::uint8_t* p = message.data();
  const std::uint32_t sum = std::uint32_t{load_be16(p + 2)} + 0x0800;
  p[0] = static_cast<std::uint8_t>(IcmpType::kEchoReply);
  store_be<2>(p + 2, (sum & 0xffff) + (sum >> 16));
}

std::size_t build_error(MutableBytes out, const IcmpFields& f, Bytes offending) noexcept {
  const std::size_t room = std::min(out.size(), kIcmpErrorSizeMax) - IcmpView::kSize;
  const Bytes quote = offending.first(std::min(room, offending.size()));
  const std::size_t size = IcmpView::kSize + quote.size();
  std::copy(quote.begin(), quote.end(), out.data() + IcmpView::kSize);
  build(out.first(size), f);
  return size;
}

std::string to_string(const IcmpView& v) {
  switch (v.type()) {
    case IcmpType::kEchoRequest:
    case IcmpType::kEchoReply:
      return fmt::format("icmp echo {} id {} seq {} data {}",
                         v.type() == IcmpType::kEchoRequest ? "request" : "reply", v.identifier(),
                         v.sequence(), v.rest().size());
    case IcmpType::kUnreachable:
      if (v.is_fragmentation_needed())
        return fmt::format("icmp fragmentation needed mtu {}", v.next_hop_mtu());
      return fmt::format("icmp unreachable code {}", v.code());
    case IcmpType::kTimeExceeded:
      break;
  }
  return fmt::format("icmp type {} code {}", static_cast<unsigned>(v.type()), v.code());
}

}  // namespace h4a::net
