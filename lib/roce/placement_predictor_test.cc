#include "roce/placement_predictor.h"

#include <vector>

#include "net/bth.h"

#include "test/test_support.h"

namespace h4a::roce {
namespace {

using net::Opcode;

constexpr std::uint64_t kAddress = 0x7f00'0000'1000;

/// A packet from BTH to the end of the payload; RETH, where it has one, names kAddress.
std::vector<std::uint8_t> packet(Opcode opcode, std::uint32_t qpn, std::uint32_t psn,
                                 std::size_t payload) {
  const net::OpcodeInfo& row = net::info(opcode);
  std::vector<std::uint8_t> p(row.header_length() + payload);
  net::Bth bth;
  bth.opcode = opcode;
  bth.dest_qp = Qpn(qpn);
  bth.psn = Psn(psn);
  bth.build(p.data());
  if (row.has(net::Header::kReth))
    net::Reth{kAddress, Rkey(1), 1 << 20}.build(&p[row.offset(net::Header::kReth)]);
  return p;
}

void expect(PlacementPredictor& predictor, const std::vector<std::uint8_t>& p,
            std::uint64_t address, std::size_t size) {
  const PrefetchRange placement = predictor.predict(p);
  assert_int_equal(placement.size, size);
  if (size > 0) assert_true(placement.address == address);
}

void a_message_is_followed_by_its_psns(void**) {
  PlacementPredictor predictor;
  expect(predictor, packet(Opcode::kRcWriteFirst, 7, 0xffffff, 1024), kAddress, 1024);
  expect(predictor, packet(Opcode::kRcWriteMiddle, 7, 0, 1024), kAddress + 1024, 1024);
  expect(predictor, packet(Opcode::kRcWriteMiddle, 7, 2, 1024), kAddress + 3072, 1024);  // a gap
  expect(predictor, packet(Opcode::kRcWriteLast, 7, 3, 100), kAddress + 4096, 100);
  // Before the FIRST: a duplicate of an earlier message.
  expect(predictor, packet(Opcode::kRcWriteMiddle, 7, 0xfffff0, 1024), 0, 0);
}

void an_only_packet_stands_for_itself(void**) {
  PlacementPredictor predictor;
  expect(predictor, packet(Opcode::kRcWriteOnly, 7, 5, 8), kAddress, 8);
  expect(predictor, packet(Opcode::kRcWriteLast, 7, 6, 8), 0, 0);
}

void queue_pairs_of_one_slot_do_not_mix(void**) {
  PlacementPredictor predictor;
  expect(predictor, packet(Opcode::kRcWriteFirst, 7, 1, 256), kAddress, 256);
  expect(predictor, packet(Opcode::kRcWriteMiddle, 7 + 64, 2, 256), 0, 0);
  expect(predictor, packet(Opcode::kRcWriteFirst, 7 + 64, 9, 256), kAddress, 256);
  expect(predictor, packet(Opcode::kRcWriteMiddle, 7, 2, 256), 0, 0);
}

void other_packets_and_cut_ones_predict_nothing(void**) {
  PlacementPredictor predictor;
  for (const net::OpcodeInfo& row : net::kOpcodeTable) {
    const auto whole = packet(row.opcode, 7, 1, 64);
    const bool is_write = row.operation == net::Operation::kWrite;
    if (!is_write) expect(predictor, whole, 0, 0);
    for (std::size_t n = 0; n < row.header_length(); ++n)
      assert_int_equal(predictor.predict(Bytes(whole).first(n)).size, 0);
  }
  std::vector<std::uint8_t> reserved(64, 0xff);
  assert_int_equal(predictor.predict(reserved).size, 0);
}

/// Addresses come from the peer and may be anything.
void any_address_can_be_asked_for(void**) {
  for (const std::uint64_t address :
       {0x0ULL, 0x1ULL, 0xffff'ffff'ffff'ff00ULL, 0x8000'0000'0000'0000ULL})
    prefetch({address, 4096});
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_message_is_followed_by_its_psns),
      cmocka_unit_test(an_only_packet_stands_for_itself),
      cmocka_unit_test(queue_pairs_of_one_slot_do_not_mix),
      cmocka_unit_test(other_packets_and_cut_ones_predict_nothing),
      cmocka_unit_test(any_address_can_be_asked_for),
  };
  return cmocka_run_group_tests_name("placement_predictor", tests, nullptr, nullptr);
}
