// Every item of vectors.json gets its right verdict; an item of a suite or mode that is not built is skipped
// by name, with the reason printed.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/replay_test_packets.h"
#include "ipsec/esp.h"
#include "net/icrc.h"
#include "pcap_tests/support.h"
#include "roce/test_bench.h"

namespace {

using namespace h4a;
using namespace h4a::apps;
using namespace h4a::pcap_tests;
using Json = nlohmann::json;

constexpr const char* kFile = "vectors/vectors.json";

/// One section of the file, or null if it is not there.
Json section(const char* name) {
  const auto bytes = load(shared(kFile));
  const Json all = Json::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (all.is_discarded() || !all.contains(name)) fail_msg("%s: no section %s", kFile, name);
  return all[name];
}

std::string text(const Json& item, const char* field) {
  return item.contains(field) && item[field].is_string() ? item[field].get<std::string>() : "";
}

std::vector<std::uint8_t> hex(const std::string& s) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i + 1 < s.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoul(s.substr(i, 2), nullptr, 16)));
  return out;
}

void skip_item(const Json& item, const std::string& why) {
  print_message("# skipped: %s: %s\n", text(item, "id").c_str(), why.c_str());
}

FrameReport see(Bytes frame, EspOpener& opener, net::LinkType link = net::LinkType::kEthernet) {
  net::CaptureRecord record;
  record.link_type = link;
  record.bytes = frame;
  return Dissector(opener).dissect(record, 1);
}

FrameReport see(Bytes frame) {
  EspOpener none;
  return see(frame, none);
}

// ---- icrc ----

/// Frame N of "folder/file.pcap#N", or nothing if the file is not shared.
std::vector<std::uint8_t> captured(const std::string& name) {
  const std::size_t hash = name.find('#');
  const std::string path = shared("captures/" + name.substr(0, hash));
  if (!std::filesystem::exists(path)) return {};
  const auto file = load(path);
  net::CaptureReader reader(file);
  net::CaptureRecord record;
  for (unsigned long n = std::stoul(name.substr(hash + 1)); n > 0; --n)
    assert_true(reader.next(record));
  return {record.bytes.begin(), record.bytes.end()};
}

void check_icrc(const Json& item) {
  const auto wire = hex(text(item, "icrc_wire"));
  if (item.contains("masked_stream")) {
    assert_int_equal(net::crc32(hex(text(item, "masked_stream"))), net::load_icrc(wire.data()));
    return;
  }
  auto frame = hex(text(item, "frame"));
  if (frame.empty()) frame = captured(text(item, "capture"));
  if (frame.empty()) return skip_item(item, "its capture is not there");
  const FrameReport r = see(frame);
  const std::string id = text(item, "id");
  if (r.icrc != Check::kOk || r.verdict != Verdict::kOk)
    fail_msg("%s: %s", id.c_str(), to_text(r, "").c_str());
  if (r.icrc_on_wire != net::load_icrc(wire.data())) fail_msg("%s: another ICRC", id.c_str());
  if (item.contains("psn")) assert_int_equal(*r.psn, item["psn"].get<std::uint32_t>());
  if (item.contains("dest_qp")) assert_int_equal(*r.dest_qp, item["dest_qp"].get<std::uint32_t>());
}

void icrc(void**) {
  require_shared(kFile);
  for (const Json& item : section("icrc")) check_icrc(item);
}

void B01_icrc_mutations(void**) {
  require_shared(kFile);
  for (const Json& item : section("icrc_mutations")) {
    const FrameReport r = see(hex(text(item, "frame")));
    const bool right = item["icrc_must_verify"].get<bool>();
    const bool as_wanted = right ? r.icrc == Check::kOk && r.verdict == Verdict::kOk
                                 : r.icrc == Check::kBad && r.reason == Drop::kBadIcrc;
    if (!as_wanted) fail_msg("%s: %s", text(item, "id").c_str(), to_text(r, "").c_str());
  }
}

// ---- esp ----

