// seal_burst: what goes on the wire, judged by the cipher alone and by the numbers of the RFCs.
#include <array>

#include "ipsec/esp_fixture.h"

#include "test/test_support.h"

namespace h4a::ipsec {
namespace {

using packet::Frame;
using test::ByteVector;
using test::EspPair;
using test::kSpi;
using test::PairOptions;
using test::random_bytes;

ByteVector numbered(std::size_t n) {
  ByteVector b(n);
  for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::uint8_t>(i * 7 + 1);
  return b;
}

/// Checks everything outside the ciphertext and returns the text that the reference cipher finds
/// inside.
ByteVector inspect(EspPair& pair, Frame* f, std::uint64_t sequence) {
  const std::size_t ip_bytes = pair.options.v6 ? 40 : 20;
  assert_int_equal(f->transport_offset, ip_bytes);
  assert_int_equal(f->l3_offset, 0);
  assert_int_equal(f->pieces_size() + f->tail().size(), 0);
  const Bytes b = f->bytes();
  if (pair.options.v6) {
    assert_int_equal(load_be16(&b[4]), b.size() - 40);
    assert_int_equal(b[6], 50);
  } else {
    assert_int_equal(load_be16(&b[2]), b.size());
    assert_int_equal(b[9], 50);
    assert_int_equal(test::ones_sum(b.first(20)), 0xffff);
  }
  const Bytes esp = b.subspan(ip_bytes);
  assert_int_equal(load_be32(&esp[0]), kSpi);
  assert_int_equal(load_be32(&esp[4]), sequence & 0xffff'ffff);
  assert_int_equal(load_be64(&esp[8]), sequence);

  const ByteVector key = pair.key();
  const std::size_t n = key.size() - 4;
  const auto reference =
      make_aes_gcm(Bytes(key).first(n), Bytes(key).subspan(n), 16, AeadBackend::kOpenSsl).value();
  ByteVector text(esp.begin() + 16, esp.end() - 16);
  OpenJob job{};
  job.data = text.data();
  job.size = text.size();
  job.tag = &esp[esp.size() - 16];
  job.iv = &esp[8];
  store_be<4>(&job.aad[0], kSpi);
  job.aad_size = pair.options.esn ? 12 : 8;
  if (pair.options.esn)
    store_be<8>(&job.aad[4], sequence);
  else
    store_be<4>(&job.aad[4], sequence);
  reference->open({&job, 1});
  assert_true(job.authentic);
  return text;
}

void the_reference_cipher_finds_the_packet_inside(void**) {
  for (const bool v6 : {false, true}) {
    for (const bool esn : {false, true}) {
      for (const EspSuite suite : {EspSuite::kAesGcm128, EspSuite::kAesGcm256}) {
        EspPair pair({.suite = suite, .esn = esn, .v6 = v6, .first_sequence = 0xffff'fff0});
        for (std::size_t n = 0; n < 12; ++n) {
          const ByteVector payload = numbered(n);
          Frame* f = pair.sealed(payload);
          assert_eq(inspect(pair, f, 0xffff'fff0 + n), test::text_of(payload));
          assert_int_equal(f->size() - f->transport_offset, sealed_size(n));
        }
      }
    }
  }
}

/// GCM aligns to 4 bytes, not to cipher blocks; pad bytes count 1, 2, 3. Spec: RFC 4106 §3.2, RFC
/// 4303 §2.4.
void padding_is_for_four_bytes_only(void**) {
  struct Row {
    std::size_t clear;
    std::size_t esp;
  };
  constexpr std::array<Row, 6> kRows{
      {{1442, 1476}, {1443, 1480}, {1444, 1480}, {1445, 1480}, {1446, 1480}, {1447, 1484}}};
  for (const Row& row : kRows) {
    EspPair pair;
    const ByteVector payload = numbered(row.clear);
    Frame* f = pair.sealed(payload);
    assert_int_equal(f->size(), 20 + row.esp);
    const ByteVector text = inspect(pair, f, 1);
    const std::size_t pad = text[text.size() - 2];
    assert_true(pad < 4);
    for (std::size_t i = 0; i < pad; ++i) assert_int_equal(text[text.size() - 2 - pad + i], i + 1);
  }
}

/// A frame whose payload lies in `count` pieces of application memory, with a tail.
Frame* in_pieces(EspPair& pair, const ByteVector& all, std::size_t in_data, std::size_t count,
                 std::size_t tail) {
  Frame* f = pair.clear(Bytes(all).first(in_data));
  std::size_t at = in_data;
  const std::size_t end = all.size() - tail;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t n = i + 1 == count ? end - at : (end - at) / 3;
    f->add_piece(all.data() + at, n);
    at += n;
  }
  if (tail > 0) std::memcpy(f->append_tail(tail), all.data() + end, tail);
  return f;
}

void pieces_and_tail_are_sealed_where_they_belong(void**) {
  SeededRandom random(5);
  for (const AeadBackend backend :
       {AeadBackend::kAuto, AeadBackend::kIpsecMbSse, AeadBackend::kOpenSsl}) {
    if (!is_supported(backend)) continue;
    for (const std::size_t n : {60U, 300U, 1100U, 1600U, 4132U, 8200U}) {
      for (std::size_t count = 1; count <= kGatherMax; ++count) {
        EspPair pair({.backend = backend});
        const ByteVector all = random_bytes(random, n);
        Frame* f = in_pieces(pair, all, 20 + random.below(24), count, random.below(9));
        assert_int_equal(seal_burst(*pair.outbound, {&f, 1}), 1);
        assert_eq(inspect(pair, f, 1), test::text_of(all));
      }
    }
  }
}

/// RFC 4303 §3.3.3: two packets before the end of the counter, then none; nothing ever has number
/// 0.
void sequence_numbers_do_not_cycle_without_esn(void**) {
  EspPair pair({.esn = false, .first_sequence = 0xffff'fffe});
  std::array<Frame*, 3> burst{};
  for (Frame*& f : burst) f = pair.clear(numbered(20));
  const std::array<Frame*, 3> order = burst;
  assert_int_equal(seal_burst(*pair.outbound, burst), 2);
  assert_eq(burst, order);
  assert_eq(burst[2]->drop, Drop::kSaExhausted);
  assert_eq(inspect(pair, burst[0], 0xffff'fffe), test::text_of(numbered(20)));
  assert_eq(inspect(pair, burst[1], 0xffff'ffff), test::text_of(numbered(20)));
  Frame* late = pair.clear(numbered(20));
  assert_int_equal(seal_burst(*pair.outbound, {&late, 1}), 0);
  assert_eq(late->drop, Drop::kSaExhausted);
}

void with_esn_the_number_passes_32_bits(void**) {
  EspPair pair({.first_sequence = 0xffff'ffff});
  assert_eq(inspect(pair, pair.sealed(numbered(9)), 0xffff'ffff), test::text_of(numbered(9)));
  assert_eq(inspect(pair, pair.sealed(numbered(9)), 0x1'0000'0000), test::text_of(numbered(9)));
}

void the_hard_limit_of_blocks_stops_the_key(void**) {
  EspPair pair({.hard_limit_blocks = 6});
  std::array<Frame*, 3> burst{};
  for (Frame*& f : burst) f = pair.clear(numbered(30));  // 32 bytes of text: 3 blocks
  assert_int_equal(seal_burst(*pair.outbound, burst), 2);
  assert_eq(burst[2]->drop, Drop::kSaExpired);
  assert_true(pair.outbound->exhausted());
}

void rejected_frames_are_unchanged_and_take_no_number(void**) {
  EspPair pair;
  const ByteVector big = numbered(9100);
  Frame* no_tailroom = pair.clear(numbered(40));
  no_tailroom->add_piece(big.data(), big.size());
  Frame* no_headroom = pair.clear(numbered(40));
  const ByteVector headers(no_headroom->bytes().begin(), no_headroom->bytes().end());
  no_headroom->reset(15);
  std::copy(headers.begin(), headers.end(), no_headroom->append(headers.size()));
  no_headroom->transport_offset = 20;
  Frame* not_ip = pair.clear(numbered(40));
  not_ip->data()[0] = 0x00;
  Frame* beyond = pair.clear(numbered(1));
  beyond->truncate(10);
  Frame* good = pair.clear(numbered(40));

  const ByteVector before(no_tailroom->bytes().begin(), no_tailroom->bytes().end());
  std::array<Frame*, 5> burst{no_tailroom, not_ip, good, beyond, no_headroom};
  assert_int_equal(seal_burst(*pair.outbound, burst), 1);
  assert_true(burst[0] == good);
  assert_eq(no_tailroom->drop, Drop::kOversize);
  assert_eq(not_ip->drop, Drop::kBadIpHeader);
  assert_eq(beyond->drop, Drop::kBadIpHeader);
  assert_eq(no_headroom->drop, Drop::kOversize);
  assert_int_equal(no_tailroom->pieces_size(), big.size());
  assert_eq(ByteVector(no_tailroom->bytes().begin(), no_tailroom->bytes().end()), before);
  assert_eq(inspect(pair, good, 1), test::text_of(numbered(40)));
}

void a_full_frame_seals_and_one_byte_more_does_not(void**) {
  EspPair pair;
  const std::size_t room = kFrameBufferBytes - kFrameHeadroomBytes - 20;
  const std::size_t most = room - kEspIcvSize - kEspTrailerSize;  // headroom takes header and IV
  const ByteVector payload = numbered(most);
  const std::size_t aligned = most - (most + 2) % 4;
  Frame* f = pair.clear(Bytes(payload).first(aligned));
  assert_int_equal(seal_burst(*pair.outbound, {&f, 1}), 1);
  assert_eq(inspect(pair, f, 1), test::text_of(Bytes(payload).first(aligned)));
  Frame* g = pair.clear(Bytes(payload).first(aligned));
  const std::uint8_t more[4] = {};
  g->add_piece(more, sizeof(more));
  assert_int_equal(seal_burst(*pair.outbound, {&g, 1}), 0);
  assert_eq(g->drop, Drop::kOversize);
}

}  // namespace
}  // namespace h4a::ipsec

int main() {
  using namespace h4a::ipsec;
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_reference_cipher_finds_the_packet_inside),
      cmocka_unit_test(padding_is_for_four_bytes_only),
      cmocka_unit_test(pieces_and_tail_are_sealed_where_they_belong),
      cmocka_unit_test(sequence_numbers_do_not_cycle_without_esn),
      cmocka_unit_test(with_esn_the_number_passes_32_bits),
      cmocka_unit_test(the_hard_limit_of_blocks_stops_the_key),
      cmocka_unit_test(rejected_frames_are_unchanged_and_take_no_number),
      cmocka_unit_test(a_full_frame_seals_and_one_byte_more_does_not),
  };
  return cmocka_run_group_tests_name("esp_seal", tests, nullptr, nullptr);
}
