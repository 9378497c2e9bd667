#include "net/bth.h"

#include <cstring>
#include <vector>

#include "test/test_support.h"

namespace h4a::net {
namespace {

std::vector<std::uint8_t> from_hex(std::string_view hex) {
  std::vector<std::uint8_t> out;
  const auto nibble = [](char c) {
    return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(nibble(hex[i]) << 4 | nibble(hex[i + 1])));
  return out;
}

/// A packet of this opcode with zero extended headers and `after` bytes behind them.
std::vector<std::uint8_t> template_packet(Opcode opcode, std::size_t after, std::uint8_t pad) {
  std::vector<std::uint8_t> p(info(opcode).header_length() + after);
  Bth bth;
  bth.opcode = opcode;
  bth.pad_count = pad;
  bth.build(p.data());
  return p;
}

void bth_round_trip(void**) {
  Bth bth;
  bth.opcode = Opcode::kRcWriteLast;
  bth.solicited = true;
  bth.pad_count = 3;
  bth.pkey = 0x7fff;
  bth.becn = true;
  bth.dest_qp = Qpn(0xabcdef);
  bth.ack_req = true;
  bth.psn = Psn(0xfffffe);
  std::uint8_t p[12];
  std::memset(p, 0xee, sizeof(p));
  bth.build(p);
  const auto v = BthView::parse(p);
  assert_ok(v);
  assert_eq(v->opcode(), Opcode::kRcWriteLast);
  assert_true(v->solicited() && v->mig_req() && v->becn() && !v->fecn() && v->ack_req());
  assert_int_equal(v->pad_count(), 3);
  assert_int_equal(v->pkey(), 0x7fff);
  assert_eq(v->dest_qp(), Qpn(0xabcdef));
  assert_eq(v->psn(), Psn(0xfffffe));
  assert_int_equal(p[8], 0x80);  // spare bits are sent as zero
}

void extended_headers_round_trip(void**) {
  std::uint8_t p[28];
  Reth{0x1122334455667788, Rkey(0x99aabbcc), 0xddeeff00}.build(p);
  const Reth reth = Reth::load(p);
  assert_true(reth.virtual_address == 0x1122334455667788 && reth.rkey == Rkey(0x99aabbcc));
  assert_true(reth.dma_length == 0xddeeff00);
  Aeth{0x62, Msn(0x123456)}.build(p);
  assert_true(Aeth::load(p).syndrome == 0x62 && Aeth::load(p).msn == Msn(0x123456));
  AtomicEth{1, Rkey(2), 3, 4}.build(p);
  const AtomicEth atomic = AtomicEth::load(p);
  assert_true(atomic.virtual_address == 1 && atomic.rkey == Rkey(2));
  assert_true(atomic.swap_or_add == 3 && atomic.compare == 4);
  AtomicAckEth{5}.build(p);
  assert_true(AtomicAckEth::load(p).original == 5);
  ImmDt{0xcafef00d}.build(p);
  assert_true(ImmDt::load(p).value == 0xcafef00d);
  Ieth{Rkey(7)}.build(p);
  assert_true(Ieth::load(p).rkey == Rkey(7));
  Deth{0x80010000, Qpn(0x010203)}.build(p);
  assert_true(Deth::load(p).qkey == 0x80010000 && Deth::load(p).source_qp == Qpn(0x010203));
}

/// The table against the spec, independent of how rows are written.
void opcode_names_and_lengths(void**) {
  const struct {
    std::uint8_t opcode;
    const char* name;
    std::size_t header_length;
    bool request;
  } cases[] = {
      {0x00, "RC_SEND_FIRST", 12, true},
      {0x05, "RC_SEND_ONLY_WITH_IMMEDIATE", 16, true},
      {0x06, "RC_RDMA_WRITE_FIRST", 28, true},
      {0x08, "RC_RDMA_WRITE_LAST", 12, true},
      {0x0b, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", 32, true},
      {0x0c, "RC_RDMA_READ_REQUEST", 28, true},
      {0x0d, "RC_RDMA_READ_RESPONSE_FIRST", 16, false},
      {0x0e, "RC_RDMA_READ_RESPONSE_MIDDLE", 12, false},
      {0x11, "RC_ACKNOWLEDGE", 16, false},
      {0x12, "RC_ATOMIC_ACKNOWLEDGE", 24, false},
      {0x14, "RC_FETCH_ADD", 40, true},
      {0x17, "RC_SEND_ONLY_WITH_INVALIDATE", 16, true},
      {0x24, "UC_SEND_ONLY", 12, true},
      {0x64, "UD_SEND_ONLY", 20, true},
      {0x81, "CNP", 28, false},
  };
  for (const auto& c : cases) {
    const OpcodeInfo* row = find_opcode(c.opcode);
    assert_non_null(row);
    assert_string_equal(std::string(row->name).c_str(), c.name);
    assert_int_equal(row->header_length(), c.header_length);
    assert_int_equal(row->is_request(), c.request);
  }
  for (const int reserved : {0x15, 0x18, 0x1f, 0x2c, 0x40, 0x66, 0x80, 0xc0, 0xff})
    assert_null(find_opcode(static_cast<std::uint8_t>(reserved)));
}

void every_opcode_parses_at_its_length(void**) {
  for (const OpcodeInfo& row : kOpcodeTable) {
    auto p = template_packet(row.opcode, 0, 0);
    assert_true(parse_transport(p).has_value());
    assert_true(parse_transport(p)->payload().empty());
    assert_true(to_string(*parse_transport(p)).starts_with(row.name));
    for (std::size_t n = 0; n < p.size(); ++n) {
      const Drop expected = n < kBthSize ? Drop::kTruncated : Drop::kBadExtendedHeader;
      assert_eq(parse_transport(Bytes(p).first(n)).error(), expected);
    }
    const auto more = template_packet(row.opcode, 4, 0);
    assert_int_equal(parse_transport(more).has_value(), row.has_payload);
  }
}

void pad_rules(void**) {
  const struct {
    std::size_t after;
    std::uint8_t pad;
    bool ok;
  } cases[] = {{0, 0, true}, {0, 1, false}, {4, 0, true},  {4, 1, true},  {4, 2, true},
               {4, 3, true}, {1, 0, false}, {3, 3, false}, {6, 2, false}, {8, 3, true}};
  for (const auto& c : cases) {
    const auto p = template_packet(Opcode::kRcSendOnly, c.after, c.pad);
    const auto parsed = parse_transport(p);
    assert_int_equal(parsed.has_value(), c.ok);
    if (c.ok)
      assert_int_equal(parsed->payload().size(), c.after - c.pad);
    else
      assert_eq(parsed.error(), Drop::kBadPad);
  }
  assert_eq(parse_transport(template_packet(Opcode::kRcAcknowledge, 0, 1)).error(), Drop::kBadPad);
  for (std::size_t n = 0; n < 9; ++n) assert_true((n + pad_for(n)) % 4 == 0 && pad_for(n) < 4);
}

void version_and_reserved_opcodes(void**) {
  auto p = template_packet(Opcode::kRcSendOnly, 0, 0);
  p[1] |= 1;
  assert_eq(parse_transport(p).error(), Drop::kBadBth);
  p[1] = 0;  // MigReq 0 is as good as 1
  assert_true(parse_transport(p).has_value());
  p[0] = 0x15;
  assert_eq(parse_transport(p).error(), Drop::kBadOpcode);
}

void parses_a_packet_of_a_nic(void**) {
  // SEND ONLY of 2 bytes and an RDMA READ request, as a NIC sent them, without ICRC.
  const auto send = from_hex("0420ffff0000003b80727d7033000000");
  const auto s = parse_transport(send);
  assert_true(s.has_value());
  assert_int_equal(s->payload().size(), 2);
  assert_int_equal(s->payload()[0], 0x33);
  assert_eq(s->bth().dest_qp(), Qpn(59));
  assert_eq(s->bth().psn(), Psn(7503216));
  assert_true(s->bth().ack_req());
}

void aeth_syndromes(void**) {
  const struct {
    std::uint8_t syndrome;
    AckKind kind;
  } cases[] = {
      {0x00, AckKind::kAck},
      {0x1f, AckKind::kAck},
      {0x06, AckKind::kAck},
      {0x20, AckKind::kRnrNak},
      {0x2c, AckKind::kRnrNak},
      {0x3f, AckKind::kRnrNak},
      {0x60, AckKind::kNakSequence},
      {0x61, AckKind::kNakInvalidRequest},
      {0x62, AckKind::kNakRemoteAccess},
      {0x63, AckKind::kNakRemoteOperation},
      {0x64, AckKind::kNakInvalidRdRequest},
      {0x40, AckKind::kReserved},
      {0x7f, AckKind::kNakReserved},
      {0x80, AckKind::kReserved},
      {0xe0, AckKind::kReserved},
  };
  for (const auto& c : cases) assert_eq((Aeth{c.syndrome, Msn()}.kind()), c.kind);
}

void rnr_timers(void**) {
  const double ms[32] = {655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
                         0.16,   0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
                         2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                         40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (std::uint8_t code = 0; code < 32; ++code) {
    const auto want_us = static_cast<std::int64_t>(ms[code] * 1000 + 0.5);
    assert_true(rnr_timer(code) == Duration::us(want_us));
  }
}

}  // namespace
}  // namespace h4a::net

int main() {
  using namespace h4a::net;
  const CMUnitTest tests[] = {
      cmocka_unit_test(bth_round_trip),
      cmocka_unit_test(extended_headers_round_trip),
      cmocka_unit_test(opcode_names_and_lengths),
      cmocka_unit_test(every_opcode_parses_at_its_length),
      cmocka_unit_test(pad_rules),
      cmocka_unit_test(version_and_reserved_opcodes),
      cmocka_unit_test(parses_a_packet_of_a_nic),
      cmocka_unit_test(aeth_syndromes),
      cmocka_unit_test(rnr_timers),
  };
  return cmocka_run_group_tests_name("bth", tests, nullptr, nullptr);
}
