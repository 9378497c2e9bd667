// The first byte chooses: a capture file, one Ethernet frame, or what is inside an ESP packet (sealed here
// with the test key, so that mutation reaches the inner packet). Every frame gets a consistent report.
#include "apps/replay_frame.h"
#include "apps/replay_keys.h"
#include "apps/replay_output.h"
#include "apps/replay_test_packets.h"
#include "base/assert.h"
#include "net/capture_reader.h"

namespace {

using namespace h4a;
using namespace h4a::apps;

EspOpener make_opener() {
  auto keys = parse_esp_keys(test::key_row(0x1001, 20));
  H4A_ASSERT(keys.has_value());
  auto opener = EspOpener::create(std::move(*keys));
  H4A_ASSERT(opener.has_value());
  return std::move(*opener);
}

void dissect(EspOpener& opener, const net::CaptureRecord& record, std::uint64_t number) {
  const FrameReport r = Dissector(opener).dissect(record, number);
  H4A_ASSERT((r.verdict == Verdict::kOk) == (r.reason == Drop::kNone));
  if (r.offset) H4A_ASSERT(*r.offset <= record.bytes.size());
  if (r.verdict == Verdict::kOk) H4A_ASSERT(r.icrc != Check::kBad && r.icv != Check::kBad);
  H4A_ASSERT(!to_json(r, "f").empty() && !to_text(r, "f").empty());
}

void frame(EspOpener& opener, Bytes bytes, net::LinkType link) {
  net::CaptureRecord record;
  record.link_type = link;
  record.bytes = bytes;
  dissect(opener, record, 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static EspOpener opener = make_opener();
  opener.reset();
  const Bytes rest{data + 1, size - 1};
  if (data[0] < 0x55) {
    net::CaptureReader reader(rest);
    net::CaptureRecord record;
    for (std::uint64_t n = 1; reader.next(record); ++n) dissect(opener, record, n);
  } else if (data[0] < 0xaa) {
    constexpr net::LinkType kLinks[] = {net::LinkType::kEthernet, net::LinkType::kRawIp,
                                        net::LinkType::kNull,     net::LinkType::kLinuxSll,
                                        net::LinkType::kNflog,    net::LinkType::kLinuxSll2};
    frame(opener, rest, kLinks[data[0] % std::size(kLinks)]);
  } else if (rest.size() >= 2 && rest.size() <= 60'000) {
    const test::Packet esp = test::esp_packet({}, rest, false);
    frame(opener, test::ip_packet(data[0] % 2 != 0, test::kEsp, esp), net::LinkType::kRawIp);
  }
  return 0;
}
