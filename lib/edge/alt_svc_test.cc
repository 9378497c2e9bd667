#include "edge/alt_svc.h"

#include "test/test_support.h"

namespace h4a::edge {
namespace {

struct Case {
  const char* header;
  const char* host;
  std::uint16_t port;  // 0: no alternative
  std::uint64_t max_age_s;
};

constexpr Case kCases[] = {
    {"h4a=\":8443\"; ma=86400", "", 8443, 86400},
    {"h4a=\":8443\"", "", 8443, 86400},
    {"h3=\":443\"; ma=1, h4a=\"alt.example:9\"; ma=60; persist=1", "alt.example", 9, 60},
    {"h4a=\"[fd77::1]:9\";ma=\"60\"", "[fd77::1]", 9, 60},
    {"x=\"a,b;h4a=:1\", h4a=\":2\"", "", 2, 86400},
    {"h4a=\":0\", h4a=\":7\"", "", 7, 86400},
    {"clear", "", 0, 0},
    {"", "", 0, 0},
    {"h3=\":443\"", "", 0, 0},
    {"h4a=\":\"", "", 0, 0},
    {"h4a=\":65536\"", "", 0, 0},
    {"h4a=\":-1\"", "", 0, 0},
    {"h4a=\"8443\"", "", 0, 0},
    {"h4a=\"a b:8443\"", "", 0, 0},
    {"h4a=\":8443\"; ma=soon", "", 0, 0},
    {"h4a", "", 0, 0},
    {"h4a=\"", "", 0, 0},
    {",,;;=\"", "", 0, 0},
};

void headers(void**) {
  for (const Case& c : kCases) {
    const auto a = parse_alt_svc(c.header);
    if (a.has_value() != (c.port != 0)) fail_msg("%s", c.header);
    if (!a) continue;
    assert_string_equal(a->host.c_str(), c.host);
    assert_int_equal(a->port, c.port);
    assert_int_equal(a->max_age_s, c.max_age_s);
  }
}

void what_is_sent_is_read(void**) {
  assert_string_equal(alt_svc(8443).c_str(), "h4a=\":8443\"; ma=86400");
  assert_int_equal(parse_alt_svc(alt_svc(65535))->port, 65535);
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {cmocka_unit_test(headers), cmocka_unit_test(what_is_sent_is_read)};
  return cmocka_run_group_tests_name("alt_svc", tests, nullptr, nullptr);
}
