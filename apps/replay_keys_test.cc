// Rows of Wireshark's ESP SA table: every form that its dialog writes, and what is no row.
#include "apps/replay_keys.h"

#include <fmt/format.h>

#include "test/test_support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;

constexpr std::string_view kRow =
    R"("IPv4","10.77.0.1","10.77.0.2","0x00001001","AES-GCM with 16 octet ICV [RFC4106]",)"
    R"("0x000102030405060708090a0b0c0d0e0fa0a1a2a3","NULL","")";

IpAddress ip(std::string_view text) {
  return *IpAddress::parse(text);
}

std::vector<EspKey> parse_ok(std::string_view text) {
  auto keys = parse_esp_keys(text);
  if (!keys) fail_msg("line %zu: %s", keys.error().line, keys.error().what.c_str());
  return std::move(*keys);
}

std::string fault_of(std::string_view text) {
  const auto keys = parse_esp_keys(text);
  return keys ? "none" : fmt::format("{}: {}", keys.error().line, keys.error().what);
}

void one_row(void**) {
  const auto keys = parse_ok(fmt::format("# a comment\r\n\r\n{}\r\n", kRow));
  assert_int_equal(keys.size(), 1);
  assert_int_equal(keys[0].line, 3);
  assert_int_equal(keys[0].icv_size, 16);
  assert_int_equal(keys[0].key.size(), 20);
  assert_int_equal(keys[0].key.bytes()[19], 0xa3);
  assert_false(keys[0].stated.esn.has_value());
  assert_true(keys[0].matches(0x1001, ip("10.77.0.1"), ip("10.77.0.2")));
  assert_false(keys[0].matches(0x1002, ip("10.77.0.1"), ip("10.77.0.2")));
  assert_false(keys[0].matches(0x1001, ip("10.77.0.2"), ip("10.77.0.1")));
}

