// IPv4: what parses prints and comes back from build as it was; a header that passed its checksum comes
// back byte by byte, apart from the reserved flag.
#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "net/ipv4.h"

namespace {

using namespace h4a::net;

void check_round_trip(const Ipv4View& v) {
  std::vector<std::uint8_t> again(v.packet().begin(), v.packet().end());
  build(again.data(), v.fields());
  const auto w = Ipv4View::parse(again);
  H4A_ASSERT(w.has_value());
  H4A_ASSERT(w->checksum_ok());
  H4A_ASSERT(w->fields() == v.fields());
  const bool reserved_flag = (v.packet()[6] & 0x80) != 0;
  // All ones is the other zero of one's complement: the only checksum that build never writes.
  if (v.checksum_ok() && !reserved_flag && v.checksum() != 0xffff)
    H4A_ASSERT(std::equal(again.begin(), again.end(), v.packet().begin()));
  rewrite_ipv4(again.data(), v.total_length(), IpProtocol::kEsp);
  H4A_ASSERT(Ipv4View::parse(again)->checksum_ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto quoted = Ipv4View::parse_quoted({data, size});
  const auto v = Ipv4View::parse({data, size});
  if (quoted) H4A_ASSERT(quoted->packet().size() <= size && !to_string(*quoted).empty());
  if (!v) return 0;
  H4A_ASSERT(quoted && quoted->packet().size() == v->packet().size());
  H4A_ASSERT(v->header_size() + v->payload().size() == v->total_length());
  check_round_trip(*v);
  return 0;
}
