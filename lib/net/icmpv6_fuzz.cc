// ICMPv6: as icmp_fuzz, with a pseudo header of two fixed addresses.
#include <vector>

#include "base/assert.h"
#include "net/icmpv6.h"
#include "net/ipv6.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a;
  using namespace h4a::net;
  static const IpAddress from = *IpAddress::parse("fd77::1");
  static const IpAddress to = *IpAddress::parse("fd77::2");
  const auto v = Icmpv6View::parse({data, size});
  if (!v) return 0;
  H4A_ASSERT(!to_string(*v).empty());
  if (const auto quoted = Ipv6View::parse_quoted(v->quoted())) {
    H4A_ASSERT(quoted->packet().size() <= v->quoted().size());
    if (const auto t = quoted->transport()) H4A_ASSERT(t->offset <= quoted->packet().size());
  }
  std::vector<std::uint8_t> again(data, data + size);
  build(again, v->fields(), from, to);
  H4A_ASSERT(Icmpv6View::parse(again)->fields() == v->fields());
  H4A_ASSERT(Icmpv6View::parse(again)->checksum_ok(from, to));
  make_echo_reply_v6(again);
  H4A_ASSERT(Icmpv6View::parse(again)->checksum_ok(to, from));
  std::vector<std::uint8_t> error(Icmpv6View::kSize + data[0]);
  error.resize(build_error(error, v->fields(), {data, size}, from, to));
  H4A_ASSERT(Icmpv6View::parse(error)->checksum_ok(from, to));
  return 0;
}
