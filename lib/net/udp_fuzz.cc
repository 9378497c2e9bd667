// UDP: the first 32 bytes are two addresses, the rest a datagram. What parses prints and comes back; a
// checksum that is computed verifies.
#include <vector>

#include "base/assert.h"
#include "net/udp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a;
  using namespace h4a::net;
  if (size < 32) return 0;
  const bool v4 = (data[0] & 1) != 0;
  const IpAddress from = v4 ? IpAddress::load_v4(data) : IpAddress::load_v6(data);
  const IpAddress to = v4 ? IpAddress::load_v4(data + 16) : IpAddress::load_v6(data + 16);
  const auto v = UdpView::parse({data + 32, size - 32});
  if (!v) return 0;
  H4A_ASSERT(!to_string(*v).empty());
  H4A_ASSERT(v->payload().size() + UdpView::kSize == v->length());
  const bool was_ok = v->checksum_ok(from, to);
  std::vector<std::uint8_t> again(v->bytes().begin(), v->bytes().end());
  UdpFields f = v->fields();
  f.checksum = udp_checksum(again, from, to);
  if (was_ok) H4A_ASSERT(v->checksum() == 0 || v->checksum() == f.checksum);
  build(again.data(), f);
  H4A_ASSERT(UdpView::parse(again)->fields() == f);
  H4A_ASSERT(UdpView::parse(again)->checksum_ok(from, to));
  return 0;
}
