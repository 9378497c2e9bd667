// cmocka for C++: include this last. cmocka's `fail` macro breaks standard headers, and a failing
// assert jumps out of the function, so owners live in fixtures or are leaked by a failing test only.
#pragma once

// cmocka needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}
#undef fail
#undef fail_msg
/// cmocka's fail_msg, without its dependence on a macro named `fail`.
#define fail_msg(...) \
  (print_error("ERROR: " __VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#include <cstdlib>
#include <string>
#include <string_view>

/// Asserts that a Result holds a value; prints the error if not.
#define assert_ok(result)                                                                       \
  do {                                                                                          \
    const auto& assert_ok_r_ = (result);                                                        \
    if (!assert_ok_r_)                                                                          \
      fail_msg("%s: %s", #result, std::string(::h4a::to_string(assert_ok_r_.error())).c_str()); \
  } while (0)

/// Asserts that a Result holds this error.
#define assert_error(result, expected)                                                           \
  do {                                                                                           \
    const auto& assert_err_r_ = (result);                                                        \
    if (assert_err_r_) fail_msg("%s: succeeded", #result);                                       \
    if (assert_err_r_.error() != (expected))                                                     \
      fail_msg("%s: %s", #result, std::string(::h4a::to_string(assert_err_r_.error())).c_str()); \
  } while (0)

/// Asserts equality of any two values with operator==.
#define assert_eq(a, b)                                           \
  do {                                                            \
    if (!((a) == (b))) fail_msg("%s is not equal to %s", #a, #b); \
  } while (0)

namespace h4a::test {

/// The folder with vectors, captures and the peer's files, or nullptr: then the test calls skip().
/// Set by the environment (H4A_SHARED); `scripts/test` finds it beside the checkout.
inline const char* shared_dir() {
  return std::getenv("H4A_SHARED");
}

}  // namespace h4a::test
