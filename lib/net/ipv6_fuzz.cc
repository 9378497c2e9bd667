// IPv6: what parses prints, build writes the very bytes, and the extension walk stays in the packet and
// within its bounds.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "net/ipv6.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const auto quoted = Ipv6View::parse_quoted({data, size});
  if (quoted) H4A_ASSERT(quoted->packet().size() <= size && !to_string(*quoted).empty());
  const auto v = Ipv6View::parse({data, size});
  if (!v) return 0;
  std::array<std::uint8_t, Ipv6View::kSize> again{};
  build(again.data(), v->fields());
  H4A_ASSERT(std::equal(again.begin(), again.end(), data));
  const auto t = v->transport();
  if (!t) return 0;
  H4A_ASSERT(t->offset >= Ipv6View::kSize && t->offset <= v->packet().size());
  H4A_ASSERT(t->offset <= Ipv6View::kSize + Ipv6View::kExtensionBytesMax);
  H4A_ASSERT(t->fragment == (t->protocol == IpProtocol::kFragment));
  return 0;
}
