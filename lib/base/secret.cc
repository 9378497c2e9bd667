#include "base/secret.h"

#include <cstring>

namespace h4a {

void wipe(void* p, std::size_t n) noexcept {
  if (n > 0) explicit_bzero(p, n);
}

}  // namespace h4a
