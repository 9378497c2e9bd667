// ESP transforms by the names both ends agree on. Values travel in the HTTP/4A Offer and Answer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace h4a {

enum class EspSuite : std::uint8_t {
  kAesGcm128 = 1,  // RFC 4106, 16-byte key + 4-byte salt, 16-byte ICV
  kAesGcm256 = 2,  // RFC 4106, 32-byte key + 4-byte salt, 16-byte ICV
};

/// Key and salt together, the largest of all suites.
inline constexpr std::size_t kEspKeyMaterialMax = 36;

/// Bytes of key and salt for `suite`, 0 if it is none of ours.
[[nodiscard]] constexpr std::size_t key_material_size(EspSuite suite) noexcept {
  switch (suite) {
    case EspSuite::kAesGcm128:
      return 20;
    case EspSuite::kAesGcm256:
      return 36;
  }
  return 0;
}

}  // namespace h4a
