// What aead.cc and the back ends share; nobody else includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ipsec/aead.h"

namespace h4a::ipsec {

/// True if the first `n` bytes (8, 12 or 16) are equal; takes the same time wherever they differ.
[[nodiscard]] inline bool tags_equal(const std::uint8_t* a, const std::uint8_t* b,
                                     std::size_t n) noexcept {
  std::uint64_t difference = load_le<8>(a) ^ load_le<8>(b);
  if (n == 12) difference |= load_le<4>(a + 8) ^ load_le<4>(b + 8);
  if (n == 16) difference |= load_le<8>(a + 8) ^ load_le<8>(b + 8);
  return difference == 0;
}

// Sizes were checked by make_aes_gcm. nullptr: this CPU or library cannot, or no memory.
[[nodiscard]] bool ipsec_mb_supports(AeadBackend backend) noexcept;
[[nodiscard]] std::unique_ptr<Aead> make_ipsec_mb_gcm(Bytes key, Bytes salt, std::size_t tag_size,
                                                      AeadBackend backend);
[[nodiscard]] std::unique_ptr<Aead> make_openssl_gcm(Bytes key, Bytes salt, std::size_t tag_size);

}  // namespace h4a::ipsec
