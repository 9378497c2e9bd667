// CM messages: whatever parses can be printed, and building it again gives a MAD that parses to the
// same values.
#include "base/assert.h"
#include "net/cm_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::net;
  const auto parsed = parse_cm({data, size});
  if (!parsed) return 0;
  H4A_ASSERT(size == kMadSize);
  H4A_ASSERT(!to_string(*parsed).empty());
  MadBytes again;
  build_cm(*parsed, again);
  const auto reparsed = parse_cm(again);
  H4A_ASSERT(reparsed.has_value() && *reparsed == *parsed);
  const auto ip = IpCmHeader::load(data + MadHeader::kSize);
  if (!ip) return 0;
  std::uint8_t header[IpCmHeader::kSize];
  ip->build(header);
  const auto back = IpCmHeader::load(header);
  // An IPv4-mapped address in a header of version 6 comes back as what it is: IPv4.
  H4A_ASSERT(back.has_value() && back->source_port == ip->source_port);
  return 0;
}
