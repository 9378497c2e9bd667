#include "net/cm_messages.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <string>
#include <vector>

#include "net/bth.h"
#include "net/capture_reader.h"
#include "net/packet_view.h"
#include "net/udp.h"

#include "test/test_support.h"

namespace h4a::net {
namespace {

void mad_header_round_trip(void**) {
  MadHeader h;
  h.status = 0x1234;
  h.class_specific = 0x5678;
  h.transaction_id = 0x1122334455667788;
  h.attribute_id = 0x13;
  h.attribute_modifier = 0xdeadbeef;
  std::uint8_t p[MadHeader::kSize];
  std::memset(p, 0xee, sizeof(p));
  h.build(p);
  assert_true(MadHeader::load(p) == h);
  assert_int_equal(load_be16(p + 18), 0);  // reserved
  const std::uint8_t begin[] = {1, 7, 2, 3};
  assert_memory_equal(p, begin, 4);
}

void bit_field_leaves_neighbours(void**) {
  std::uint8_t p[4] = {0xff, 0xff, 0xff, 0xff};
  BitField<1, 3, 7>::store(p, 0);  // low five bits of byte 1, high two of byte 2
  assert_int_equal(p[0], 0xff);
  assert_int_equal(p[1], 0xe0);
  assert_int_equal(p[2], 0x3f);
  BitField<1, 3, 7>::store(p, 0xffff);  // cut off
  assert_int_equal(load_be32(p), 0xffffffff);
  BitField<1, 3, 7>::store(p, 0x55);
  assert_int_equal((BitField<1, 3, 7>::load(p)), 0x55);
}

/// Notes which bits the fields of a message take, and that no two take the same one.
struct Coverage {
  std::bitset<kMadDataSize * 8>& bits;
  bool& overlap;
  template <class Field, class T>
  void operator()(const char*, Field field, T&) const {
    for (std::size_t i = field.kFirstBit; i < field.kEndBit; ++i) {
      overlap = overlap || bits[i];
      bits.set(i);
    }
  }
};

template <class Message>
std::bitset<kMadDataSize * 8> covered_bits() {
  std::bitset<kMadDataSize * 8> bits;
  bool overlap = false;
  Message m;
  Coverage coverage{bits, overlap};
  Message::fields(m, coverage);
  assert_false(overlap);
  return bits;
}

/// Sets every bit of a message alone: a bit of a field comes back when it is built, a reserved bit is
/// ignored and built as zero.
template <class Message>
void walk_bits() {
  const auto covered = covered_bits<Message>();
  MadBytes plain;
  build_cm({0, 0, Message{}}, plain);
  std::fill(plain.begin() + MadHeader::kSize, plain.end(), std::uint8_t{0});
  for (std::size_t bit = 0; bit < kMadDataSize * 8; ++bit) {
    MadBytes one = plain;
    one[MadHeader::kSize + bit / 8] = static_cast<std::uint8_t>(0x80 >> bit % 8);
    const auto parsed = parse_cm(one);
    assert_true(parsed.has_value() && std::holds_alternative<Message>(parsed->message));
    MadBytes again;
    build_cm(*parsed, again);
    assert_true(again == (covered[bit] ? one : plain));
  }
}

void every_bit_has_one_meaning(void**) {
  walk_bits<CmReq>();
  walk_bits<CmMra>();
  walk_bits<CmRej>();
  walk_bits<CmRep>();
  walk_bits<CmRtu>();
  walk_bits<CmDreq>();
  walk_bits<CmDrep>();
  walk_bits<CmSidrReq>();
  walk_bits<CmSidrRep>();
  walk_bits<CmLap>();
  walk_bits<CmApr>();
}

/// Reserved bits of each message as the tables of the specification have them, independent of how the
/// fields are written: 1856 bits less the named ones.
void reserved_bits_are_counted(void**) {
  const auto reserved = [](auto bits) { return static_cast<int>(kMadDataSize * 8 - bits.count()); };
  // REQ: byte 4; bytes 24..27; six bits before each packet rate; three after each subnet local;
  // three and two after the ACK time-outs.
  assert_int_equal(reserved(covered_bits<CmReq>()), 8 + 32 + 6 + 6 + 3 + 3 + 3 + 2);
  assert_int_equal(reserved(covered_bits<CmMra>()), 6 + 3);
  assert_int_equal(reserved(covered_bits<CmRej>()), 6 + 1);
  assert_int_equal(reserved(covered_bits<CmRep>()), 4);
  assert_int_equal(reserved(covered_bits<CmRtu>()), 0);
  assert_int_equal(reserved(covered_bits<CmDreq>()), 8);
  assert_int_equal(reserved(covered_bits<CmDrep>()), 0);
  assert_int_equal(reserved(covered_bits<CmApr>()), 16);
  assert_int_equal(reserved(covered_bits<CmSidrReq>()), 16);
  assert_int_equal(reserved(covered_bits<CmSidrRep>()), 0);
}

std::vector<std::uint8_t> from_hex(std::string_view hex) {
  std::vector<std::uint8_t> out;
  const auto nibble = [](char c) {
    return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(nibble(hex[i]) << 4 | nibble(hex[i + 1])));
  return out;
}

/// A MAD whose tail of zeros was left out.
MadBytes mad_of(std::string_view hex) {
  const auto head = from_hex(hex);
  MadBytes mad{};
  std::copy(head.begin(), head.end(), mad.begin());
  return mad;
}

// What Linux 6.1 sends for rping and udaddy.
constexpr std::string_view kLinuxReq =
    "0107020300000000000000020be178650010000000000000"
    "6578e10b000000000000000001061c06505400fffe00000a000000000000000000002c0100000001000000a053fb80"
    "a7"
    "ffff57f0ffffffff00000000000000000000ffff0a4d000100000000000000000000ffff0a4d0002b6f7d000004000"
    "98"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0040e1a90000000000000000000000000a4d00010000000000000000000000000a4d0002";
constexpr std::string_view kLinuxRep =
    "0107020300000000000000020be178650013000000000000"
    "03d188806578e10b0000000000002c0000000000f6969500010178e0505400fffe00000b";
constexpr std::string_view kLinuxRej =
    "0107020300000000000000020be178670012000000000000000000006778e10b00000008";
constexpr std::string_view kLinuxDreq =
    "0107020300000000000000020be1786500150000000000006578e10b03d1888000002c";
constexpr std::string_view kLinuxSidrReq =
    "0107020300000000000000020be178660017000000000000"
    "6678e10bffff00000000000001111c060040bc3e0000000000000000000000000a4d0001"
    "0000000000000000000000000a4d0002";
constexpr std::string_view kLinuxSidrRep =
    "0107020300000000000000020be178660018000000000000"
    "6678e10b0000000000002e000000000001111c0601234567";

template <class Message>
Message parse_as(std::string_view hex) {
  const auto parsed = parse_cm(mad_of(hex));
  assert_true(parsed.has_value());
  assert_true(std::holds_alternative<Message>(parsed->message));
  return std::get<Message>(parsed->message);
}

void linux_req(void**) {
  const CmReq m = parse_as<CmReq>(kLinuxReq);
  assert_int_equal(m.local_comm_id, 0x6578e10b);
  assert_true(m.service_id == rdma_service_id(PortSpace::kTcp, 7174));
  assert_true(m.local_ca_guid == 0x505400fffe00000a);
  assert_eq(m.local_qpn, Qpn(0x2c));
  assert_int_equal(m.responder_resources, 1);
  assert_int_equal(m.initiator_depth, 1);
  assert_int_equal(m.remote_cm_timeout, 20);
  assert_eq(m.transport, CmTransport::kRc);
  assert_eq(m.starting_psn, Psn(0x53fb80));
  assert_int_equal(m.local_cm_timeout, 20);
  assert_int_equal(m.retry_count, 7);
  assert_int_equal(m.pkey, 0xffff);
  assert_int_equal(m.path_mtu, 5);
  assert_int_equal(m.rnr_retry_count, 7);
  assert_int_equal(m.max_cm_retries, 15);
  assert_int_equal(m.primary.local_lid, kPermissiveLid);
  assert_eq(m.primary.local_gid, IpAddress::v4(10, 77, 0, 1));
  assert_eq(m.primary.remote_gid, IpAddress::v4(10, 77, 0, 2));
  assert_int_equal(m.primary.flow_label, 0xb6f7d);
  assert_int_equal(m.primary.packet_rate, 0);
  assert_int_equal(m.primary.hop_limit, 64);
  assert_int_equal(m.primary.local_ack_timeout, 19);
  assert_true(m.alternate == CmPath{});
  const auto ip = IpCmHeader::load(m.private_data.data());
  assert_ok(ip);
  assert_int_equal(ip->source_port, 0xe1a9);
  assert_eq(ip->source, IpAddress::v4(10, 77, 0, 1));
  assert_eq(ip->destination, IpAddress::v4(10, 77, 0, 2));
}

void linux_rep_rej_dreq(void**) {
  const CmRep rep = parse_as<CmRep>(kLinuxRep);
  assert_int_equal(rep.local_comm_id, 0x03d18880);
  assert_int_equal(rep.remote_comm_id, 0x6578e10b);
  assert_eq(rep.local_qpn, Qpn(0x2c));
  assert_eq(rep.starting_psn, Psn(0xf69695));
  assert_int_equal(rep.responder_resources, 1);
  assert_int_equal(rep.initiator_depth, 1);
  assert_int_equal(rep.target_ack_delay, 15);
  assert_int_equal(rep.failover, 0);
  assert_int_equal(rep.rnr_retry_count, 7);
  assert_true(rep.local_ca_guid == 0x505400fffe00000b);
  const CmRej rej = parse_as<CmRej>(kLinuxRej);
  assert_int_equal(rej.local_comm_id, 0);
  assert_int_equal(rej.remote_comm_id, 0x6778e10b);
  assert_eq(rej.message, CmMessageKind::kReq);
  assert_eq(rej.reason, CmRejectReason::kInvalidServiceId);
  const CmDreq dreq = parse_as<CmDreq>(kLinuxDreq);
  assert_eq(dreq.remote_qpn, Qpn(0x2c));
}

void linux_sidr(void**) {
  const CmSidrReq req = parse_as<CmSidrReq>(kLinuxSidrReq);
  assert_int_equal(req.request_id, 0x6678e10b);
  assert_int_equal(req.pkey, 0xffff);
  assert_true(req.service_id == rdma_service_id(PortSpace::kUdp, 7174));
  assert_ok(IpCmHeader::load(req.private_data.data()));
  const CmSidrRep rep = parse_as<CmSidrRep>(kLinuxSidrRep);
  assert_int_equal(rep.request_id, 0x6678e10b);
  assert_eq(rep.status, CmSidrStatus::kOk);
  assert_eq(rep.qpn, Qpn(0x2e));
  assert_true(rep.service_id == rdma_service_id(PortSpace::kUdp, 7174));
  assert_int_equal(rep.qkey, 0x01234567);
}

void rebuilt_byte_by_byte(void**) {
  for (const auto hex :
       {kLinuxReq, kLinuxRep, kLinuxRej, kLinuxDreq, kLinuxSidrReq, kLinuxSidrRep}) {
    const MadBytes mad = mad_of(hex);
    const auto parsed = parse_cm(mad);
    assert_true(parsed.has_value());
    MadBytes again;
    again.fill(0xee);
    build_cm(*parsed, again);
    assert_memory_equal(again.data(), mad.data(), kMadSize);
  }
}

/// The IP CM header of the REQ above is built from its values alone.
void ip_cm_header_round_trip(void**) {
  const CmReq m = parse_as<CmReq>(kLinuxReq);
  IpCmHeader h{0xe1a9, IpAddress::v4(10, 77, 0, 1), IpAddress::v4(10, 77, 0, 2)};
  std::uint8_t p[IpCmHeader::kSize];
  std::memset(p, 0xee, sizeof(p));
  h.build(p);
  assert_memory_equal(p, m.private_data.data(), sizeof(p));
  const auto v6 = *IpAddress::parse("fd77::1");
  h = {0x8285, v6, *IpAddress::parse("fd77::2")};
  h.build(p);
  assert_int_equal(p[1], 0x60);
  const auto back = IpCmHeader::load(p);
  assert_ok(back);
  assert_true(*back == h);
  p[0] = 0x10;  // major version 1
  assert_error(IpCmHeader::load(p), Error::kBadVersion);
  p[0] = 0x01;  // minor versions are compatible
  assert_ok(IpCmHeader::load(p));
  p[1] = 0x50;
  assert_error(IpCmHeader::load(p), Error::kMalformed);
}

void refuses_with_a_name(void**) {
  const MadBytes good = mad_of(kLinuxReq);
  const auto verdict = [](Bytes b) {
    const auto r = parse_cm(b);
    return r ? Drop::kNone : r.error();
  };
  assert_eq(verdict(good), Drop::kNone);
  assert_eq(verdict(Bytes(good).first(255)), Drop::kBadMad);
  assert_eq(verdict({}), Drop::kBadMad);
  const struct {
    std::size_t at;
    std::uint8_t value;
    Drop expected;
  } rows[] = {
      {0, 2, Drop::kBadMad},              // base version
      {1, 0x03, Drop::kUnknownMadClass},  // subnet administration
      {1, 0x04, Drop::kUnknownMadClass},  // performance management
      {2, 1, Drop::kBadMad},              // class version
      {3, 0x81, Drop::kBadMad},           // GetResp()
      {17, 0x0f, Drop::kUnknownCmAttribute},
      {17, 0x1b, Drop::kUnknownCmAttribute},
      {16, 0x01, Drop::kUnknownCmAttribute},  // 0x0110
  };
  for (const auto& row : rows) {
    MadBytes bad = good;
    bad[row.at] = row.value;
    assert_eq(verdict(bad), row.expected);
  }
}

void names_and_texts(void**) {
  assert_string_equal(name_of(CmAttribute::kSidrRep), "SIDR_REP");
  assert_string_equal(name_of(CmAttribute::kApr), "APR");
  assert_null(name_of(CmAttribute{0x0f}));
  assert_null(name_of(CmAttribute{0x1b}));
  assert_true(to_string(CmRejectReason::kConsumer) == "rejected by the application");
  assert_true(to_string(CmRejectReason::kVendorOption) == "vendor option not supported");
  assert_true(to_string(CmRejectReason{36}) == "unknown reason");
  assert_true(to_string(CmRejectReason{0xffff}) == "unknown reason");
  assert_true(to_string(CmSidrStatus{77}) == "unknown status");
  const auto text = to_string(*parse_cm(mad_of(kLinuxRej)));
  assert_string_equal(text.c_str(), "REJ tid=0x20be17867 remote_comm_id=0x6778e10b reason=0x8");
}

/// MADs of a capture, in order.
std::vector<MadBytes> read_mads(const std::string& file) {
  std::vector<MadBytes> out;
  const auto bytes = read_file(file);
  assert_ok(bytes);
  CaptureReader reader(*bytes);
  CaptureRecord record;
  while (reader.next(record)) {
    const auto view = parse_packet(record.bytes);
    if (!view) continue;
    const auto udp = UdpView::parse(record.bytes.subspan(view->transport_offset));
    if (!udp || udp->destination_port() != kRoceUdpPort) continue;
    const auto packet = parse_transport(udp->payload().first(udp->payload().size() - 4));
    if (!packet || packet->bth().dest_qp() != Qpn(1)) continue;
    assert_int_equal(packet->deth().qkey, 0x80010000);
    assert_int_equal(packet->payload().size(), kMadSize);
    MadBytes mad;
    std::copy_n(packet->payload().begin(), kMadSize, mad.begin());
    out.push_back(mad);
  }
  return out;
}

void linux_captures(void**) {
  if (test::shared_dir() == nullptr) skip();
  const struct {
    const char* file;
    const char* sequence;
    std::uint64_t service_id;
  } rows[] = {
      {"cm-rping-v4", "REQ REP RTU DREQ DREP ", 0x1061c06},
      {"cm-rping-v6", "REQ REP RTU DREQ DREP ", 0x1061c06},
      {"cm-reject-v4", "REQ REJ ", 0x106270f},
      {"cm-udaddy-v4", "SIDR_REQ SIDR_REP ", 0x1111c06},
      {"cm-ucmatose-v4", "REQ REQ REP REP RTU RTU DREQ DREQ DREP DREP ", 0x1061d2f},
      {"cm-rstream-v4", "REQ REP RTU DREQ DREP ", 0x1061d2f},
  };
  for (const auto& row : rows) {
    std::string sequence;
    for (const MadBytes& mad :
         read_mads(std::string(test::shared_dir()) + "/peer/pcaps/" + row.file + ".pcap")) {
      const auto parsed = parse_cm(mad);
      assert_true(parsed.has_value());
      sequence += std::visit([](const auto& m) { return name_of(m.kAttribute); }, parsed->message);
      sequence += " ";
      if (const auto* req = std::get_if<CmReq>(&parsed->message)) {
        assert_true(req->service_id == row.service_id);
        const auto ip = IpCmHeader::load(req->private_data.data());
        assert_ok(ip);
        assert_eq(ip->source, req->primary.local_gid);
        assert_eq(ip->destination, req->primary.remote_gid);
      }
      MadBytes again;
      build_cm(*parsed, again);
      assert_memory_equal(again.data(), mad.data(), kMadSize);
    }
    assert_string_equal(sequence.c_str(), row.sequence);
  }
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(mad_header_round_trip),
      cmocka_unit_test(bit_field_leaves_neighbours),
      cmocka_unit_test(every_bit_has_one_meaning),
      cmocka_unit_test(reserved_bits_are_counted),
      cmocka_unit_test(linux_req),
      cmocka_unit_test(linux_rep_rej_dreq),
      cmocka_unit_test(linux_sidr),
      cmocka_unit_test(rebuilt_byte_by_byte),
      cmocka_unit_test(ip_cm_header_round_trip),
      cmocka_unit_test(refuses_with_a_name),
      cmocka_unit_test(names_and_texts),
      cmocka_unit_test(linux_captures),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
