// Foreign captures: Linux Soft-RoCE and XFRM in clear and in ESP, and malformed files of tcpdump's tests.
#include <map>
#include <tuple>

#include "pcap_tests/support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;
using namespace h4a::pcap_tests;

/// Every RoCE frame of the capture has a right ICRC and structure; returns how many there are.
std::size_t assert_icrcs(const std::string& path) {
  std::size_t roce = 0;
  for (const FrameReport& r : replay(path)) {
    if (r.protocol != "roce") continue;
    ++roce;
    if (r.icrc != Check::kOk || r.verdict != Verdict::kOk)
      fail_msg("%s: %s", path.c_str(), to_text(r, "").c_str());
  }
  return roce;
}

void soft_roce_of_others(void**) {
  const std::string folder = "captures/linlinw5_rdma_ib_tutorial";
  require_shared(folder);
  std::map<std::string, std::size_t> frames;
  for (const std::string& path : captures_in(shared(folder)))
    frames[std::filesystem::path(path).stem()] = assert_icrcs(path);
  assert_int_equal(frames["rdma_cm"], 96);
  assert_int_equal(frames["rping"], 65);
  assert_int_equal(frames["nccl_node0"], 184);
  assert_true(frames.size() >= 12);
  for (const auto& [name, n] : frames)
    if (n == 0) fail_msg("%s: no RoCE frame", name.c_str());
}

void every_icrc_of_the_linux_peer(void**) {
  require_shared("peer/pcaps");
  std::size_t frames = 0;
  std::size_t files = 0;
  for (const std::string& path : captures_in(shared("peer/pcaps"))) {
    frames += assert_icrcs(path);
    ++files;
  }
  print_message("# %zu frames in %zu captures\n", frames, files);
  assert_true(frames > 1000 && files > 60);
}

/// What must be equal inside ESP and in the clear.
using Inner = std::tuple<std::string_view, std::uint32_t, std::uint32_t, std::uint32_t>;

std::vector<Inner> inner_packets(const std::vector<FrameReport>& reports) {
  std::vector<Inner> out;
  for (const FrameReport& r : reports)
    if (!r.opcode.empty()) out.emplace_back(r.opcode, *r.psn, *r.dest_qp, r.icrc_on_wire);
  std::sort(out.begin(), out.end());
  return out;
}

/// Opens a capture with the keys beside it and compares it with the clear one beside it.
void assert_opens(const std::string& path) {
  const std::string stem = path.substr(0, path.size() - 5);
  const auto table = load(stem + ".keys");
  EspOpener opener = opener_of({reinterpret_cast<const char*>(table.data()), table.size()});
  const auto opened = replay(path, opener);
  std::size_t esp = 0;
  for (const FrameReport& r : opened) {
    if (r.protocol != "esp") continue;
    ++esp;
    if (r.icv != Check::kOk || r.icrc != Check::kOk || r.verdict != Verdict::kOk)
      fail_msg("%s: %s", path.c_str(), to_text(r, "").c_str());
    const bool esn = path.find("esn") != std::string::npos ||
                     path.find("ike-psk-transport") != std::string::npos ||
                     path.find("ike-cert-transport") != std::string::npos;
    if (esn && r.esn != true) fail_msg("%s: opened without ESN", path.c_str());
    const bool tunnel = path.find("tunnel") != std::string::npos;
    assert_true(r.mode == (tunnel ? "tunnel" : "transport"));
    assert_int_equal(r.udp_encap, path.find("natt") != std::string::npos);
  }
  assert_true(esp > 0);
  const auto plain = replay(stem + ".plain.pcap");
  if (inner_packets(opened) != inner_packets(plain))
    fail_msg("%s: the packets inside are not those of the clear capture", path.c_str());
  assert_int_equal(inner_packets(opened).size(), esp);
}

void esp_of_the_linux_peer_opens(void**) {
  require_shared("peer/pcaps");
  std::size_t files = 0;
  for (const std::string& path : captures_in(shared("peer/pcaps"))) {
    const std::string keys = path.substr(0, path.size() - 5) + ".keys";
    if (!std::filesystem::exists(keys)) continue;
    assert_opens(path);
    ++files;
  }
  print_message("# %zu captures opened\n", files);
  assert_true(files >= 13);
}

