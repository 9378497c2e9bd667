#include "apps/bench_ceiling.h"

#include <nlohmann/json.hpp>

#include "test/test_support.h"

namespace h4a::apps {
namespace {

// Quick on any machine; measure_ceiling itself asserts that every record opens.
constexpr std::size_t kRounds = 2;

void every_stage_is_measured_at_any_size(void**) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{256}, kCeilingBytesMax}) {
    const CeilingResult r = measure_ceiling(bytes, kRounds);
    assert_int_equal(r.bytes, bytes);
    for (const StageCost& c : {r.open_copy_128, r.open_copy_256, r.crc, r.copy}) {
      assert_true(c.cycles > 0);
      assert_true(c.gbit_s > 0);
    }
  }
}

void table_and_json_show_the_same_rows(void**) {
  CeilingResult r;
  r.bytes = 4096;
  r.open_copy_128 = {2211, 41.5};
  r.copy = {1100, 83.25};
  const std::string table = ceiling_table({r});
  for (const char* part : {"4096", "2211", "41.5", "1100", "83.2"})
    assert_true(table.find(part) != std::string::npos);
  const auto json = nlohmann::json::parse(ceiling_json({r}), nullptr, false);
  assert_false(json.is_discarded());
  const auto& row = json["ceiling"][0];
  assert_int_equal(row["bytes"].get<int>(), 4096);
  assert_true(row["open_copy_aes_gcm_128"]["cycles"].get<double>() == 2211);
  assert_true(row["memcpy"]["gbit_s"].get<double>() == 83.25);
  assert_false(json["cpu"].get<std::string>().empty());
  assert_false(json["aead"].get<std::string>().empty());
}

}  // namespace
}  // namespace h4a::apps

int main() {
  using namespace h4a::apps;
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_stage_is_measured_at_any_size),
      cmocka_unit_test(table_and_json_show_the_same_rows),
  };
  return cmocka_run_group_tests_name("bench_ceiling", tests, nullptr, nullptr);
}
