// `h4a replay --as` for both hosts of every capture of Linux Soft-RoCE: our engine, in the place of the
// kernel's, says the same. Where it says something else, docs/INTEROP.md names the clause.
#include "apps/replay_as.h"

#include "pcap_tests/support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;
using namespace h4a::pcap_tests;

/// Captures in which we differ on purpose: the number of differences, and why.
struct Exception {
  std::string_view file;
  std::string_view host;
  std::size_t differences;
  std::string_view why;
};
constexpr Exception kExceptions[] = {
    {"rc-nak-length-v4.pcap", "10.77.0.2", 1,
     "NAK invalid request for a SEND that is too long (docs/INTEROP.md)"},
};

std::size_t expected_differences(const std::string& name, const std::string& host) {
  for (const Exception& e : kExceptions)
    if (e.file == name && e.host == host) return e.differences;
  return 0;
}

std::vector<RecordedPacket> packets_of(const std::string& path) {
  const auto file = load(path);
  EspOpener opener;
  const std::string keys = path.substr(0, path.size() - 5) + ".keys";
  if (std::filesystem::exists(keys)) {
    const auto table = load(keys);
    opener = opener_of({reinterpret_cast<const char*>(table.data()), table.size()});
  }
  std::optional<net::CaptureFault> fault;
  auto packets = read_packets(file, opener, fault);
  assert_false(fault.has_value());
  return packets;
}

/// @return the packets of RC that were compared.
std::uint64_t assert_same(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  const auto packets = packets_of(path);
  std::uint64_t compared = 0;
  for (const IpAddress& host : hosts_of(packets)) {
    const PlayReport report = play_as(packets, host);
    std::size_t differences = 0;
    for (const PlayResult& r : report.conversations) {
      differences += r.differences.size() + !r.obstacle.empty();
      compared += r.equal + r.repeated;
      assert_int_equal(r.msn_offset, 0);
    }
    if (differences != expected_differences(name, to_string(host)))
      fail_msg("%s as %s:\n%s", name.c_str(), to_string(host).c_str(), to_text(report, "").c_str());
  }
  return compared;
}

void both_hosts_of(const std::string& folder, std::uint64_t at_least) {
  std::uint64_t compared = 0;
  for (const std::string& path : captures_in(shared(folder))) compared += assert_same(path);
  print_message("# %llu packets equal\n", static_cast<unsigned long long>(compared));
  assert_true(compared >= at_least);
}

void the_linux_peer(void**) {
  require_shared("peer/pcaps");
  both_hosts_of("peer/pcaps", 600);
}

void soft_roce_of_others(void**) {
  require_shared("captures/linlinw5_rdma_ib_tutorial");
  both_hosts_of("captures/linlinw5_rdma_ib_tutorial", 100);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_linux_peer),
      cmocka_unit_test(soft_roce_of_others),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
