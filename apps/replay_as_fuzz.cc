// Arbitrary packets as a capture, played as either host: whatever they are, the player ends.
//
// The input is a list of packets, each with one byte in front that says who sent it (bit 0) and that its
// length follows in two bytes. What is no transport packet is left out, as reading a capture would.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "apps/replay_as.h"
#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a;
  using namespace h4a::apps;
  const IpAddress hosts[] = {IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2)};
  std::vector<RecordedPacket> packets;
  Bytes rest(data, size);
  while (rest.size() >= 3) {
    const std::size_t from = rest[0] & 1;
    const std::size_t length = std::min<std::size_t>(load_be16(&rest[1]), rest.size() - 3);
    const Bytes packet = rest.subspan(3, length);
    rest = rest.subspan(3 + length);
    if (!net::parse_transport(packet)) continue;
    packets.push_back(
        {packets.size() + 1, hosts[from], hosts[1 - from], {packet.begin(), packet.end()}});
  }
  for (const IpAddress& host : hosts) {
    const PlayReport report = play_as(packets, host);
    for (const PlayResult& r : report.conversations)
      H4A_ASSERT(r.equal + r.repeated + r.incomparable <= r.recorded);
    H4A_ASSERT(!to_json(report, "").empty() && !to_text(report, "x").empty());
  }
  return 0;
}
