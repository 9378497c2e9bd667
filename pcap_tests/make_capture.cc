// Writes captures made by the library's own builders, with what another tool must find in them.
//
// usage: make_capture FOLDER
// Files: clear.pcap, clear.pcapng; esp.pcapng and esp.keys (Wireshark's ESP SA table). On standard
// output one line a frame: file, number, opcode, destination QP, PSN, ICRC as it stands on the wire.
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replay_test_packets.h"
#include "ipsec/esp.h"
#include "net/opcode.h"
#include "net/pcap.h"
#include "net/pcapng.h"

namespace {

using namespace h4a;
using namespace h4a::apps::test;

constexpr std::int64_t kFirstFrameNs = 1'700'000'000'000'000'000;

/// A capture and the list of what is in it.
class Recording {
 public:
  Recording(std::string name, std::unique_ptr<net::CaptureWriter> writer)
      : name_(std::move(name)), writer_(std::move(writer)) {}

  /// @param frame as it is captured. @param packet the RoCE packet in it, from its IP header on.
  void add(const Packet& frame, const RoceSpec& spec, const Packet& packet) {
    writer_->record(frame, kFirstFrameNs + 1000 * number_);
    fmt::print("{} {} {} {} {} {:02x}\n", name_, ++number_, static_cast<unsigned>(spec.opcode),
               spec.dest_qp, spec.psn, fmt::join(packet.end() - 4, packet.end(), ""));
  }
  [[nodiscard]] bool finish() { return writer_->finish().has_value(); }

 private:
  std::string name_;
  std::unique_ptr<net::CaptureWriter> writer_;
  int number_ = 0;
};

/// Every opcode, over both versions of IP, with all sizes of pad.
std::vector<RoceSpec> all_packets() {
  std::vector<RoceSpec> specs;
  for (const bool v6 : {false, true})
    for (const net::OpcodeInfo& row : net::kOpcodeTable) {
      RoceSpec spec;
      spec.v6 = v6;
      spec.opcode = row.opcode;
      spec.dest_qp = 0x100 + static_cast<std::uint32_t>(specs.size());
      spec.psn = 0xff'fff0 + static_cast<std::uint32_t>(specs.size());
      spec.psn &= 0xff'ffff;
      spec.payload_bytes = row.has_payload ? 256 + specs.size() % 4 : 0;
      specs.push_back(spec);
    }
  return specs;
}

bool write_clear(const std::string& folder, bool pcapng) {
  const std::string name = pcapng ? "clear.pcapng" : "clear.pcap";
  std::unique_ptr<net::CaptureWriter> writer;
  if (pcapng) {
    auto created = net::PcapngWriter::create(folder + "/" + name);
    if (!created) return false;
    writer = std::move(*created);
  } else {
    auto created = net::PcapWriter::create(folder + "/" + name);
    if (!created) return false;
    writer = std::move(*created);
  }
  Recording recording(name, std::move(writer));
  std::size_t i = 0;
  for (const RoceSpec& spec : all_packets()) {
    const Packet packet = roce_packet(spec);
    recording.add(ethernet_frame(packet, i++ % 3), spec, packet);
  }
  return recording.finish();
}

/// An SA and the row that opens it.
struct Outbound {
  bool v6;
  std::uint32_t spi;
  std::size_t key_size;
  bool esn;
  std::uint64_t first;
};
constexpr Outbound kOutbound[] = {{false, 0x1001, 20, false, 1},
                                  {false, 0x1002, 36, true, 0xffff'fff8},
                                  {true, 0x1003, 20, true, 1},
                                  {true, 0x1004, 36, false, 1}};

bool write_keys(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "w");
  if (f == nullptr) return false;
  for (const Outbound& o : kOutbound) {
    fmt::print(f, "# h4a: esn={} hi={}\n", o.esn ? 1 : 0, o.first >> 32);
    fmt::print(f,
               "\"{}\",\"{}\",\"{}\",\"0x{:08x}\",\"AES-GCM with 16 octet ICV [RFC4106]\","
               "\"0x{:02x}\",\"NULL\",\"\"\n",
               o.v6 ? "IPv6" : "IPv4", to_string(address(o.v6, 1)), to_string(address(o.v6, 2)),
               o.spi, fmt::join(key_material(o.key_size), ""));
  }
  return std::fclose(f) == 0;
}

bool write_esp(const std::string& folder) {
  auto writer = net::PcapngWriter::create(folder + "/esp.pcapng");
  if (!writer) return false;
  Recording recording("esp.pcapng", std::move(*writer));
  for (const Outbound& o : kOutbound) {
    const auto sa = outbound_sa(o.spi, o.key_size, o.esn, o.first, o.v6);
    for (const RoceSpec& spec : all_packets()) {
      if (spec.v6 != o.v6) continue;
      const Packet packet = roce_packet(spec);
      recording.add(ethernet_frame(seal_transport(*sa, packet)), spec, packet);
    }
  }
  return recording.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: make_capture FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  const bool written = write_clear(folder, false) && write_clear(folder, true) &&
                       write_esp(folder) && write_keys(folder + "/esp.keys");
  if (!written) fmt::print(stderr, "make_capture: cannot write to {}\n", folder);
  return written ? 0 : 1;
}
