#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace h4a {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace h4a
