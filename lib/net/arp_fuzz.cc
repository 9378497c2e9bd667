// ARP: what parses prints, and comes back from build as it was.
#include <array>

#include "base/assert.h"
#include "net/arp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const auto v = ArpView::parse({data, size});
  if (!v) return 0;
  H4A_ASSERT(!to_string(*v).empty());
  std::array<std::uint8_t, ArpView::kSize> again{};
  build(again.data(), v->fields());
  H4A_ASSERT(ArpView::parse(again)->fields() == v->fields());
  build(again.data(), arp_reply(*v, v->sender_mac()));
  H4A_ASSERT(ArpView::parse(again)->target_ip() == v->sender_ip());
  return 0;
}
