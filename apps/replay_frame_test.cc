// Verdicts, frame by frame: packets made by the library's builders, whole and spoiled.
#include "apps/replay_frame.h"

#include <algorithm>
#include <string>

#include "apps/replay_output.h"
#include "apps/replay_test_packets.h"
#include "base/random.h"
#include "net/icmp.h"

#include "test/test_support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;
using namespace h4a::apps::test;

/// A dissector with the keys of a table.
struct Setup {
  explicit Setup(const std::string& table = "") {
    auto keys = parse_esp_keys(table);
    assert_true(keys.has_value());
    opener = std::move(*EspOpener::create(std::move(*keys)));
  }
  FrameReport see(Bytes bytes, net::LinkType link = net::LinkType::kEthernet) {
    net::CaptureRecord record;
    record.link_type = link;
    record.bytes = bytes;
    record.original_size = static_cast<std::uint32_t>(bytes.size());
    return dissector.dissect(record, ++number);
  }
  EspOpener opener;
  Dissector dissector{opener};
  std::uint64_t number = 0;
};

void assert_report(const FrameReport& r, Verdict verdict, Drop reason, Check icrc, Check icv) {
  if (r.verdict != verdict || r.reason != reason || r.icrc != icrc || r.icv != icv)
    fail_msg("%s", to_text(r, "").c_str());
}

constexpr auto kNa = Check::kDoesNotApply;

void clear_roce(void**) {
  Setup s;
  for (bool v6 : {false, true})
    for (const net::OpcodeInfo& row : net::kOpcodeTable) {
      RoceSpec spec;
      spec.v6 = v6;
      spec.opcode = row.opcode;
      spec.payload_bytes = row.has_payload ? 61 : 0;
      const FrameReport r = s.see(ethernet_frame(roce_packet(spec), v6 ? 2 : 0));
      assert_report(r, Verdict::kOk, Drop::kNone, Check::kOk, kNa);
      assert_string_equal(std::string(r.opcode).c_str(), std::string(row.name).c_str());
      assert_int_equal(*r.dest_qp, 0x12);
      assert_int_equal(*r.psn, 100);
      assert_int_equal(*r.payload_bytes, spec.payload_bytes);
      assert_int_equal(r.vlan_tags, v6 ? 2 : 0);
    }
}

void spoiled_roce(void**) {
  Setup s;
  const Packet good = ethernet_frame(roce_packet({}));
  const std::size_t bth = 14 + 20 + 8;
  const auto with = [&good](std::size_t at, std::uint8_t value) {
    Packet p = good;
    p[at] = value;
    return p;
  };
  assert_report(s.see(with(bth + 20, 0xee)), Verdict::kDrop, Drop::kBadIcrc, Check::kBad, kNa);
  assert_report(s.see(with(14 + 8, 3)), Verdict::kOk, Drop::kNone, Check::kOk,
                kNa);  // TTL: variant
  assert_true(s.see(with(14 + 8, 3)).bad_ip_checksum);
  assert_report(s.see(with(14 + 6, 0x20)), Verdict::kDrop, Drop::kFragment, kNa, kNa);
  assert_report(s.see(with(14, 0x44)), Verdict::kDrop, Drop::kBadIpHeader, kNa, kNa);
  assert_report(s.see(with(14, 0x65)), Verdict::kDrop, Drop::kBadIpVersion, kNa, kNa);
  const FrameReport udp = s.see(with(14 + 20 + 4, 0xff));
  assert_report(udp, Verdict::kDrop, Drop::kBadUdp, kNa, kNa);
  assert_string_equal(std::string(udp.where).c_str(), "udp");
  assert_int_equal(*udp.offset, 34);
  Packet padded = good;  // an Ethernet trailer belongs to nobody
  padded.resize(padded.size() + 6, 0x55);
  assert_report(s.see(padded), Verdict::kOk, Drop::kNone, Check::kOk, kNa);
}

/// The same payload with another first bytes and a right ICRC again.
void structure_behind_a_right_icrc(void**) {
  Setup s;
  RoceSpec reserved_syndrome;
  reserved_syndrome.opcode = net::Opcode::kRcAcknowledge;
  reserved_syndrome.payload_bytes = 0;
  reserved_syndrome.syndrome = 0x45;
  const FrameReport r = s.see(ethernet_frame(roce_packet(reserved_syndrome)));
  assert_report(r, Verdict::kDrop, Drop::kBadSyndrome, Check::kOk, kNa);
  assert_int_equal(*r.syndrome, 0x45);
  RoceSpec ack_with_payload = reserved_syndrome;
  ack_with_payload.syndrome = 0x1f;
  ack_with_payload.payload_bytes = 8;
  assert_report(s.see(ethernet_frame(roce_packet(ack_with_payload))), Verdict::kDrop,
                Drop::kBadExtendedHeader, Check::kOk, kNa);
  const Packet tiny = ip_packet(false, kUdp, udp_datagram(1, 4791, Packet(15)));
  assert_report(s.see(ethernet_frame(tiny)), Verdict::kDrop, Drop::kTruncated, Check::kNone, kNa);
}

