// ICMP: what parses prints and comes back from build with a right checksum; quotes are walked; an echo
// request with a right checksum gets a reply with one.
#include <vector>

#include "base/assert.h"
#include "net/icmp.h"
#include "net/ipv4.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const auto v = IcmpView::parse({data, size});
  if (!v) return 0;
  H4A_ASSERT(!to_string(*v).empty());
  if (const auto quoted = Ipv4View::parse_quoted(v->quoted()))
    H4A_ASSERT(quoted->packet().size() <= v->quoted().size());
  std::vector<std::uint8_t> again(data, data + size);
  build(again, v->fields());
  H4A_ASSERT(IcmpView::parse(again)->fields() == v->fields());
  H4A_ASSERT(IcmpView::parse(again)->checksum_ok());
  if (v->type() == IcmpType::kEchoRequest) {
    make_echo_reply(again);
    H4A_ASSERT(IcmpView::parse(again)->checksum_ok());
  }
  std::vector<std::uint8_t> error(IcmpView::kSize + data[0]);
  error.resize(build_error(error, v->fields(), {data, size}));
  H4A_ASSERT(IcmpView::parse(error)->checksum_ok());
  return 0;
}
