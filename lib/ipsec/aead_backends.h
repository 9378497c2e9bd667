// What aead.cc and the back ends share; nobody else includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ipsec/aead.h"

namespace h4a::ipsec {

/// True if the first `n` bytes (at most 16) are equal; takes the same time wherever they differ.
[[nodiscard]] inline bool tags_equal(const std::uint8_t* a, const std::uint8_t* b,
                                     std::size_t n) noexcept {
  std::uint8_t difference = 0;
  for (std::size_t i = 0; i < n; ++i)
    difference = static_cast<std::uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

// Sizes were checked by make_aes_gcm. nullptr: this CPU or library cannot, or no memory.
[[nodiscard]] bool ipsec_mb_supports(AeadBackend backend) noexcept;
[[nodiscard]] std::unique_ptr<Aead> make_ipsec_mb_gcm(Bytes key, Bytes salt, std::size_t tag_size,
                                                      AeadBackend backend);
[[nodiscard]] std::unique_ptr<Aead> make_openssl_gcm(Bytes key, Bytes salt, std::size_t tag_size);

}  // namespace h4a::ipsec
