// Ethernet: what parses prints, and build writes the very bytes that were parsed.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "net/ether.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const auto v = EtherView::parse({data, size});
  if (!v) return 0;
  H4A_ASSERT(!to_string(*v).empty());
  H4A_ASSERT(v->header_size() + v->rest().size() == size);
  std::array<std::uint8_t, EtherView::kSizeMax> again{};
  H4A_ASSERT(header_size(v->fields()) == v->header_size());
  build(again.data(), v->fields());
  H4A_ASSERT(std::equal(data, data + v->header_size(), again.begin()));
  return 0;
}
