// Any text as a key table: rows or a fault with its line, and rows that can be matched.
#include "apps/replay_keys.h"
#include "base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a;
  const auto keys = apps::parse_esp_keys({reinterpret_cast<const char*>(data), size});
  if (!keys) {
    H4A_ASSERT(keys.error().line >= 1 && !keys.error().what.empty());
    return 0;
  }
  for (const apps::EspKey& key : *keys) {
    (void)key.matches(0x1001, IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
    (void)key.matches(0x1001, IpAddress(), IpAddress());
  }
  return 0;
}
