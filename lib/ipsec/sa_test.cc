#include "ipsec/sa.h"

#include <string>

#include "ipsec/test_bytes.h"

#include "test/test_support.h"

namespace h4a::ipsec {
namespace {

const IpAddress kHere = IpAddress::v4(10, 0, 0, 1);
const IpAddress kThere = IpAddress::v4(10, 0, 0, 2);

SaConfig config(std::uint32_t spi = 0x1000) {
  SaConfig c;
  c.spi = Spi(spi);
  c.source = kThere;
  c.destination = kHere;
  c.association = AssociationId(7);
  for (std::uint8_t& byte : c.key.resize(key_material_size(c.suite))) byte = 0x42;
  return c;
}

/// `config()` with one thing changed.
template <class F>
SaConfig with(F&& change) {
  SaConfig c = config();
  change(c);
  return c;
}

void an_sa_is_found_by_spi_and_destination(void**) {
  SaTable table(4);
  const auto added = table.add_inbound(config());
  assert_ok(added);
  assert_true(table.find(Spi(0x1000), kHere) == *added);
  assert_null(table.find(Spi(0x1001), kHere));
  assert_null(table.find(Spi(0x1000), kThere));
  assert_true(table.has_spi(Spi(0x1000)));
  assert_false(table.has_spi(Spi(0x1001)));
  assert_eq((*added)->association(), AssociationId(7));
}

void one_spi_may_have_several_destinations(void**) {
  SaTable table(4);
  assert_ok(table.add_inbound(config()));
  assert_error(table.add_inbound(config()), Error::kExists);
  const auto second = table.add_inbound(with([](SaConfig& c) { c.destination = kThere; }));
  assert_ok(second);
  assert_true(table.find(Spi(0x1000), kThere) == *second);
  assert_int_equal(table.size(), 2);
}

void a_removed_sa_is_gone(void**) {
  SaTable table(4);
  assert_ok(table.add_inbound(config()));
  assert_error(table.remove_inbound(Spi(0x1000), kThere), Error::kNotFound);
  assert_ok(table.remove_inbound(Spi(0x1000), kHere));
  assert_null(table.find(Spi(0x1000), kHere));
  assert_error(table.remove_inbound(Spi(0x1000), kHere), Error::kNotFound);
  assert_ok(table.add_inbound(config()));
}

void a_full_table_says_so(void**) {
  SaTable table(8);
  for (std::uint32_t i = 0; i < 8; ++i) assert_ok(table.add_inbound(config(256 + i)));
  assert_error(table.add_inbound(config(999)), Error::kNoMemory);
  assert_ok(table.remove_inbound(Spi(256), kHere));
  assert_ok(table.add_inbound(config(999)));
  for (std::uint32_t i = 1; i < 8; ++i) assert_non_null(table.find(Spi(256 + i), kHere));
}

/// SPI 0 is never on the wire and 1..255 are reserved. Spec: RFC 4303 §2.1.
void reserved_spis_cannot_be_installed(void**) {
  SaTable table(4);
  for (const std::uint32_t spi : {0U, 1U, 255U}) {
    assert_error(table.add_inbound(config(spi)), Error::kInvalidArgument);
    assert_error(make_outbound(config(spi)), Error::kInvalidArgument);
  }
  for (const std::uint32_t spi : {256U, 0xffff'ffffU}) {
    assert_ok(table.add_inbound(config(spi)));
    assert_ok(make_outbound(config(spi)));
  }
}

void wrong_configurations_are_refused(void**) {
  SaTable table(4);
  const auto refuse = [&](auto&& change) {
    assert_error(table.add_inbound(with(change)), Error::kInvalidArgument);
    assert_error(make_outbound(with(change)), Error::kInvalidArgument);
  };
  refuse([](SaConfig& c) { c.suite = EspSuite::kAesGcm256; });  // key of the other size
  refuse([](SaConfig& c) { c.suite = static_cast<EspSuite>(0); });
  refuse([](SaConfig& c) { c.suite = static_cast<EspSuite>(200); });
  refuse([](SaConfig& c) { c.key.clear(); });
  refuse([](SaConfig& c) { static_cast<void>(c.key.resize(16)); });
  refuse([](SaConfig& c) { c.first_sequence = 0; });
  refuse([](SaConfig& c) { c.soft_limit_blocks = c.hard_limit_blocks + 1; });
  refuse([](SaConfig& c) {
    c.esn = false;
    c.first_sequence = std::uint64_t{1} << 32;
  });
  for (const std::uint32_t window : {0U, 31U, (1U << 20) + 1})
    assert_error(table.add_inbound(with([&](SaConfig& c) { c.replay_window = window; })),
                 Error::kInvalidArgument);
  assert_int_equal(table.size(), 0);
}

void the_key_leaves_its_configuration(void**) {
  SaTable table(4);
  SaConfig good = config();
  assert_ok(table.add_inbound(std::move(good)));
  assert_int_equal(good.key.size(), 0);
  SaConfig bad = config(1);
  assert_error(make_outbound(std::move(bad)), Error::kInvalidArgument);
  assert_int_equal(bad.key.size(), 0);
}

void blocks_are_counted_as_the_cipher_runs_them(void**) {
  assert_int_equal(aes_blocks(0), 1);
  assert_int_equal(aes_blocks(1), 2);
  assert_int_equal(aes_blocks(16), 2);
  assert_int_equal(aes_blocks(17), 3);
  assert_int_equal(aes_blocks(4096), 257);
}

void block_limits_ask_for_a_new_key_then_stop_the_old(void**) {
  const auto made = make_outbound(with([](SaConfig& c) {
    c.soft_limit_blocks = 4;
    c.hard_limit_blocks = 6;
  }));
  assert_ok(made);
  OutboundSa& sa = **made;
  assert_int_equal(sa.take(16), 1);
  assert_false(sa.soft_limit_reached());
  assert_int_equal(sa.take(16), 2);
  assert_true(sa.soft_limit_reached());
  assert_false(sa.exhausted());
  assert_true(sa.has_blocks_for(16));
  assert_false(sa.has_blocks_for(17));
  assert_int_equal(sa.take(16), 3);
  assert_true(sa.exhausted());
  assert_false(sa.has_blocks_for(0));
  assert_int_equal(sa.usage().packets, 3);
  assert_int_equal(sa.usage().bytes, 48);
  assert_int_equal(sa.usage().blocks, 6);
}

/// RFC 4303 §3.3.3: without ESN nothing follows 0xffffffff; the re-key is asked for long before.
void sequence_numbers_end_and_warn_before(void**) {
  const auto made = make_outbound(with([](SaConfig& c) {
    c.esn = false;
    c.first_sequence = 0xffff'fffe;
  }));
  assert_ok(made);
  OutboundSa& sa = **made;
  assert_true(sa.soft_limit_reached());
  assert_false(sa.exhausted());
  assert_int_equal(sa.take(16), 0xffff'fffe);
  assert_int_equal(sa.take(16), 0xffff'ffff);
  assert_true(sa.sequence_exhausted());
  assert_true(sa.exhausted());

  const auto fresh = make_outbound(with([](SaConfig& c) { c.esn = false; }));
  assert_ok(fresh);
  assert_false((*fresh)->soft_limit_reached());
}

void sequence_numbers_with_esn_pass_32_bits_and_end_at_64(void**) {
  const auto made = make_outbound(with([](SaConfig& c) { c.first_sequence = 0xffff'ffff; }));
  assert_ok(made);
  assert_int_equal((*made)->take(16), 0xffff'ffff);
  assert_int_equal((*made)->take(16), std::uint64_t{1} << 32);
  assert_false((*made)->exhausted());
  const auto last = make_outbound(with([](SaConfig& c) { c.first_sequence = UINT64_MAX; }));
  assert_ok(last);
  assert_int_equal((*last)->take(16), UINT64_MAX);
  assert_true((*last)->sequence_exhausted());
}

void back_ends_can_be_chosen(void**) {
  SaTable table(8);
  std::uint32_t spi = 256;
  for (const auto backend :
       {AeadBackend::kAuto, AeadBackend::kIpsecMbSse, AeadBackend::kIpsecMbAvx,
        AeadBackend::kIpsecMbAvx2, AeadBackend::kIpsecMbAvx512, AeadBackend::kOpenSsl}) {
    SaConfig c = config(spi++);
    c.backend = backend;
    const auto added = table.add_inbound(std::move(c));
    assert_eq(added.has_value(), is_supported(backend));
    if (!added) assert_error(added, Error::kUnsupported);
  }
}

}  // namespace
}  // namespace h4a::ipsec

int main() {
  using namespace h4a::ipsec;
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_sa_is_found_by_spi_and_destination),
      cmocka_unit_test(one_spi_may_have_several_destinations),
      cmocka_unit_test(a_removed_sa_is_gone),
      cmocka_unit_test(a_full_table_says_so),
      cmocka_unit_test(reserved_spis_cannot_be_installed),
      cmocka_unit_test(wrong_configurations_are_refused),
      cmocka_unit_test(the_key_leaves_its_configuration),
      cmocka_unit_test(blocks_are_counted_as_the_cipher_runs_them),
      cmocka_unit_test(block_limits_ask_for_a_new_key_then_stop_the_old),
      cmocka_unit_test(sequence_numbers_end_and_warn_before),
      cmocka_unit_test(sequence_numbers_with_esn_pass_32_bits_and_end_at_64),
      cmocka_unit_test(back_ends_can_be_chosen),
  };
  return cmocka_run_group_tests_name("sa", tests, nullptr, nullptr);
}