EspKey key_of(const Json& item) {
  EspKey key;
  key.source = key.destination = key.spi = "*";
  key.algorithm = text(item, "suite");
  key.icv_size = item["icv_len"].get<std::size_t>();
  const auto material = hex(text(item, "key") + text(item, "salt"));
  key.key = Secret<64>(material);
  key.stated.esn = item["esn_hi"].is_number();
  if (*key.stated.esn) key.stated.high = item["esn_hi"].get<std::uint32_t>();
  return key;
}

void check_esp(const Json& item) {
  if (text(item, "suite") != "aes-gcm")
    return skip_item(item, "suite " + text(item, "suite") + " is not built");
  const std::string id = text(item, "id");
  std::vector<EspKey> keys;
  keys.push_back(key_of(item));
  EspOpener opener = std::move(*EspOpener::create(std::move(keys)));
  auto esp = hex(text(item, "esp"));
  const OpenedEsp opened =
      opener.open(esp, IpAddress::v4(192, 168, 1, 2), IpAddress::v4(192, 168, 1, 1));
  if (opened.icv != OpenedEsp::Icv::kOk || opened.drop != Drop::kNone) fail_msg("%s", id.c_str());
  auto plain = hex(text(item, "plaintext_with_trailer"));
  assert_int_equal(opened.next_header, item["next_header"].get<int>());
  plain.resize(plain.size() - 2 - item["pad_len"].get<std::size_t>());
  if (!std::equal(plain.begin(), plain.end(), opened.payload.begin(), opened.payload.end()))
    fail_msg("%s: another plaintext", id.c_str());
  opener.reset();
  esp.back() ^= 0x80;
  const OpenedEsp forged =
      opener.open(esp, IpAddress::v4(192, 168, 1, 2), IpAddress::v4(192, 168, 1, 1));
  assert_true(forged.icv == OpenedEsp::Icv::kBad && forged.payload.empty());
}

/// Items with an outer header: the whole packet through the dissector.
void check_outer(const Json& item) {
  if (text(item, "suite") != "aes-gcm" || !item.contains("outer_ip")) return;
  std::vector<EspKey> keys;
  keys.push_back(key_of(item));
  EspOpener opener = std::move(*EspOpener::create(std::move(keys)));
  const FrameReport r =
      see(hex(text(item, "outer_ip") + text(item, "esp")), opener, net::LinkType::kRawIp);
  if (r.icv != Check::kOk || r.mode != "tunnel" || r.reason == Drop::kBadIcv)
    fail_msg("%s: %s", text(item, "id").c_str(), to_text(r, "").c_str());
}

void esp(void**) {
  require_shared(kFile);
  for (const Json& item : section("esp")) {
    check_esp(item);
    check_outer(item);
  }
}

void esp_captures(void**) {
  require_shared(kFile);
  for (const Json& item : section("esp_captures"))
    print_message("# skipped: %s: suite %s with %s is not built\n", text(item, "file").c_str(),
                  text(item, "enc").c_str(), text(item, "auth").c_str());
}

// ---- replay ----

void check_window(const Json& item) {
  ipsec::ReplayWindow window(item["window"].get<std::uint32_t>());
  for (std::size_t i = 0; i < item["seq"].size(); ++i) {
    const auto verdict = window.commit(item["seq"][i].get<std::uint64_t>());
    const std::string want = item["verdict"][i].get<std::string>();
    const std::string got = verdict == ipsec::ReplayVerdict::kNew         ? "accept"
                            : verdict == ipsec::ReplayVerdict::kDuplicate ? "drop-replay"
                                                                          : "drop-old";
    if (got != want) fail_msg("%s: number %zu: %s", text(item, "id").c_str(), i, got.c_str());
  }
}

void check_inference(const Json& item) {
  const std::uint64_t top = std::stoull(text(item, "top"), nullptr, 16);
  const auto low = static_cast<std::uint32_t>(std::stoul(text(item, "seq_lo"), nullptr, 16));
  const std::uint64_t full = ipsec::infer_sequence(top, item["window"].get<std::uint32_t>(), low);
  if (full >> 32 != item["inferred_hi"].get<std::uint64_t>())
    fail_msg("%s", text(item, "id").c_str());
}

