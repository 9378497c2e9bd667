// H4A_ASSERT: a bug of ours, kept on in release builds. Nothing a peer sends may reach one.
#pragma once

namespace h4a {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace h4a

#define H4A_ASSERT(condition)                                                                  \
  (__builtin_expect(!(condition), 0) ? ::h4a::assertion_failed(#condition, __FILE__, __LINE__) \
                                     : static_cast<void>(0))
