// CRC back ends against a bit-by-bit reference, and the ICRC against published packets.
#include "net/icrc.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"

#include "test/test_support.h"

namespace {

using h4a::Bytes;
using h4a::net::CrcBackend;

constexpr CrcBackend kBackends[] = {CrcBackend::kPortable, CrcBackend::kIpsecMb};

std::vector<std::uint8_t> from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(digit(text[i]) << 4 | digit(text[i + 1])));
  return out;
}

std::vector<std::uint8_t> random_bytes(std::size_t n, std::uint64_t seed) {
  std::vector<std::uint8_t> out(n);
  h4a::SeededRandom(seed).fill(out);
  return out;
}

/// The definition, one bit at a time.
std::uint32_t reference_crc32(Bytes bytes) {
  std::uint32_t c = 0xffff'ffff;
  for (std::uint8_t b : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t feedback = (c ^ static_cast<std::uint32_t>(b >> bit)) & 1;
      c = (c >> 1) ^ (feedback != 0 ? 0xedb8'8320 : 0);
    }
  return ~c;
}

// 1: published (check value of CRC-32). 2: the IBA sample packet, whose masked bytes the
// specification prints. 3: no bytes at all.
void B03_known_values(void**) {
  const auto sample = from_hex(
      "f012375c000e17d20a202487ff87b1b3000dec2a01710a1c015d400238f27a050000000ebb884d85fd5cfba4728b"
      "c0690ed40000");
  for (CrcBackend backend : kBackends) {
    if (!h4a::net::crc_backend_available(backend)) continue;
    const std::string_view digits = "123456789";
    const Bytes check{reinterpret_cast<const std::uint8_t*>(digits.data()), digits.size()};
    assert_int_equal(h4a::net::crc32_with(backend, check), 0xcbf4'3926);
    std::uint8_t wire[4];
    h4a::net::store_icrc(wire, h4a::net::crc32_with(backend, sample));
    assert_memory_equal(wire, "\x96\x25\xb7\x5a", 4);
    assert_int_equal(h4a::net::crc32_with(backend, Bytes{}), 0);
  }
}

void backends_agree_with_the_reference(void**) {
  const auto bytes = random_bytes(9216 + 64, 1);
  std::vector<std::size_t> sizes;
  for (std::size_t n = 0; n <= 300; ++n) sizes.push_back(n);
  for (unsigned n : {511U, 512U, 1023U, 1024U, 2048U, 4095U, 4096U, 4160U, 9216U})
    sizes.push_back(n);
  for (std::size_t n : sizes) {
    const Bytes part = Bytes(bytes).subspan(n % 61, n);  // at any alignment
    const std::uint32_t want = reference_crc32(part);
    assert_int_equal(h4a::net::crc32(part), want);
    for (CrcBackend backend : kBackends)
      if (h4a::net::crc_backend_available(backend))
        assert_int_equal(h4a::net::crc32_with(backend, part), want);
  }
}

void back_end_can_be_forced(void**) {
  const CrcBackend before = h4a::net::crc_backend();
  const auto bytes = random_bytes(1000, 2);
  assert_true(h4a::net::force_crc_backend(CrcBackend::kPortable));
  assert_true(h4a::net::crc_backend() == CrcBackend::kPortable);
  assert_int_equal(h4a::net::crc32(bytes), reference_crc32(bytes));
  const bool available = h4a::net::crc_backend_available(CrcBackend::kIpsecMb);
  assert_int_equal(h4a::net::force_crc_backend(CrcBackend::kIpsecMb), available);
  assert_true((h4a::net::crc_backend() == CrcBackend::kIpsecMb) == available);
  assert_true(h4a::net::force_crc_backend(before));
}

void threads_may_choose_at_once(void**) {
  const auto bytes = random_bytes(500, 3);
  std::uint32_t got[4] = {};
  std::vector<std::thread> threads;
  for (std::uint32_t& slot : got)
    threads.emplace_back([&slot, &bytes] { slot = h4a::net::crc32(bytes); });
  for (std::thread& t : threads) t.join();
  for (std::uint32_t value : got) assert_int_equal(value, reference_crc32(bytes));
}

void combining_equals_one_pass(void**) {
  const auto bytes = random_bytes(70'000, 4);
  h4a::SeededRandom random(5);
  for (int i = 0; i < 500; ++i) {
    const std::size_t total = random.below(i < 400 ? 9217 : bytes.size() + 1);
    const std::size_t split = random.below(total + 1);
    const Bytes all = Bytes(bytes).first(total);
    const std::uint32_t a = h4a::net::crc32(all.first(split));
    const std::uint32_t b = h4a::net::crc32(all.subspan(split));
    assert_int_equal(h4a::net::crc32_combine(a, b, total - split), h4a::net::crc32(all));
  }
}

// ---- packets ----

/// The IP packet inside an Ethernet frame, cut at its own length: all that matters for the ICRC.
struct Located {
  std::size_t l3_offset;
  std::size_t udp_offset;  // from l3_offset
  std::size_t size;        // with the ICRC
};

Located locate(Bytes frame) {
  std::size_t at = 12;
  while (h4a::load_be16(&frame[at]) == 0x8100) at += 4;
  at += 2;
  const bool v4 = frame[at] >> 4 == 4;
  return {at, v4 ? (frame[at] & 0xfU) * 4 : 40U,
          v4 ? h4a::load_be16(&frame[at + 2]) : h4a::load_be16(&frame[at + 4]) + 40U};
}

struct Row {
  int number;
  const char* what;
  bool right;
  const char* frame;
};

// Published packets and Linux Soft-RoCE, then mutations of one packet.
constexpr Row kRows[] = {
    // clang-format off
    {1, "scapy-uc-send-only-v4", true,
     "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca2"
     "2460ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3"},
    {2, "ud-cm-req", true,
     "005056a7129f005056a77d03080045000134af714000401155cb0a01103e0a01103dd87212b701200000"
     "6400ffff000000018000001a80010000000000010107020300000000000000026dc5c064001000000000"
     "000064c0c56d000000000000000001064853025056fffea77d03000000000000000000003d0000000000"
     "000000a07cc204a7ffff37f0ffffffff00000000000000000000ffff0a01103e00000000000000000000"
     "ffff0a01103d91a3c0000040008800000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000040ccf70000000000000000000000000a01103e000000000000"
     "0000000000000a01103d0000000000000000000000000000000000000000000000000000000000000000"
     "00000000000000000000000000000000000000000000000053683145"},
    {3, "ud-cm-rep", true,
     "005056a77d03005056a7129f0800450001346cc040004011987c0a01103d0a01103ed87212b701200000"
     "6400ffff000000018000001280010000000000010107020300000000000000026dc5c064001300000000"
     "00008988f45664c0c56d0000000000003b0000000000727d6d00000078e0025056fffea7129f00000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000daa7f6cd"},
    {4, "ud-cm-rtu", true,
     "005056a7129f005056a77d03080045000134af734000401155c90a01103e0a01103dd87212b701200000"
     "6400ffff000000018000001b80010000000000010107020300000000000000026dc5c064001400000000"
     "000064c0c56d8988f4560000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "00000000000000000000000000000000000000000000000061f542e6"},
    {5, "rc-send-only", true,
     "005056a7129f005056a77d0308004500003cb1ca40004011546a0a01103e0a01103dda1812b700280000"
     "0400ffff0000003b80727d6d362e323000000000000000000000000018960ce7"},
    {6, "rc-ack", true,
     "005056a77d03005056a7129f0800450000306e544000401197ec0a01103d0a01103eda1812b7001c0000"
     "1100ffff0000003d00727d6d1f0000018d90d6c4"},
    {7, "rc-send-only-4-byte", true,
     "005056a7129f005056a77d03080045000030b1cc4000401154740a01103e0a01103dda1812b7001c0000"
     "0400ffff0000003b80727d6e0000100000bff12d"},
    {8, "rc-send-only-pad2", true,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d70330000001b3d8019"},
    {9, "rc-read-req-64", true,
     "005056a77d03005056a7129f08004500003c5ad240004011ab620a01103d0a01103ecba112b700280000"
     "0c00ffff0000002c80003da600005b269382e5e0000020950000004001ceb4a5"},
    {10, "rc-read-resp-only", true,
     "005056a7129f005056a77d03080045000070253540004011e0cb0a01103e0a01103dcba112b7005c0000"
     "1000ffff0000002b00003da61f00000172646d612d70696e672d303a204142434445464748494a4b4c4d"
     "4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172008692ead9"},
    {11, "rc-write-only-64", true,
     "005056a77d03005056a7129f08004500007c5ad540004011ab1f0a01103d0a01103ecba112b700680000"
     "0a00ffff0000002c80003da800005b269382250000001f860000004072646d612d70696e672d303a2041"
     "42434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b"
     "6c6d6e6f70717200f30b98dd"},
    {12, "rc-write-only-imm", true,
     "fa163ea31662fa163ed32d18080045000040029e40004011dfadac1e000cac1e0019c55512b7002c0000"
     "0b00ffff00000023800000000000735781b300000000588f00000000000000006c1a65c2"},
    {13, "rc-fetch-add", true,
     "005056a7129f005056a77d03080045000048bc2b4000401149fd0a01103e0a01103dc66812b700340000"
     "1400ffff0000002880a3f2c700006320d6be5000000019860000000000000001000000000000000026a7"
     "e208"},
    {14, "ttl-1: TTL is variant", true,
     "005056a7129f005056a77d03080045000030b1d04000011154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d70330000001b3d8019"},
    {15, "tos-ff: DSCP/ECN variant", true,
     "005056a7129f005056a77d03080045ff0030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d70330000001b3d8019"},
    {16, "udpcsum: UDP checksum masked in the ICRC", true,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001cbeef"
     "0420ffff0000003b80727d70330000001b3d8019"},
    {17, "vlan-tag: 802.1Q tag (VID 10, PCP 3) lies outside the ICRC", true,
     "005056a7129f005056a77d038100600a080045000030b1d04000401154700a01103e0a01103dda1812b7"
     "001c00000420ffff0000003b80727d70330000001b3d8019"},
    {18, "eth-trailer: Ethernet trailer bytes after IP total length are not part of", true,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d70330000001b3d8019000000000000"},
    {19, "ipid: IP ID is covered", false,
     "005056a7129f005056a77d03080045000030b0d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d70330000001b3d8019"},
    {20, "resv7: BTH byte 8 low 7 bits (Resv7) are covered, unlike Resv6", false,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b81727d70330000001b3d8019"},
    {21, "padbyte: pad bytes covered (pad content is free, but the ICRC is over", false,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d703300005a1b3d8019"},
    {22, "icrc-be: byte-swapped ICRC (big-endian mistake)", false,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d703300000019803d1b"},
    {23, "tos0-icrc-over-unmasked: ICRC taken without masking", false,
     "005056a7129f005056a77d03080045000030b1d04000401154700a01103e0a01103dda1812b7001c0000"
     "0420ffff0000003b80727d70330000003ab39945"},
    {24, "v6-hlim-flow-tc: IPv6 hop limit, traffic class, flow label masked", true,
     "248a07a8fa22248a07a8fa2286dd60000000002c11012022000000000000000000000000102320230000"
     "000000000000000000001024c00012b7002ce7c52460ffff000000d300cf17104630818be28935d90e9a"
     "95505401be885e5000003e5b743b"},
    // clang-format on
};

void check_row(const Row& row) {
  auto frame = from_hex(row.frame);
  const auto before = frame;
  const Located at = locate(frame);
  const std::size_t covered = at.size - h4a::net::kIcrcSize;
  const std::uint32_t wire = h4a::net::load_icrc(&frame[at.l3_offset + covered]);
  const auto packet = h4a::MutableBytes(frame).subspan(at.l3_offset, covered);
  const std::uint32_t in_place = h4a::net::icrc_in_place(packet, at.udp_offset);
  if (frame != before) fail_msg("row %d: %s: bytes changed", row.number, row.what);
  const std::uint32_t constant = h4a::net::icrc(packet, at.udp_offset);
  if (in_place != constant) fail_msg("row %d: %s: two ways differ", row.number, row.what);
  if ((in_place == wire) != row.right) fail_msg("row %d: %s", row.number, row.what);
}

void published_packets(void**) {
  const CrcBackend before = h4a::net::crc_backend();
  for (CrcBackend backend : kBackends) {
    if (!h4a::net::force_crc_backend(backend)) continue;
    for (const Row& row : kRows) check_row(row);
  }
  h4a::net::force_crc_backend(before);
}

void rocev1_acknowledge(void**) {
  const auto frame = from_hex(
      "7cfe90753cd87cfe90753cd889156020000000141b4000000000000000000000ffff0f00000200000000"
      "000000000000ffff0f0000021140ffff0000010900a788c00000000525f0c038");
  const Bytes packet = Bytes(frame).subspan(14);
  const Bytes covered = packet.first(packet.size() - 4);
  assert_int_equal(h4a::net::icrc_rocev1(covered), h4a::net::load_icrc(&packet[covered.size()]));
  auto changed = frame;
  changed[14 + 7] = 1;       // hop limit is variant
  changed[14 + 44] |= 0x40;  // and so is BECN
  const Bytes still = Bytes(changed).subspan(14, covered.size());
  assert_int_equal(h4a::net::icrc_rocev1(still), h4a::net::load_icrc(&packet[covered.size()]));
}

/// What the ICRC is, with nothing clever: a masked copy behind eight ones, bit by bit.
std::uint32_t reference_icrc(Bytes packet, std::size_t udp) {
  std::vector<std::uint8_t> copy(8 + packet.size(), 0xff);
  std::copy(packet.begin(), packet.end(), copy.begin() + 8);
  std::uint8_t* ip = copy.data() + 8;
  if (ip[0] >> 4 == 4) {
    for (unsigned i : {1U, 8U, 10U, 11U}) ip[i] = 0xff;
  } else {
    ip[0] |= 0x0f;
    for (unsigned i : {1U, 2U, 3U, 7U}) ip[i] = 0xff;
  }
  for (std::size_t i : {udp + 6, udp + 7, udp + 12}) ip[i] = 0xff;
  return reference_crc32(copy);
}

// IPv4 with 0..40 bytes of options, IPv6 with 0..600 bytes of extension headers, any payload size;
// the bytes themselves may be anything, as a hostile packet's.
void any_shape_of_packet(void**) {
  h4a::SeededRandom random(6);
  for (int i = 0; i < 400; ++i) {
    const bool v4 = random.below(2) == 0;
    const std::size_t udp = v4 ? 20 + 4 * random.below(11) : 40 + 8 * random.below(76);
    auto buffer = random_bytes(16 + udp + 20 + random.below(1200), random.u64());
    buffer[16] = static_cast<std::uint8_t>((v4 ? 0x40 : 0x60) | (buffer[16] & 0x0f));
    const auto before = buffer;
    const auto packet = h4a::MutableBytes(buffer).subspan(16);
    const std::uint32_t want = reference_icrc(packet, udp);
    assert_int_equal(h4a::net::icrc_in_place(packet, udp), want);
    assert_true(buffer == before);
    assert_int_equal(h4a::net::icrc(packet, udp), want);
  }
}

void gathered_pieces(void**) {
  const auto packet = [] {
    auto p = random_bytes(28 + 12 + 16 + 1000 + 3, 7);
    p[0] = 0x45;
    return p;
  }();
  const Bytes all(packet);
  h4a::net::IcrcBuilder builder(all.first(56), 20);  // IP, UDP, BTH, RETH
  builder.add(all.subspan(56, 300));
  builder.add(all.subspan(356, 0));
  builder.add(all.subspan(356, 700));
  builder.add(all.subspan(1056, 3));
  assert_int_equal(builder.value(), reference_icrc(all, 20));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(B03_known_values),
      cmocka_unit_test(backends_agree_with_the_reference),
      cmocka_unit_test(back_end_can_be_forced),
      cmocka_unit_test(threads_may_choose_at_once),
      cmocka_unit_test(combining_equals_one_pass),
      cmocka_unit_test(published_packets),
      cmocka_unit_test(rocev1_acknowledge),
      cmocka_unit_test(any_shape_of_packet),
      cmocka_unit_test(gathered_pieces),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