/// The same captures without a key, and with a wrong one: nothing is said about what is inside.
void without_the_right_key_nothing_opens(void**) {
  const std::string path = "peer/pcaps/esp-transport-gcm128-v4.pcap";
  require_shared(path);
  for (const FrameReport& r : replay(shared(path))) {
    assert_true(r.icv == Check::kNoKey && r.verdict == Verdict::kUnchecked);
    assert_true(r.opcode.empty() && r.reason == Drop::kNoSa);
  }
  EspOpener wrong = opener_of(
      "\"IPv4\",\"*\",\"*\",\"*\",\"AES-GCM with 16 octet ICV [RFC4106]\","
      "\"0x0000000000000000000000000000000000000000\",\"NULL\",\"\"");
  for (const FrameReport& r : replay(shared(path), wrong)) {
    assert_true(r.icv == Check::kBad && r.verdict == Verdict::kDrop);
    assert_true(r.opcode.empty() && r.reason == Drop::kBadIcv);
  }
}

void esp_played_twice_is_replayed(void**) {
  const std::string path = "peer/pcaps/esp-tunnel-gcm128-v4.pcap";
  require_shared(path);
  const auto table = load(shared("peer/pcaps/esp-tunnel-gcm128-v4.keys"));
  EspOpener opener = opener_of({reinterpret_cast<const char*>(table.data()), table.size()});
  const std::size_t frames = replay(shared(path), opener).size();
  const auto again = replay(shared(path), opener);
  assert_int_equal(count(again, [](auto& r) { return r.reason == Drop::kReplayed; }), frames);
}

// ---- tcpdump's files ----

void nat_traversal(void**) {
  const std::string path = "captures/tcpdump/isakmp4500.pcap";
  require_shared(path);
  const auto reports = replay(shared(path));
  assert_int_equal(count(reports, [](auto& r) { return r.reason == Drop::kUdpEncapIke; }), 11);
  assert_int_equal(count(reports, [](auto& r) { return r.protocol == "esp" && r.udp_encap; }), 8);
  assert_int_equal(count(reports, [](auto& r) { return r.reason == Drop::kUdpEncapKeepalive; }), 4);
  assert_int_equal(count(reports, [](auto& r) { return r.protocol == "arp"; }), 8);
}

void vlan_tags(void**) {
  const std::string path = "captures/tcpdump/802.1ad_QinQ.pcap";
  require_shared(path);
  for (const FrameReport& r : replay(shared(path))) {
    assert_true(r.protocol == "arp" && r.verdict == Verdict::kOk);
    assert_int_equal(r.vlan_tags, 2);
  }
}

void suites_that_are_not_built(void**) {
  const std::string path = "captures/tcpdump/08-sunrise-sunset-aes.pcap";
  require_shared(path);
  EspOpener opener = opener_of(
      "\"IPv4\",\"*\",\"192.1.2.45\",\"0xd1234567\",\"AES-CBC "
      "[RFC3602]\",\"0xaaaabbbbccccdddd40434345"
      "45464649494a4a4c4c4f4f515152525454575758\",\"HMAC-SHA-1-96 [RFC2404]\",\"\"");
  for (const FrameReport& r : replay(shared(path), opener)) {
    assert_true(r.verdict == Verdict::kUnchecked && r.reason == Drop::kUnsupportedSuite);
    assert_true(r.suite == "AES-CBC [RFC3602]");
  }
}

// Each of these once crashed a dissector. All frames are counted drops, and each says where.
void malformed_frames_are_drops(void**) {
  require_shared("captures/tcpdump");
  for (const char* name : {"esp_truncated", "ip6_frag_asan", "ipv6_frag6_negative_len",
                           "ipv6hdr-heapoverflow", "isakmp-3948-oobr-2", "isakmp-rfc3948-oobr"}) {
    const auto reports = replay(shared("captures/tcpdump/") + name + ".pcap");
    assert_true(!reports.empty());
    ReplaySummary summary;
    for (const FrameReport& r : reports) {
      summary.add(r);
      if (r.verdict != Verdict::kDrop || r.where.empty() || !r.offset)
        fail_msg("%s: %s", name, to_text(r, "").c_str());
    }
    assert_int_equal(summary.drops.total(), reports.size());
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(soft_roce_of_others),
      cmocka_unit_test(every_icrc_of_the_linux_peer),
      cmocka_unit_test(esp_of_the_linux_peer_opens),
      cmocka_unit_test(without_the_right_key_nothing_opens),
      cmocka_unit_test(esp_played_twice_is_replayed),
      cmocka_unit_test(nat_traversal),
      cmocka_unit_test(vlan_tags),
      cmocka_unit_test(suites_that_are_not_built),
      cmocka_unit_test(malformed_frames_are_drops),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
