// AES-GCM by OpenSSL 3: for CPUs without AES-NI, and the reference for the fast back end.
//
// Keys are expanded once into two contexts; a packet then sets the IV only. OpenSSL wipes a
// context's key schedule when it frees it.
#include <array>
#include <cstring>
#include <new>
#include <openssl/evp.h>

#include "base/assert.h"
#include "base/secret.h"
#include "ipsec/aead_backends.h"

namespace h4a::ipsec {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* c) const noexcept { EVP_CIPHER_CTX_free(c); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

const EVP_CIPHER* cipher_of(std::size_t key_size) noexcept {
  switch (key_size) {
    case 16:
      return EVP_aes_128_gcm();
    case 24:
      return EVP_aes_192_gcm();
    default:
      return EVP_aes_256_gcm();
  }
}

/// nullptr if OpenSSL has no memory.
Context make_context(Bytes key, bool encrypt) noexcept {
  Context context(EVP_CIPHER_CTX_new());
  if (context != nullptr && EVP_CipherInit_ex(context.get(), cipher_of(key.size()), nullptr,
                                              key.data(), nullptr, encrypt ? 1 : 0) != 1)
    context.reset();
  return context;
}

/// Feeds `n` bytes; `out` nullptr means additional data. Frames are far below INT_MAX.
bool feed(EVP_CIPHER_CTX* context, std::uint8_t* out, const std::uint8_t* in,
          std::size_t n) noexcept {
  int written = 0;
  return n == 0 || EVP_CipherUpdate(context, out, &written, in, static_cast<int>(n)) == 1;
}

class OpenSslGcm final : public Aead {
 public:
  OpenSslGcm(Context sealer, Context opener, Bytes salt, std::size_t tag_size) noexcept
      : Aead(tag_size), sealer_(std::move(sealer)), opener_(std::move(opener)) {
    std::memcpy(nonce_.data(), salt.data(), kAeadSaltSize);
  }
  ~OpenSslGcm() override { wipe(nonce_.data(), nonce_.size()); }

  void seal(std::span<SealJob> jobs) noexcept override {
    // Nothing in sealing depends on what a peer sends, so a failure is a bug of ours; going on
    // would send plaintext.
    for (const SealJob& job : jobs) H4A_ASSERT(seal_one(job));
  }

  void open(std::span<OpenJob> jobs) noexcept override {
    for (OpenJob& job : jobs) {
      job.authentic = open_one(job);
      if (!job.authentic) wipe(job.data, job.size);
    }
  }

 private:
  bool begin(EVP_CIPHER_CTX* context, const std::uint8_t* iv, const std::uint8_t* aad,
             std::size_t aad_size) noexcept {
    std::memcpy(nonce_.data() + kAeadSaltSize, iv, kAeadIvSize);
    return EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce_.data(), -1) == 1 &&
           feed(context, nullptr, aad, aad_size);
  }

  bool seal_one(const SealJob& job) noexcept {
    EVP_CIPHER_CTX* context = sealer_.get();
    if (!begin(context, job.iv, job.aad.data(), job.aad_size)) return false;
    std::uint8_t* out = job.out;
    for (std::size_t i = 0; i < job.segment_count; ++i) {
      if (!feed(context, out, job.segments[i].data, job.segments[i].size)) return false;
      out += job.segments[i].size;
    }
    std::array<std::uint8_t, 16> none;
    int written = 0;
    return EVP_CipherFinal_ex(context, none.data(), &written) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag_size()),
                               job.tag) == 1;
  }

  bool open_one(OpenJob& job) noexcept {
    EVP_CIPHER_CTX* context = opener_.get();
    std::array<std::uint8_t, 16> tag{};
    std::memcpy(tag.data(), job.tag, tag_size());
    std::array<std::uint8_t, 16> none;
    int written = 0;
    return begin(context, job.iv, job.aad.data(), job.aad_size) &&
           feed(context, job.data, job.data, job.size) &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag_size()),
                               tag.data()) == 1 &&
           EVP_CipherFinal_ex(context, none.data(), &written) == 1;
  }

  Context sealer_;
  Context opener_;
  std::array<std::uint8_t, kAeadSaltSize + kAeadIvSize> nonce_{};
};

}  // namespace

std::unique_ptr<Aead> make_openssl_gcm(Bytes key, Bytes salt, std::size_t tag_size) {
  Context sealer = make_context(key, true);
  Context opener = make_context(key, false);
  if (sealer == nullptr || opener == nullptr) return nullptr;
  return std::unique_ptr<Aead>(
      new (std::nothrow) OpenSslGcm(std::move(sealer), std::move(opener), salt, tag_size));
}

}  // namespace h4a::ipsec
