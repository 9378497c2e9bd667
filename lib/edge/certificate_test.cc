#include "edge/certificate.h"

#include <openssl/pem.h>

#include "test/test_support.h"

namespace h4a::edge {
namespace {

Certificate made_for(const std::vector<std::string>& hosts) {
  const auto pem = make_self_signed(hosts);
  if (!pem) fail_msg("%s", pem.error().text.c_str());
  auto c = Certificate::from_pem(pem->certificate);
  if (!c) fail_msg("%s", c.error().text.c_str());
  return std::move(*c);
}

void it_covers_its_names_and_no_others(void**) {
  const Certificate c = made_for({"files.example", "10.99.0.1", "fd77::1"});
  for (const char* host :
       {"files.example", "FILES.example", "10.99.0.1", "fd77::1", "[fd77::1]", "fd77:0::0001"})
    if (!c.covers(host)) fail_msg("%s is not covered", host);
  for (const char* host : {"", "example", "a.files.example", "xfiles.example", "10.99.0.2",
                           "fd77::2", "files.example.", ".", "*", "[]"})
    if (c.covers(host)) fail_msg("%s is covered", host);
}

void its_hosts_are_authorities(void**) {
  const Certificate c = made_for({"a.example", "127.0.0.1", "::1"});
  const std::vector<std::string> want{"a.example", "127.0.0.1", "[::1]"};
  assert_eq(c.hosts(), want);
}

void wrong_hosts_make_none(void**) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{},
                                                {""},
                                                {"a b"},
                                                {"a.example", "x,DNS:evil.example"},
                                                {"a:443"},
                                                {"*.example"}})
    if (make_self_signed(hosts)) fail_msg("made one for %s", hosts.empty() ? "" : hosts[0].c_str());
}

void each_has_its_own_key(void**) {
  const Certificate a = made_for({"a.example"});
  const Certificate b = made_for({"a.example"});
  assert_int_equal(a.public_key_pin().size(), 44);
  assert_false(a.public_key_pin() == b.public_key_pin());
}

void other_text_is_no_certificate(void**) {
  for (const char* pem :
       {"", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
    if (Certificate::from_pem(pem)) fail_msg("taken for a certificate: %s", pem);
  const auto pair = make_self_signed({"a.example"});
  if (Certificate::from_pem(pair->private_key)) fail_msg("a key was taken for a certificate");
}

void authorities_are_split(void**) {
  const std::tuple<const char*, const char*, int> cases[] = {{"a.example", "a.example", 443},
                                                             {"a.example:8443", "a.example", 8443},
                                                             {"[fd77::1]:9", "fd77::1", 9},
                                                             {"[fd77::1]", "fd77::1", 443},
                                                             {"10.0.0.1:65535", "10.0.0.1", 65535}};
  for (const auto& [text, host, port] : cases) {
    const auto s = split_authority(text);
    assert_ok(s);
    assert_string_equal(s->host.c_str(), host);
    assert_int_equal(s->port, port);
  }
  assert_error(split_authority("a:b:c"), Error::kMalformed);
}

void files_that_cannot_be_read_are_named(void**) {
  const auto r = read_pem_file("/nowhere/x.pem");
  assert_false(r.has_value());
  assert_string_equal(r.error().text.c_str(), "/nowhere/x.pem: no such file");
  assert_false(read_pem_file("/tmp").has_value());
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {
      cmocka_unit_test(it_covers_its_names_and_no_others),
      cmocka_unit_test(its_hosts_are_authorities),
      cmocka_unit_test(wrong_hosts_make_none),
      cmocka_unit_test(each_has_its_own_key),
      cmocka_unit_test(other_text_is_no_certificate),
      cmocka_unit_test(authorities_are_split),
      cmocka_unit_test(files_that_cannot_be_read_are_named),
  };
  return cmocka_run_group_tests_name("certificate", tests, nullptr, nullptr);
}