/// After ffffffff nothing more is sent.
void check_sender_overflow() {
  const auto sa = apps::test::outbound_sa(0x1001, 20, false, 0xffff'fffe);
  const auto packet = apps::test::roce_packet({});
  for (int i = 0; i < 2; ++i) assert_false(apps::test::seal_transport(*sa, packet).empty());
  packet::HeapFramePool pool(1);
  packet::Frame* f = pool.allocate_one();
  std::copy(packet.begin(), packet.end(), f->append(packet.size()));
  f->transport_offset = 20;
  packet::Frame* burst[] = {f};
  assert_int_equal(ipsec::seal_burst(*sa, burst), 0);
  assert_eq(f->drop, Drop::kSaExhausted);
  pool.release_one(f);
}

void replay_window(void**) {
  require_shared(kFile);
  for (const Json& item : section("replay")) {
    if (item.contains("seq"))
      check_window(item);
    else if (item.contains("inferred_hi"))
      check_inference(item);
    else if (text(item, "id") == "sender-overflow")
      check_sender_overflow();
    else
      fail_msg("%s: an item of an unknown kind", text(item, "id").c_str());
  }
}

// ---- udp_encap ----

FrameReport see_udp_4500(const std::vector<std::uint8_t>& payload, std::uint16_t checksum) {
  auto udp = apps::test::udp_datagram(4500, 4500, payload);
  store_be<2>(&udp[6], checksum);
  return see(apps::test::ethernet_frame(apps::test::ip_packet(false, apps::test::kUdp, udp)));
}

void udp_encap(void**) {
  require_shared(kFile);
  const std::map<std::string, Drop> want = {
      {"keepalive", Drop::kUdpEncapKeepalive}, {"ff-two-bytes", Drop::kBadUdpEncap},
      {"empty", Drop::kBadUdpEncap},           {"non-esp-marker", Drop::kUdpEncapIke},
      {"marker-3-bytes", Drop::kBadUdpEncap},  {"esp", Drop::kNoSa},
  };
  for (const Json& item : section("udp_encap")) {
    const std::string id = text(item, "id");
    if (id == "udp-checksum-v6") {
      skip_item(item, "sending UDP-encapsulated ESP is not built");
      continue;
    }
    // The checksum may be 0 or anything: item "udp-checksum".
    const auto payload = hex(id == "udp-checksum" ? "0000010000000001" + std::string(64, '0')
                                                  : text(item, "udp_payload"));
    const Drop reason = id == "udp-checksum" ? Drop::kNoSa : want.at(id);
    for (const std::uint16_t checksum : {std::uint16_t{0}, std::uint16_t{0xbeef}}) {
      const FrameReport r = see_udp_4500(payload, checksum);
      if (r.reason != reason) fail_msg("%s: %s", id.c_str(), to_text(r, "").c_str());
    }
  }
}

// ---- ipsec_rules ----

FrameReport see_esp(EspOpener& opener, const apps::test::EspSpec& spec, Bytes text, bool trailer) {
  return see(
      apps::test::ip_packet(false, apps::test::kEsp, apps::test::esp_packet(spec, text, trailer)),
      opener, net::LinkType::kRawIp);
}

void rule_spi0() {
  EspOpener opener = opener_of(apps::test::key_row(0x1001, 20));
  assert_eq(see_esp(opener, {0, 1, false, 20, 16, 17}, apps::test::Packet(20), true).reason,
            Drop::kBadSpi);
}

void rule_nh59() {
  EspOpener opener = opener_of(apps::test::key_row(0x1001, 20));
  const apps::test::EspSpec dummy{0x1001, 1, false, 20, 16, 59};
  assert_eq(see_esp(opener, dummy, apps::test::Packet(20), true).reason, Drop::kEspDummy);
  assert_eq(see_esp(opener, dummy, apps::test::Packet(20), true).reason, Drop::kReplayed);
}

void rule_tfc() {
  EspOpener opener = opener_of(apps::test::key_row(0x1001, 20));
  auto inner = apps::test::roce_packet({});
  inner.resize(inner.size() + 100, 0x5a);
  const FrameReport r = see_esp(opener, {}, inner, true);
  assert_true(r.verdict == Verdict::kOk && r.icrc == Check::kOk);
}

void rule_pad_check() {
  EspOpener opener = opener_of(apps::test::key_row(0x1001, 20));
  const apps::test::Packet zeros = {0, 0, 0, 0, 0, 0, 2, 17};
  assert_eq(see_esp(opener, {}, zeros, false).reason, Drop::kBadEspTrailer);
}

// Tunnel sealing is not built; the arithmetic is the same. 20 is the outer IPv4 header.
void rule_gcm_pad() {
  assert_int_equal(20 + ipsec::sealed_size(1446), 1500);
}

void rule_padlen_overflow() {
  EspOpener opener = opener_of(apps::test::key_row(0x1001, 20));
  const apps::test::Packet lie = {1, 2, 3, 4, 5, 6, 7, 17};
  const FrameReport r = see_esp(opener, {}, lie, false);
  assert_eq(r.reason, Drop::kBadEspTrailer);
  assert_true(r.icv == Check::kOk);  // after the ICV
}

void rule_gcm_icv() {
  for (const std::size_t size : {8U, 12U, 16U}) {
    std::string row = apps::test::key_row(0x1001, 20);
    row.replace(row.find("16 octet"), 2, std::to_string(size));
    EspOpener opener = opener_of(row);
    const FrameReport r =
        see_esp(opener, {0x1001, 1, false, 20, size, 4}, apps::test::roce_packet({}), true);
    assert_true(r.icv == Check::kOk && r.icrc == Check::kOk);
  }
  EspOpener full = opener_of(apps::test::key_row(0x1001, 20));
  const FrameReport r =
      see_esp(full, {0x1001, 1, false, 20, 8, 4}, apps::test::roce_packet({}), true);
  assert_eq(r.reason, Drop::kBadIcv);
}

void ipsec_rules(void**) {
  require_shared(kFile);
  const std::map<std::string, void (*)()> rules = {
      {"spi0", rule_spi0},       {"nh59", rule_nh59},
      {"tfc", rule_tfc},         {"pad-check", rule_pad_check},
      {"gcm-pad", rule_gcm_pad}, {"padlen-overflow", rule_padlen_overflow},
      {"gcm-icv", rule_gcm_icv}};
  for (const Json& item : section("ipsec_rules")) {
    const auto rule = rules.find(text(item, "id"));
    if (rule != rules.end())
      rule->second();
    else if (text(item, "id") == "hmac-trunc")
      skip_item(item, "suites with HMAC are not built");
    else
      fail_msg("%s: a rule of an unknown name", text(item, "id").c_str());
  }
}

// ---- roce ----

void check_syndromes(const Json& items) {
  const std::map<std::string, net::AckKind> kinds = {
      {"ACK,", net::AckKind::kAck},
      {"RNR NAK,", net::AckKind::kRnrNak},
      {"NAK PSN", net::AckKind::kNakSequence},
      {"NAK invalid request", net::AckKind::kNakInvalidRequest},
      {"NAK remote access", net::AckKind::kNakRemoteAccess},
      {"NAK remote operational", net::AckKind::kNakRemoteOperation},
      {"NAK invalid RD", net::AckKind::kNakInvalidRdRequest},
      {"reserved class", net::AckKind::kReserved},
      {"NAK reserved", net::AckKind::kNakReserved}};
  for (const Json& item : items) {
    const std::string meaning = text(item, "meaning");
    const net::Aeth aeth{hex(text(item, "syndrome"))[0], Msn()};
    bool found = false;
    for (const auto& [start, kind] : kinds) {
      if (!meaning.starts_with(start)) continue;
      found = true;
      if (aeth.kind() != kind) fail_msg("syndrome %02x", aeth.syndrome);
    }
    if (!found) fail_msg("%s: a meaning that is not known", meaning.c_str());
  }
}

void check_psns(const Json& items) {
  for (const Json& item : items) {
    const Psn a(static_cast<std::uint32_t>(std::stoul(text(item, "a"), nullptr, 16)));
    const Psn b(static_cast<std::uint32_t>(std::stoul(text(item, "b"), nullptr, 16)));
    assert_int_equal(a.since(b), item["delta_signed"].get<int>());
  }
}

/// A requester cuts a WRITE into these packets.
void check_multi_packet(const Json& item) {
  roce::test::Bench::Options options;
  options.mtu = item["mtu"].get<std::uint16_t>();
  roce::test::Bench bench(options);
  bench.post(bench.wr(verbs::WrOpcode::kRdmaWrite, 0, item["bytes"].get<std::uint32_t>()));
  bench.collect();
  assert_int_equal(bench.sent.size(), item["packets"].get<std::size_t>());
  for (std::size_t i = 0; i < bench.sent.size(); ++i) {
    const auto packet = net::parse_transport(bench.sent[i]);
    assert_true(packet.has_value());
    assert_true(packet->row().name == "RC_RDMA_" + item["opcodes"][i].get<std::string>());
    const bool last = i + 1 == bench.sent.size();
    if (last) assert_int_equal(packet->payload().size(), item["last_payload"].get<std::size_t>());
    if (last) assert_int_equal(packet->bth().pad_count(), item["pad_last"].get<int>());
  }
}

void check_pkey(const Json& item) {
  roce::test::Bench::Options options;
  options.pkey = static_cast<std::uint16_t>(std::stoul(text(item, "qp"), nullptr, 16));
  if (options.pkey == 0)
    return print_message("# skipped: pkey %s: a queue pair refuses such a P_Key at creation\n",
                         text(item, "qp").c_str());
  roce::test::Bench bench(options);
  bench.post_recv(0, 100);
  roce::test::Packet packet;
  packet.psn = options.rq_psn;
  packet.pkey = static_cast<std::uint16_t>(std::stoul(text(item, "pkt"), nullptr, 16));
  const Drop drop = bench.receive(packet);
  assert_eq(drop, item["ok"].get<bool>() ? Drop::kNone : Drop::kBadPkey);
}

/// Sizes of whole packets from our builders.
void check_ip_length(const Json& item) {
  using apps::test::RoceSpec;
  const std::map<std::string, RoceSpec> specs = {
      {"RC ACK v4", {false, net::Opcode::kRcAcknowledge, 1, 1, 0}},
      {"RC ACK v6", {true, net::Opcode::kRcAcknowledge, 1, 1, 0}},
      {"CNP v4", {false, net::Opcode::kCnp, 1, 1, 0}},
      {"SEND_ONLY 0 bytes v4", {false, net::Opcode::kRcSendOnly, 1, 1, 0}},
      {"READ req v4", {false, net::Opcode::kRcReadRequest, 1, 1, 0}},
      {"atomic v4", {false, net::Opcode::kRcFetchAdd, 1, 1, 0}}};
  const auto packet = apps::test::roce_packet(specs.at(text(item, "what")));
  assert_int_equal(14 + packet.size(), item["frame"].get<std::size_t>());
  if (item.contains("ip_total"))
    assert_int_equal(load_be16(&packet[2]), item["ip_total"].get<std::uint16_t>());
  if (item.contains("udp_len"))
    assert_int_equal(load_be16(&packet[24]), item["udp_len"].get<std::uint16_t>());
  if (item.contains("ip_payload"))
    assert_int_equal(load_be16(&packet[4]), item["ip_payload"].get<std::uint16_t>());
}

void roce_facts(void**) {
  require_shared(kFile);
  const Json all = section("roce");
  for (const Json& item : all["rnr_timer_ms"])
    assert_int_equal(net::rnr_timer(item["code"].get<std::uint8_t>()).count_ns(),
                     static_cast<std::int64_t>(item["ms"].get<double>() * 1e6 + 0.5));
  check_syndromes(all["aeth_syndrome"]);
  check_psns(all["psn"]);
  for (const Json& item : all["multi_packet"]) check_multi_packet(item);
  for (const Json& item : all["pkey"]) check_pkey(item);
  for (const Json& item : all["ip_lengths"]) check_ip_length(item);
}

void bulk(void**) {
  require_shared(kFile);
  for (const Json& item : section("bulk"))
    print_message("# skipped: %s: the file names it, but does not hold its vectors\n",
                  text(item, "name").c_str());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(icrc),          cmocka_unit_test(B01_icrc_mutations),
      cmocka_unit_test(esp),           cmocka_unit_test(esp_captures),
      cmocka_unit_test(replay_window), cmocka_unit_test(udp_encap),
      cmocka_unit_test(ipsec_rules),   cmocka_unit_test(roce_facts),
      cmocka_unit_test(bulk),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