void link_types(void**) {
  Setup s;
  const Packet ip = roce_packet({});
  const auto after = [&ip](std::initializer_list<std::uint8_t> header) {
    Packet p(header);
    p.insert(p.end(), ip.begin(), ip.end());
    return p;
  };
  const auto expect_ok = [&s](const Packet& p, net::LinkType link) {
    assert_report(s.see(p, link), Verdict::kOk, Drop::kNone, Check::kOk, kNa);
  };
  expect_ok(ip, net::LinkType::kRawIp);
  expect_ok(ip, net::LinkType::kRawIpv4);
  expect_ok(after({2, 0, 0, 0}), net::LinkType::kNull);
  expect_ok(after({0, 0, 0, 2}), net::LinkType::kLoop);
  expect_ok(after({0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0}), net::LinkType::kLinuxSll);
  expect_ok(after({8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}),
            net::LinkType::kLinuxSll2);
  const auto size = static_cast<std::uint8_t>(ip.size() + 4);  // of the payload's TLV
  expect_ok(after({2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 3, 0, size, 0, 9, 0}), net::LinkType::kNflog);
  expect_ok(after({2, 0, 0, 1, 0, 8, 0, 1, 8, 0, 3, 0, 0, size, 0, 9}), net::LinkType::kNflog);
  assert_report(s.see(ip, static_cast<net::LinkType>(147)), Verdict::kUnchecked,
                Drop::kUnknownLinkType, kNa, kNa);
  for (const net::LinkType link : {net::LinkType::kLinuxSll, net::LinkType::kNull,
                                   net::LinkType::kNflog, net::LinkType::kEthernet})
    assert_report(s.see(Bytes(ip).first(3), link), Verdict::kDrop, Drop::kTruncated, kNa, kNa);
}

void other_protocols(void**) {
  Setup s;
  const Packet arp = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,  1, 8, 6,
                      0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,  0, 0, 1,
                      10,   0,    0,    1,    0,    0,    0, 0, 0, 0, 10, 0, 0, 2};
  const FrameReport r = s.see(arp);
  assert_report(r, Verdict::kOk, Drop::kNone, kNa, kNa);
  assert_string_equal(std::string(r.protocol).c_str(), "arp");
  assert_report(s.see(Bytes(arp).first(30)), Verdict::kDrop, Drop::kTruncated, kNa, kNa);
  const Packet tcp = ip_packet(false, 6, Packet(20));
  assert_report(s.see(ethernet_frame(tcp)), Verdict::kUnchecked, Drop::kUnknownIpProtocol, kNa,
                kNa);
  const Packet dns = ip_packet(true, kUdp, udp_datagram(53, 53, Packet(20)));
  assert_report(s.see(ethernet_frame(dns)), Verdict::kUnchecked, Drop::kUnknownUdpPort, kNa, kNa);
  Packet echo(16);
  net::build(echo, net::IcmpFields{});
  assert_report(s.see(ethernet_frame(ip_packet(false, 1, echo))), Verdict::kOk, Drop::kNone, kNa,
                kNa);
  echo[9] ^= 1;
  assert_report(s.see(ethernet_frame(ip_packet(false, 1, echo))), Verdict::kDrop, Drop::kBadIcmp,
                kNa, kNa);
}

void udp_port_4500(void**) {
  Setup s;
  const auto see = [&s](Packet payload) {
    return s.see(ethernet_frame(ip_packet(false, kUdp, udp_datagram(4500, 4500, payload))));
  };
  assert_report(see({0xff}), Verdict::kDrop, Drop::kUdpEncapKeepalive, kNa, kNa);
  assert_report(see({0xff, 0xff}), Verdict::kDrop, Drop::kBadUdpEncap, kNa, kNa);
  assert_report(see({}), Verdict::kDrop, Drop::kBadUdpEncap, kNa, kNa);
  assert_report(see(Packet(3)), Verdict::kDrop, Drop::kBadUdpEncap, kNa, kNa);
  assert_report(see(Packet(32)), Verdict::kUnchecked, Drop::kUdpEncapIke, kNa, kNa);
  assert_report(see(esp_packet({}, roce_packet({}))), Verdict::kUnchecked, Drop::kNoSa, kNa,
                Check::kNoKey);
}

