#include "h4a/range.h"

#include <string>

#include "test/test_support.h"

namespace h4a {
namespace {

using Kind = RangeVerdict::Kind;

struct Case {
  const char* header;
  std::uint64_t size;
  Kind kind;
  std::uint64_t first;
  std::uint64_t length;
};

constexpr Case kCases[] = {
    {"", 1000, Kind::kWhole, 0, 1000},
    {"bytes=0-499", 1000, Kind::kPartial, 0, 500},
    {"bytes=500-999", 1000, Kind::kPartial, 500, 500},
    {"bytes=0-0", 1000, Kind::kPartial, 0, 1},
    {"bytes=999-999", 1000, Kind::kPartial, 999, 1},
    {"bytes=500-", 1000, Kind::kPartial, 500, 500},
    {"bytes=500-5000", 1000, Kind::kPartial, 500, 500},
    {"bytes=-500", 1000, Kind::kPartial, 500, 500},
    {"bytes=-5000", 1000, Kind::kPartial, 0, 1000},
    {"BYTES=0-1", 1000, Kind::kPartial, 0, 2},
    {"  bytes=0-1 \t", 1000, Kind::kPartial, 0, 2},
    {"bytes= 0-1 ,", 1000, Kind::kPartial, 0, 2},
    {"bytes=,,0-1", 1000, Kind::kPartial, 0, 2},
    // behind the end
    {"bytes=1000-", 1000, Kind::kUnsatisfiable, 0, 0},
    {"bytes=1000-1001", 1000, Kind::kUnsatisfiable, 0, 0},
    {"bytes=-0", 1000, Kind::kUnsatisfiable, 0, 0},
    {"bytes=0-", 0, Kind::kUnsatisfiable, 0, 0},
    {"bytes=-5", 0, Kind::kWhole, 0, 0},
    {"bytes=-0", 0, Kind::kUnsatisfiable, 0, 0},
    // numbers beyond 64 bits
    {"bytes=0-18446744073709551615", 1000, Kind::kPartial, 0, 1000},
    {"bytes=0-99999999999999999999999", 1000, Kind::kPartial, 0, 1000},
    {"bytes=99999999999999999999999-", 1000, Kind::kUnsatisfiable, 0, 0},
    {"bytes=18446744073709551616-18446744073709551617", 1000, Kind::kUnsatisfiable, 0, 0},
    {"bytes=-99999999999999999999999", 1000, Kind::kPartial, 0, 1000},
    {"bytes=0-", 18446744073709551615U, Kind::kPartial, 0, 18446744073709551615U},
    // not understood, therefore ignored
    {"bytes=1-0", 1000, Kind::kWhole, 0, 1000},
    {"bytes=0-1,5-6", 1000, Kind::kWhole, 0, 1000},
    {"bytes=", 1000, Kind::kWhole, 0, 1000},
    {"bytes=-", 1000, Kind::kWhole, 0, 1000},
    {"bytes=a-b", 1000, Kind::kWhole, 0, 1000},
    {"bytes=0-b", 1000, Kind::kWhole, 0, 1000},
    {"bytes=5", 1000, Kind::kWhole, 0, 1000},
    {"bytes=--5", 1000, Kind::kWhole, 0, 1000},
    {"bytes=+1-5", 1000, Kind::kWhole, 0, 1000},
    {"bytes=0 - 5", 1000, Kind::kWhole, 0, 1000},
    {"bytes", 1000, Kind::kWhole, 0, 1000},
    {"bytes 0-5", 1000, Kind::kWhole, 0, 1000},
    {"items=0-5", 1000, Kind::kWhole, 0, 1000},
    {"0-5", 1000, Kind::kWhole, 0, 1000},
};

void ranges(void**) {
  for (const Case& c : kCases) {
    const RangeVerdict v = parse_range(c.header, c.size);
    if (v.kind != c.kind || v.range != ByteRange{c.first, c.length})
      fail_msg("\"%s\" of %llu: kind %d, %llu+%llu", c.header,
               static_cast<unsigned long long>(c.size), static_cast<int>(v.kind),
               static_cast<unsigned long long>(v.range.first),
               static_cast<unsigned long long>(v.range.length));
  }
}

void content_ranges_come_back(void**) {
  assert_string_equal(content_range({0, 100}, 1000).c_str(), "bytes 0-99/1000");
  assert_string_equal(content_range_unsatisfied(1000).c_str(), "bytes */1000");
  const auto r = parse_content_range("bytes 500-999/1000");
  assert_ok(r);
  assert_eq(r->range, (ByteRange{500, 500}));
  assert_int_equal(r->size, 1000);
}

void contradicting_content_ranges_are_refused(void**) {
  for (const char* text : {"", "bytes", "bytes */1000", "bytes 0-99/*", "bytes 9-0/100",
                           "bytes 0-100/100", "bytes 0-99", "items 0-9/10", "bytes /-", "bytes -/1",
                           "bytes 0-99999999999999999999/99999999999999999999"})
    assert_error(parse_content_range(text), Error::kMalformed);
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(ranges),
      cmocka_unit_test(content_ranges_come_back),
      cmocka_unit_test(contradicting_content_ranges_are_refused),
  };
  return cmocka_run_group_tests_name("range", tests, nullptr, nullptr);
}
