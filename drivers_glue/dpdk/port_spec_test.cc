// Port texts: each short form, each option, and what is wrong with the rest.
#include "drivers_glue/dpdk/port_spec.h"

#include <array>

#include "test/test_support.h"

using namespace h4a;
using namespace h4a::dpdk;

namespace {

PortSpec parsed(std::string_view text) {
  std::string error;
  const auto spec = parse_port_spec(text, error);
  if (!spec) fail_msg("%s", error.c_str());
  return *spec;
}

void test_short_forms(void**) {
  assert_true(parsed("ring:").kind == PortKind::kRing);
  assert_string_equal(parsed("ring:left").target.c_str(), "left");
  const PortSpec memif = parsed("memif:/run/h4a.sock,role=server,rsize=9,id=3,secret=s,mtu=4500");
  assert_true(memif.kind == PortKind::kMemif && memif.server);
  assert_string_equal(memif.target.c_str(), "/run/h4a.sock");
  assert_int_equal(memif.ring_log2, 9);
  assert_int_equal(memif.id, 3);
  assert_string_equal(memif.secret.c_str(), "s");
  assert_int_equal(*memif.mtu, 4500);
  assert_false(parsed("memif:x").server);
  assert_false(parsed("memif:x,role=client").server);
  const PortSpec packet = parsed("af_packet:eth0,mac=02:00:00:00:00:07,frames=8192");
  assert_true(packet.kind == PortKind::kAfPacket);
  assert_true(*packet.mac == MacAddress({2, 0, 0, 0, 0, 7}));
  assert_int_equal(*packet.frames, 8192);
  assert_int_equal(parsed("af_xdp:eth0,queue=5").queue, 5);
  assert_true(parsed("tap:h4a0").kind == PortKind::kTap);
  assert_string_equal(parsed("pci:0000:3b:00.0").target.c_str(), "0000:3b:00.0");
}

void test_devargs_are_passed_on(void**) {
  const PortSpec spec = parsed("net_pcap0,rx_pcap=a.pcap,tx_pcap=b.pcap");
  assert_true(spec.kind == PortKind::kDevargs);
  assert_string_equal(spec.target.c_str(), "net_pcap0,rx_pcap=a.pcap,tx_pcap=b.pcap");
}

void test_errors(void**) {
  struct Row {
    const char* text;
    const char* says;
  };
  const std::array<Row, 16> rows{{
      {"", "not understood"},
      {"eth0", "not understood"},
      {"memif", "not understood"},
      {"memif:", "a socket path must follow"},
      {"af_packet:", "an interface must follow"},
      {"af_packet:averylonginterface", "longer than 15"},
      {"ring:a,role=server", "unknown option 'role'"},
      {"memif:x,roll=server", "known: mtu mac frames role rsize id secret"},
      {"memif:x,role=master", "server or client"},
      {"memif:x,", "unknown option ''"},
      {"memif:x,mtu", "mtu= should be 576 to 9100"},
      {"memif:x,mtu=100", "576 to 9100"},
      {"memif:x,mtu=9000x", "576 to 9100"},
      {"memif:x,mtu=65536", "576 to 9100"},
      {"ring:,mac=01:00:5e:00:00:01", "a unicast MAC"},
      {"ring:,frames=1", "64 to 1048576"},
  }};
  for (const Row& row : rows) {
    std::string error;
    assert_error(parse_port_spec(row.text, error), Error::kMalformed);
    if (error.find(row.says) == std::string::npos) fail_msg("'%s': %s", row.text, error.c_str());
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_short_forms),
      cmocka_unit_test(test_devargs_are_passed_on),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
