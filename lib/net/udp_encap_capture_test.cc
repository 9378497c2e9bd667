// FIELD-REPORTS B38 on foreign captures: what every datagram on port 4500 is. The captures are not part of
// the project: without H4A_SHARED the tests skip.
#include <string>
#include <vector>

#include "net/capture_reader.h"
#include "net/esp.h"
#include "net/packet_view.h"
#include "net/udp.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

struct Counts {
  int keepalive = 0;
  int ike = 0;
  int esp = 0;
  int bad = 0;
  int dropped = 0;  // never came as far as UDP

  void add(UdpEncap kind) {
    switch (kind) {
      case UdpEncap::kKeepalive:
        ++keepalive;
        return;
      case UdpEncap::kIke:
        ++ike;
        return;
      case UdpEncap::kEsp:
        ++esp;
        return;
      case UdpEncap::kBad:
        ++bad;
        return;
    }
  }
  friend bool operator==(const Counts&, const Counts&) = default;
};

void count_frame(const CaptureRecord& record, Counts& counts) {
  const std::vector<std::uint8_t> exact(record.bytes.begin(), record.bytes.end());  // for ASan
  const auto view =
      record.link_type == LinkType::kEthernet ? inspect_packet(exact) : inspect_ip_packet(exact);
  if (!view) {
    ++counts.dropped;
    return;
  }
  if (view->protocol != IpProtocol::kUdp) return;
  const auto udp = UdpView::parse(view->transport());
  assert_ok(udp);
  if (udp->source_port() == kUdpEncapPort || udp->destination_port() == kUdpEncapPort)
    counts.add(classify_udp_encap(udp->payload()));
}

void check(const char* name, const Counts& expected) {
  if (test::shared_dir() == nullptr) skip();
  const auto file = read_file(std::string(test::shared_dir()) + "/captures/tcpdump/" + name);
  assert_ok(file);
  Counts got;
  CaptureReader reader(*file);
  CaptureRecord record;
  while (reader.next(record)) count_frame(record, got);
  if (!(got == expected))
    fail_msg("%s: keepalive %d ike %d esp %d bad %d dropped %d", name, got.keepalive, got.ike,
             got.esp, got.bad, got.dropped);
}

void a_conversation_of_ike_esp_and_keepalives(void**) {
  check("isakmp4500.pcap", {.keepalive = 4, .ike = 11, .esp = 8});
}

void a_datagram_cut_within_esp(void**) {
  check("esp_truncated.pcap", {.dropped = 1});
}

void lengths_that_lie(void**) {
  check("isakmp-3948-oobr-2.pcap", {.dropped = 1});
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_conversation_of_ike_esp_and_keepalives),
      cmocka_unit_test(a_datagram_cut_within_esp),
      cmocka_unit_test(lengths_that_lie),
  };
  return cmocka_run_group_tests_name("udp_encap_capture", tests, nullptr, nullptr);
}