// Our own seal_burst, both key sizes and IP versions, with and without ESN; the table says nothing of it.
void opened_transport(void**) {
  for (bool v6 : {false, true})
    for (bool esn : {false, true})
      for (std::size_t key_size : {20U, 36U}) {
        Setup s(key_row(0x1001, key_size));
        const auto sa = outbound_sa(0x1001, key_size, esn, 1, v6);
        for (std::uint32_t psn = 5; psn < 8; ++psn) {
          RoceSpec spec;
          spec.v6 = v6;
          spec.psn = psn;
          const FrameReport r = s.see(ethernet_frame(seal_transport(*sa, roce_packet(spec))));
          assert_report(r, Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
          assert_string_equal(std::string(r.protocol).c_str(), "esp");
          assert_string_equal(std::string(r.inner_protocol).c_str(), "roce");
          assert_string_equal(std::string(r.mode).c_str(), "transport");
          assert_int_equal(*r.psn, psn);
          assert_int_equal(*r.sequence, psn - 4);
          assert_true(r.esn == esn);
        }
      }
}

void extended_numbers_across_the_wrap(void**) {
  Setup guessed(key_row(0x1001, 20));
  const auto sa = outbound_sa(0x1001, 20, true, 0xffff'fffe);
  for (std::uint64_t n = 0xffff'fffe; n < 0x1'0000'0004; ++n) {
    const FrameReport r = guessed.see(ethernet_frame(seal_transport(*sa, roce_packet({}))));
    assert_report(r, Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
    assert_int_equal(*r.sequence, n);
  }
  const auto later = outbound_sa(0x1001, 20, true, 0x7'0000'0003);
  const Packet frame = ethernet_frame(seal_transport(*later, roce_packet({})));
  Setup unstated(key_row(0x1001, 20));
  assert_report(unstated.see(frame), Verdict::kDrop, Drop::kBadIcv, kNa, Check::kBad);
  Setup stated("# h4a: esn=1 hi=7\n" + key_row(0x1001, 20));
  assert_report(stated.see(frame), Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
  Setup denied("# h4a: esn=0\n" + key_row(0x1001, 20));
  assert_report(denied.see(frame), Verdict::kDrop, Drop::kBadIcv, kNa, Check::kBad);
}

void opened_tunnel_and_udp(void**) {
  Setup s(key_row(0x1001, 20));
  EspSpec esp;
  for (bool v6 : {false, true}) {
    RoceSpec inner;
    inner.v6 = v6;
    esp.next_header = v6 ? 41 : 4;
    const Packet packet = esp_packet(esp, roce_packet(inner));
    const FrameReport r = s.see(ethernet_frame(ip_packet(false, kEsp, packet)));
    assert_report(r, Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
    assert_string_equal(std::string(r.mode).c_str(), "tunnel");
    assert_true(*r.inner_destination == address(v6, 2));
    ++esp.sequence;
  }
  const Packet in_udp =
      udp_datagram(4500, 4500, esp_packet({0x1001, 9, false, 20, 16, 4}, roce_packet({})));
  const FrameReport r = s.see(ethernet_frame(ip_packet(false, kUdp, in_udp)));
  assert_report(r, Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
  assert_true(r.udp_encap);
  // Bytes behind the inner packet are traffic flow confidentiality padding (RFC 4303 §2.7).
  Packet padded = roce_packet({});
  padded.resize(padded.size() + 32);
  const Packet tfc = esp_packet({0x1001, 10, false, 20, 16, 4}, padded);
  assert_report(s.see(ethernet_frame(ip_packet(false, kEsp, tfc))), Verdict::kOk, Drop::kNone,
                Check::kOk, Check::kOk);
}

void replays_and_forgeries(void**) {
  Setup s("# h4a: window=64\n" + key_row(0x1001, 20));
  const auto sealed = [](std::uint64_t n) {
    return ethernet_frame(
        ip_packet(false, kEsp, esp_packet({0x1001, n, false, 20, 16, 4}, roce_packet({}))));
  };
  const Packet first = sealed(100);
  assert_report(s.see(first), Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
  assert_report(s.see(first), Verdict::kDrop, Drop::kReplayed, kNa, Check::kOk);
  Packet forged = first;
  forged.back() ^= 1;
  assert_report(s.see(forged), Verdict::kDrop, Drop::kBadIcv, kNa, Check::kBad);
  assert_report(s.see(sealed(37)), Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
  assert_report(s.see(sealed(36)), Verdict::kDrop, Drop::kReplayOld, kNa, Check::kOk);
  assert_report(s.see(sealed(0)), Verdict::kDrop, Drop::kBadSequence, kNa, Check::kOk);
  s.opener.reset();  // the next file
  assert_report(s.see(first), Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
  Setup off("# h4a: window=0\n" + key_row(0x1001, 20));
  assert_report(off.see(first), Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
  assert_report(off.see(first), Verdict::kOk, Drop::kNone, Check::kOk, Check::kOk);
}

void esp_that_is_wrong_inside(void**) {
  Setup s(key_row(0x1001, 20) +
          "\"*\",\"*\",\"*\",\"7\",\"AES-CBC [RFC3602]\",\"0x00\",\"NULL\",\"\"\n");
  std::uint64_t n = 0;
  const auto see = [&](std::uint32_t spi, Packet text, bool trailer, std::uint8_t next = 17) {
    return s.see(ethernet_frame(
        ip_packet(false, kEsp, esp_packet({spi, ++n, false, 20, 16, next}, text, trailer))));
  };
  const auto expect = [](const FrameReport& r, Drop reason) {
    assert_report(r, Verdict::kDrop, reason, r.icrc, Check::kOk);
  };
  expect(see(0x1001, {1, 2, 9, 17}, false), Drop::kBadEspTrailer);        // more pad than there is
  expect(see(0x1001, {1, 2, 9, 3, 3, 17}, false), Drop::kBadEspTrailer);  // 1, 2, 9
  expect(see(0x1001, Packet(20), true, 59), Drop::kEspDummy);
  expect(see(0x1001, Packet(7), true), Drop::kBadUdp);
  expect(see(0x1001, Packet(20), true, 4), Drop::kBadIpVersion);
  expect(see(0x1001, Packet(), true, 4), Drop::kTruncated);
  Packet bad_icrc = roce_packet({});
  bad_icrc.back() ^= 1;
  assert_report(see(0x1001, bad_icrc, true, 4), Verdict::kDrop, Drop::kBadIcrc, Check::kBad,
                Check::kOk);
  assert_report(see(7, Packet(20), true), Verdict::kUnchecked, Drop::kUnsupportedSuite, kNa, kNa);
  assert_report(see(0, Packet(20), true), Verdict::kDrop, Drop::kBadSpi, kNa, Check::kNone);
  assert_report(see(8, Packet(20), true), Verdict::kUnchecked, Drop::kNoSa, kNa, Check::kNoKey);
  const Packet tiny = ip_packet(false, kEsp, Packet{0, 0, 0x10, 1, 0, 0, 0, 1, 2, 3});
  assert_report(s.see(ethernet_frame(tiny)), Verdict::kDrop, Drop::kTruncated, kNa, Check::kNone);
}

void short_icvs_and_several_keys(void**) {
  const std::string wrong = key_row(0x1001, 36);
  const std::string right =
      "\"IPv4\",\"*\",\"*\",\"*\",\"AES-GCM with 12 octet ICV [RFC4106]\","
      "\"0x000102030405060708090a0b0c0d0e0f10111213\",\"NULL\",\"\"\n";
  Setup s(wrong + right);
  const Packet esp = esp_packet({0x1001, 1, false, 20, 12, 4}, roce_packet({}));
  assert_report(s.see(ethernet_frame(ip_packet(false, kEsp, esp))), Verdict::kOk, Drop::kNone,
                Check::kOk, Check::kOk);
}

// Any bytes, and good frames cut at every length and with any byte changed: a verdict, never a crash.
void any_bytes(void**) {
  Setup s(key_row(0x1001, 20));
  SeededRandom random(11);
  const auto sa = outbound_sa(0x1001, 20, false, 1);
  std::vector<Packet> seeds = {ethernet_frame(roce_packet({})),
                               ethernet_frame(seal_transport(*sa, roce_packet({}))),
                               ethernet_frame(roce_packet({true}), 1)};
  for (const Packet& seed : seeds) {
    for (std::size_t n = 0; n < seed.size(); ++n) {
      const FrameReport cut = s.see(Bytes(seed).first(n));
      if (cut.verdict == Verdict::kOk) fail_msg("cut at %zu: %s", n, to_text(cut, "").c_str());
    }
    for (int i = 0; i < 3000; ++i) {
      Packet p = seed;
      p[random.below(p.size())] = static_cast<std::uint8_t>(random.u32());
      const FrameReport r = s.see(p, static_cast<net::LinkType>(random.below(300)));
      assert_true((r.reason == Drop::kNone) == (r.verdict == Verdict::kOk));
      assert_false(to_json(r, "x").empty());
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(clear_roce),
      cmocka_unit_test(spoiled_roce),
      cmocka_unit_test(structure_behind_a_right_icrc),
      cmocka_unit_test(link_types),
      cmocka_unit_test(other_protocols),
      cmocka_unit_test(udp_port_4500),
      cmocka_unit_test(opened_transport),
      cmocka_unit_test(extended_numbers_across_the_wrap),
      cmocka_unit_test(opened_tunnel_and_udp),
      cmocka_unit_test(replays_and_forgeries),
      cmocka_unit_test(esp_that_is_wrong_inside),
      cmocka_unit_test(short_icvs_and_several_keys),
      cmocka_unit_test(any_bytes),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
