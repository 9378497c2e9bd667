#include "ipsec/aead.h"

#include <new>

#include "base/assert.h"
#include "ipsec/aead_backends.h"

namespace h4a::ipsec {
namespace {

bool sizes_are_valid(Bytes key, Bytes salt, std::size_t tag_size) noexcept {
  const bool key_ok = key.size() == 16 || key.size() == 24 || key.size() == 32;
  const bool tag_ok = tag_size == 8 || tag_size == 12 || tag_size == 16;
  return key_ok && tag_ok && salt.size() == kAeadSaltSize;
}

}  // namespace

std::string_view to_string(AeadBackend backend) noexcept {
  switch (backend) {
    case AeadBackend::kAuto:
      return "auto";
    case AeadBackend::kIpsecMbSse:
      return "ipsec-mb sse";
    case AeadBackend::kIpsecMbAvx:
      return "ipsec-mb avx";
    case AeadBackend::kIpsecMbAvx2:
      return "ipsec-mb avx2";
    case AeadBackend::kIpsecMbAvx512:
      return "ipsec-mb avx512";
    case AeadBackend::kOpenSsl:
      return "openssl";
  }
  return "unknown";
}

bool is_supported(AeadBackend backend) noexcept {
  if (backend == AeadBackend::kAuto || backend == AeadBackend::kOpenSsl) return true;
  return ipsec_mb_supports(backend);
}

AeadBackend best_aead_backend() noexcept {
  for (const auto backend : {AeadBackend::kIpsecMbAvx512, AeadBackend::kIpsecMbAvx2,
                             AeadBackend::kIpsecMbAvx, AeadBackend::kIpsecMbSse})
    if (is_supported(backend)) return backend;
  return AeadBackend::kOpenSsl;
}

void SealJob::add_segment(const std::uint8_t* data, std::size_t size) noexcept {
  if (size == 0) return;
  H4A_ASSERT(segment_count < kSegmentsMax);
  segments[segment_count++] = {data, size};
}

Result<std::unique_ptr<Aead>> make_aes_gcm(Bytes key, Bytes salt, std::size_t tag_size,
                                           AeadBackend backend) {
  if (!sizes_are_valid(key, salt, tag_size)) return failure(Error::kInvalidArgument);
  if (!is_supported(backend)) return failure(Error::kUnsupported);
  if (backend == AeadBackend::kAuto) backend = best_aead_backend();
  auto aead = backend == AeadBackend::kOpenSsl ? make_openssl_gcm(key, salt, tag_size)
                                               : make_ipsec_mb_gcm(key, salt, tag_size, backend);
  if (aead == nullptr) return failure(Error::kNoMemory);
  return aead;
}

}  // namespace h4a::ipsec