// number, source pattern, SPI pattern, source, SPI, matches
void patterns(void**) {
  const struct {
    int number;
    const char* version;
    const char* pattern;
    const char* spi_pattern;
    const char* source;
    std::uint32_t spi;
    bool matches;
  } rows[] = {
      {1, "IPv4", "*", "*", "10.1.2.3", 5, true},
      {2, "IPv4", "10.1.*.*", "4097", "10.1.2.3", 0x1001, true},
      {3, "IPv4", "10.1.2.*", "0x1001", "10.1.20.3", 0x1001, false},
      {4, "IPv4", "10.1.2*", "0x1001", "10.1.20.3", 0x1001, true},
      {5, "IPv4", "10.1.0.0/16", "0X00001001", "10.1.20.3", 0x1001, true},
      {6, "IPv4", "10.1.0.0/16", "0x1001", "10.2.20.3", 0x1001, false},
      {7, "IPv6", "fd77::1", "0x10*", "fd77::1", 0x10ff, true},
      {8, "IPv6", "fd77:0000:*", "0x000010*", "fd77::1", 0x10ff, true},
      {9, "IPv6", "FD77:0:0:0:0:0:0:1", "*", "fd77::1", 1, true},
      {10, "IPv4", "*", "*", "fd77::1", 1, false},
      {11, "IPv6", "*", "*", "10.1.2.3", 1, false},
      {12, "Any", "*", "*", "10.1.2.3", 0xffff'ffff, true},
      {13, "IPv4", "*", "0x2*", "10.1.2.3", 0x1002, false},
      {14, "IPv4", "not an address", "*", "10.1.2.3", 1, false},
  };
  for (const auto& row : rows) {
    const auto keys = parse_ok(fmt::format("\"{}\",\"{}\",\"*\",\"{}\",\"NULL\",\"\",\"NULL\",\"\"",
                                           row.version, row.pattern, row.spi_pattern));
    const IpAddress to = ip(row.source).is_v4() ? ip("10.9.9.9") : ip("fd99::9");
    if (keys[0].matches(row.spi, ip(row.source), to) != row.matches) fail_msg("row %d", row.number);
  }
}

void suites(void**) {
  const struct {
    const char* algorithm;
    const char* authentication;
    std::size_t icv_size;
  } rows[] = {
      {"AES-GCM [RFC4106]", "NULL", 16},
      {"AES-GCM [RFC4106]", "ANY 64 bit authentication [no checking]", 8},
      {"AES-GCM [RFC4106]", "ANY 96 bit authentication [no checking]", 12},
      {"AES-GCM with 8 octet ICV [RFC4106]", "NULL", 8},
      {"AES-GCM with 12 octet ICV [RFC4106]", "NULL", 12},
      {"AES-GCM with 16 octet ICV [RFC4106]", "NULL", 16},
      {"TripleDES-CBC [RFC2451]", "HMAC-SHA-1-96 [RFC2404]", 0},
      {"AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]", 0},
      {"ChaCha20 with Poly1305 [RFC7634]", "NULL", 0},
  };
  for (const auto& row : rows) {
    const auto keys =
        parse_ok(fmt::format("\"IPv4\",\"*\",\"*\",\"*\",\"{}\",\"0x{:040x}\",\"{}\",\"\"",
                             row.algorithm, 1, row.authentication));
    if (keys[0].icv_size != row.icv_size) fail_msg("%s", row.algorithm);
  }
}

void tshark_command(void**) {
  const auto keys = parse_ok(fmt::format(
      "# keys\n0x1001 0x0001020304\ntshark -r x.pcap -o 'uat:ikev2_decryption_table:a,b' "
      "-o esp.enable_encryption_decode:TRUE -o 'uat:esp_sa:{}' -o 'uat:esp_sa:{}'\n"
      "src 10.77.0.1 dst 10.77.0.2\n\tproto esp spi 0x1\n",
      kRow, kRow));
  assert_int_equal(keys.size(), 2);
  assert_int_equal(keys[1].line, 3);
  assert_int_equal(keys[1].key.size(), 20);
}

void statements(void**) {
  const auto sticky = parse_ok(
      fmt::format("{0}\n# h4a: esn=1 hi=0x2 window=64\n{0}\n{0}\n#h4a: esn=0\n{0}\n", kRow));
  assert_int_equal(sticky.size(), 4);
  assert_false(sticky[0].stated.esn.has_value());
  for (std::size_t i : {1U, 2U}) {
    assert_true(sticky[i].stated.esn == true);
    assert_int_equal(sticky[i].stated.high, 2);
    assert_true(sticky[i].stated.window == 64U);
  }
  assert_true(sticky[3].stated.esn == false);
  assert_false(sticky[3].stated.window.has_value());
  const auto behind = parse_ok(fmt::format("{0}\n{0}\n# h4a: esn=1 hi=3\n", kRow));
  assert_true(behind[0].stated.esn == true && behind[1].stated.high == 3);
  const auto columns = parse_ok(fmt::format("{},\"64-bit\",\"5\"\n", kRow));
  assert_true(columns[0].stated.esn == true && columns[0].stated.high == 5);
}

void what_is_no_row(void**) {
  assert_string_equal(fault_of("\"IPv4\",\"*").c_str(), "1: a quote is not closed");
  assert_string_equal(fault_of("\n\"IPv4\",\"*\"").c_str(), "2: 2 fields where a row has 8");
  assert_string_equal(fault_of("\"IPX\",\"*\",\"*\",\"*\",\"x\",\"\"").c_str(),
                      "1: the first field is not IPv4 or IPv6");
  assert_string_equal(fault_of("\"IPv4\",\"*\",\"*\",\"spi\",\"x\",\"\"").c_str(),
                      "1: the SPI is neither a number nor a pattern");
  assert_string_equal(fault_of("\"IPv4\",\"*\",\"*\",\"0x100000000\",\"x\",\"\"").c_str(),
                      "1: the SPI is neither a number nor a pattern");
  assert_string_equal(fault_of("\"IPv4\",\"*\",\"*\",\"*\",\"x\",\"0x123\"").c_str(),
                      "1: the key is not hex of a whole number of bytes");
  assert_string_equal(fault_of("\"IPv4\",\"*\",\"*\",\"*\",\"AES-GCM [RFC4106]\",\"0x12\"").c_str(),
                      "1: an AES-GCM key has 16, 24 or 32 bytes, and 4 bytes of salt behind it");
  assert_string_equal(fault_of("# h4a: esn=2").c_str(),
                      "1: cannot read the h4a comment: it is `# h4a: esn=0|1 hi=N window=N`");
  assert_int_equal(parse_ok("any other text\n").size(), 0);
  assert_int_equal(parse_ok("").size(), 0);
}

void globs(void**) {
  assert_true(matches_pattern("", ""));
  assert_true(matches_pattern("*", ""));
  assert_true(matches_pattern("a*b*c", "aXXbYYc"));
  assert_true(matches_pattern("*b", "abab"));
  assert_false(matches_pattern("a*b", "aXXc"));
  assert_false(matches_pattern("", "a"));
  assert_false(matches_pattern("a", ""));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(one_row),    cmocka_unit_test(patterns),
      cmocka_unit_test(suites),     cmocka_unit_test(tshark_command),
      cmocka_unit_test(statements), cmocka_unit_test(what_is_no_row),
      cmocka_unit_test(globs),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
