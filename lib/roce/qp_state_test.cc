#include "roce/qp_state.h"

#include <fmt/format.h>
#include <string>

#include "test/test_support.h"

namespace h4a::roce {
namespace {

/// The whole table as a reader of IBA vol. 1 §10.3.1 would draw it.
constexpr std::string_view kTable =
    "          to_init   to_rtr    to_rts    to_sqd    to_error  to_reset  failure   sq_fail\n"
    "RESET     INIT      -         -         -         -         RESET     -         -\n"
    "INIT      INIT      RTR       -         -         ERROR     RESET     ERROR     -\n"
    "RTR       -         -         RTS       -         ERROR     RESET     ERROR     -\n"
    "RTS       -         -         -         SQD       ERROR     RESET     ERROR     SQE\n"
    "SQD       -         -         RTS       -         ERROR     RESET     ERROR     SQE\n"
    "SQE       -         -         RTS       -         ERROR     RESET     ERROR     -\n"
    "ERROR     -         -         -         -         ERROR     RESET     -         -\n";

void append_row(std::string& text, std::string row) {
  while (row.ends_with(' ')) row.pop_back();
  text += row + "\n";
}

std::string print_table() {
  std::string text;
  std::string header = fmt::format("{:10}", "");
  for (const QpEvent e : kQpEvents) header += fmt::format("{:10}", to_string(e));
  append_row(text, header);
  for (const verbs::QpState s : kQpStates) {
    std::string row = fmt::format("{:10}", to_string(s));
    for (const QpEvent e : kQpEvents) {
      const auto to = next_state(s, e);
      row += fmt::format("{:10}", to ? to_string(*to) : "-");
    }
    append_row(text, row);
  }
  return text;
}

void full_table(void**) {
  assert_string_equal(print_table().c_str(), std::string(kTable).c_str());
}

void who_receives_and_sends(void**) {
  std::string text;
  for (const verbs::QpState s : kQpStates)
    text += fmt::format("{}{}{} ", to_string(s), receives_requests(s) ? "+r" : "",
                        sends_requests(s) ? "+s" : "");
  assert_string_equal(text.c_str(), "RESET INIT RTR+r RTS+r+s SQD+r+s SQE+r ERROR ");
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(full_table),
      cmocka_unit_test(who_receives_and_sends),
  };
  return cmocka_run_group_tests_name("qp_state", tests, nullptr, nullptr);
}
