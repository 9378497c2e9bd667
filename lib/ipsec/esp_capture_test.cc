// What Linux (XFRM under Soft-RoCE) put on a wire, opened by open_burst and compared with the clear packets
// of its own kernel. The captures are not part of the project: without H4A_SHARED the tests skip.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ipsec/esp.h"
#include "ipsec/test_bytes.h"
#include "net/capture_reader.h"
#include "net/packet_view.h"
#include "packet/frame_pool.h"

#include "test/test_support.h"

namespace h4a::ipsec {
namespace {

using packet::Frame;
using test::ByteVector;
using test::from_hex;

constexpr const char* kKeyA128 = "000102030405060708090a0b0c0d0e0fa0a1a2a3";
constexpr const char* kKeyB128 = "101112131415161718191a1b1c1d1e1fb0b1b2b3";
constexpr const char* kKeyA256 =
    "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3fc0c1c2c3";
constexpr const char* kKeyB256 =
    "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5fd0d1d2d3";

struct Capture {
  const char* name;
  EspSuite suite;
  const char* key_to_b;  // SPI 0x1001
  const char* key_to_a;  // SPI 0x1002
  bool esn;
  std::uint64_t first_sequence;
};

constexpr std::array<Capture, 5> kCaptures{{
    {"esp-transport-gcm128-v4", EspSuite::kAesGcm128, kKeyA128, kKeyB128, false, 1},
    {"esp-transport-gcm256-v4", EspSuite::kAesGcm256, kKeyA256, kKeyB256, false, 1},
    {"esp-transport-gcm128-v6", EspSuite::kAesGcm128, kKeyA128, kKeyB128, false, 1},
    {"esp-esn-transport-gcm256-v4", EspSuite::kAesGcm256, kKeyA256, kKeyB256, true, 1},
    {"esp-esn-wrap-transport-gcm128-v4", EspSuite::kAesGcm128, kKeyA128, kKeyB128, true,
     0xffff'fffb},
}};

constexpr std::array<const char*, 4> kOtherModes{{"esp-tunnel-gcm128-v4", "esp-tunnel-gcm256-v6",
                                                  "esp-natt-transport-gcm128-v4",
                                                  "esp-natt-tunnel-gcm256-v4"}};

std::string path_of(const std::string& name) {
  return std::string(h4a::test::shared_dir()) + "/peer/pcaps/" + name;
}

/// Everything above the link layer of each record.
std::vector<ByteVector> ip_packets(const std::string& path) {
  std::vector<ByteVector> packets;
  const auto file = net::read_file(path);
  assert_ok(file);
  net::CaptureReader reader(*file);
  net::CaptureRecord record;
  while (reader.next(record)) {
    const auto view = record.link_type == net::LinkType::kEthernet
                          ? net::inspect_packet(record.bytes)
                          : net::inspect_ip_packet(record.bytes);
    if (!view || view->ip_version == 0) continue;
    const Bytes ip = view->ip_packet();
    packets.emplace_back(ip.begin(), ip.end());
  }
  assert_false(reader.fault().has_value());
  return packets;
}

void install(SaTable& table, const Capture& c, std::uint32_t spi, const char* key,
             const IpAddress& destination) {
  SaConfig config;
  config.spi = Spi(spi);
  config.destination = destination;
  config.association = AssociationId(spi);
  config.suite = c.suite;
  config.key = Secret<kEspKeyMaterialMax>(Bytes(from_hex(key)));
  config.esn = c.esn;
  config.first_sequence = c.first_sequence;
  config.replay_window = 128;
  assert_ok(table.add_inbound(std::move(config)));
}

void install_both(SaTable& table, const Capture& c) {
  const bool v6 = std::string(c.name).ends_with("v6");
  const auto a = IpAddress::parse(v6 ? "fd77::1" : "10.77.0.1").value();
  const auto b = IpAddress::parse(v6 ? "fd77::2" : "10.77.0.2").value();
  install(table, c, 0x1001, c.key_to_b, b);
  install(table, c, 0x1002, c.key_to_a, a);
}

Frame* load(packet::FramePool& pool, const ByteVector& packet) {
  Frame* f = pool.allocate_one();
  assert_non_null(f);
  std::copy(packet.begin(), packet.end(), f->append(packet.size()));
  const auto view = net::parse_ip_packet(f->bytes());
  assert_true(view.has_value());
  assert_eq(view->protocol, net::IpProtocol::kEsp);
  f->transport_offset = view->transport_offset;
  f->destination = view->destination;
  return f;
}

/// Opened packets in the order of the capture; each also opened a second time, as a replay.
std::vector<ByteVector> opened(const Capture& c) {
  SaTable table(4);
  install_both(table, c);
  packet::HeapFramePool pool(2);
  std::vector<ByteVector> out;
  for (const ByteVector& packet : ip_packets(path_of(std::string(c.name) + ".pcap"))) {
    std::array<Frame*, 2> burst{load(pool, packet), load(pool, packet)};
    if (open_burst(table, burst) != 1)
      fail_msg("%s: %s", c.name, std::string(to_string(burst[0]->drop)).c_str());
    assert_eq(burst[1]->drop, Drop::kReplayed);
    out.emplace_back(burst[0]->bytes().begin(), burst[0]->bytes().end());
    pool.release(burst);
  }
  return out;
}

void linux_transport_mode_opens_to_the_packets_of_its_kernel(void**) {
  if (h4a::test::shared_dir() == nullptr) skip();
  for (const Capture& c : kCaptures) {
    std::vector<ByteVector> ours = opened(c);
    std::vector<ByteVector> theirs = ip_packets(path_of(std::string(c.name) + ".plain.pcap"));
    assert_true(ours.size() > 10);
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    if (ours != theirs) fail_msg("%s: %zu and %zu packets", c.name, ours.size(), theirs.size());
  }
}

void linux_captures_of_other_modes(void**) {
  for (const char* name : kOtherModes) print_message("# SKIP %s: mode not built\n", name);
  print_message("# SKIP ipsec_rules tfc: tunnel mode not built\n");
  skip();
}

}  // namespace
}  // namespace h4a::ipsec

int main() {
  using namespace h4a::ipsec;
  const CMUnitTest tests[] = {
      cmocka_unit_test(linux_transport_mode_opens_to_the_packets_of_its_kernel),
      cmocka_unit_test(linux_captures_of_other_modes),
  };
  return cmocka_run_group_tests_name("esp_capture", tests, nullptr, nullptr);
}
