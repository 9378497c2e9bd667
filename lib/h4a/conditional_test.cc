#include "h4a/conditional.h"

#include "test/test_support.h"

namespace h4a {
namespace {

const Validators kNow{"\"abc\"", 784111777};
constexpr std::string_view kDate = "Sun, 06 Nov 1994 08:49:37 GMT";  // of kNow
constexpr std::string_view kBefore = "Sun, 06 Nov 1994 08:49:36 GMT";
constexpr std::string_view kAfter = "Sun, 06 Nov 1994 08:49:38 GMT";

struct Case {
  SelectingHeaders headers;
  unsigned status;
};

SelectingHeaders none_match(std::string_view v) {
  return {.if_none_match = v};
}
SelectingHeaders match(std::string_view v) {
  return {.if_match = v};
}

void preconditions(void**) {
  const Case cases[] = {
      {{}, 200},
      {none_match("\"abc\""), 304},
      {none_match("W/\"abc\""), 304},
      {none_match("\"x\", \"abc\""), 304},
      {none_match("\"x,y\",\"abc\""), 304},
      {none_match("*"), 304},
      {none_match("\"x\""), 200},
      {none_match("abc"), 200},
      {none_match("\"abc"), 200},
      {none_match("W/"), 200},
      {match("\"abc\""), 200},
      {match("*"), 200},
      {match("W/\"abc\""), 412},
      {match("\"x\""), 412},
      {{.if_modified_since = kDate}, 304},
      {{.if_modified_since = kAfter}, 304},
      {{.if_modified_since = kBefore}, 200},
      {{.if_modified_since = "yesterday"}, 200},
      {{.if_none_match = "\"x\"", .if_modified_since = kDate}, 200},  // the tag decides
      {{.if_unmodified_since = kDate}, 200},
      {{.if_unmodified_since = kBefore}, 412},
      {{.if_match = "\"abc\"", .if_unmodified_since = kBefore}, 200},  // likewise
  };
  for (const Case& c : cases) {
    const auto got = select(c.headers, kNow, 100).status;
    if (got != c.status) fail_msg("row %td: %u", &c - cases, got);
  }
}

void ranges_hang_on_their_validator(void**) {
  const Case cases[] = {
      {{.range = "bytes=0-9"}, 206},
      {{.if_range = "\"abc\"", .range = "bytes=0-9"}, 206},
      {{.if_range = "\"x\"", .range = "bytes=0-9"}, 200},
      {{.if_range = "W/\"abc\"", .range = "bytes=0-9"}, 200},
      {{.if_range = kDate, .range = "bytes=0-9"}, 206},
      {{.if_range = kAfter, .range = "bytes=0-9"}, 200},
      {{.if_range = "\"x\"", .range = "bytes=100-"}, 200},
      {{.range = "bytes=100-"}, 416},
      {{.if_none_match = "\"abc\"", .range = "bytes=100-"}, 304},
  };
  for (const Case& c : cases) {
    const auto got = select(c.headers, kNow, 100).status;
    if (got != c.status) fail_msg("row %td: %u", &c - cases, got);
  }
  assert_eq(select({.range = "bytes=10-19"}, kNow, 100).range, (ByteRange{10, 10}));
  assert_eq(select({.if_none_match = "*"}, kNow, 100).range, (ByteRange{0, 0}));
}

void dates_come_back(void**) {
  assert_string_equal(http_date(784111777).c_str(), std::string(kDate).c_str());
  for (const std::int64_t t :
       {std::int64_t{0}, std::int64_t{951782399}, std::int64_t{4102444800}}) {
    const auto back = parse_http_date(http_date(t));
    assert_ok(back);
    assert_eq(*back, t);
  }
}

void other_forms_are_no_date(void**) {
  for (const char* text : {"", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
                           "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Foo 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
                           "Sun, -6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:3x GMT"})
    assert_error(parse_http_date(text), Error::kMalformed);
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(preconditions),
      cmocka_unit_test(ranges_hang_on_their_validator),
      cmocka_unit_test(dates_come_back),
      cmocka_unit_test(other_forms_are_no_date),
  };
  return cmocka_run_group_tests_name("conditional", tests, nullptr, nullptr);
}
