// NDP: what parses prints, all options are readable, and a neighbour message built from it reads the same.
#include <array>

#include "base/assert.h"
#include "net/ndp.h"

namespace {

using namespace h4a::net;

void check_neighbour(const NdpView& v) {
  std::array<std::uint8_t, kNeighbourMessageSizeMax> b{};
  std::size_t size = 0;
  if (v.type() == Icmpv6Type::kNeighbourSolicitation)
    size = build_neighbour_solicitation(b.data(), v.target(), v.source_link_address(), v.target(),
                                        v.target());
  else
    size = build_neighbour_advertisement(
        b.data(),
        {v.target(), v.is_router(), v.is_solicited(), v.is_override(), v.target_link_address()},
        v.target(), v.target());
  const auto w = NdpView::parse(h4a::Bytes(b).first(size));
  H4A_ASSERT(w.has_value() && w->target() == v.target() && w->type() == v.type());
  if (v.type() == Icmpv6Type::kNeighbourSolicitation)
    H4A_ASSERT(w->source_link_address() == v.source_link_address());
  else
    H4A_ASSERT(w->target_link_address() == v.target_link_address() &&
               w->is_router() == v.is_router() && w->is_solicited() == v.is_solicited() &&
               w->is_override() == v.is_override());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto v = NdpView::parse({data, size});
  if (!v) return 0;
  H4A_ASSERT(!to_string(*v).empty());
  H4A_ASSERT(v->prefix_count() <= NdpView::kPrefixMax);
  for (std::size_t i = 0; i < v->prefix_count(); ++i) H4A_ASSERT(v->prefix(i).prefix_bits <= 128);
  H4A_ASSERT(!v->acceptable(v->target(), v->target(), 254));
  (void)v->acceptable(h4a::IpAddress{}, solicited_node_group(v->target()), kNdpHopLimit);
  if (v->is_neighbour()) check_neighbour(*v);
  return 0;
}
