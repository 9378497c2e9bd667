// HKDF is written out over one-shot HMAC: it is ten lines, and so the order of its inputs can be
// read here.
#include "h4a/key_schedule.h"

#include <algorithm>
#include <memory>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <string_view>

namespace h4a::bootstrap {
namespace {

struct FreeKey {
  void operator()(EVP_PKEY* k) const noexcept { EVP_PKEY_free(k); }
};
struct FreeContext {
  void operator()(EVP_PKEY_CTX* c) const noexcept { EVP_PKEY_CTX_free(c); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Context = std::unique_ptr<EVP_PKEY_CTX, FreeContext>;

Key load_private(const PrivateKey& key) noexcept {
  const Bytes b = key.bytes();
  return Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, b.data(), b.size()));
}

/// `out` has 32 bytes. `data` is what is authenticated.
bool hmac_sha256(Bytes key, Bytes data, std::uint8_t* out) noexcept {
  static const std::uint8_t kEmpty = 0;
  const std::uint8_t* k = key.empty() ? &kEmpty : key.data();
  unsigned length = 0;
  return HMAC(EVP_sha256(), k, static_cast<int>(key.size()), data.data(), data.size(), out,
              &length) != nullptr &&
         length == SHA256_DIGEST_LENGTH;
}

bool is_zero(Bytes b) noexcept {
  std::uint8_t any = 0;
  for (const std::uint8_t v : b) any |= v;  // no early exit: the time does not depend on the secret
  return any == 0;
}

}  // namespace

Result<KeyPair> make_key_pair(Random& random) noexcept {
  KeyPair pair;
  random.fill(pair.private_key.resize(32));
  const auto public_key = public_key_of(pair.private_key);
  if (!public_key) return failure(public_key.error());
  pair.public_key = *public_key;
  return pair;
}

Result<PublicKey> public_key_of(const PrivateKey& private_key) noexcept {
  if (private_key.size() != 32) return failure(Error::kInvalidArgument);
  const Key key = load_private(private_key);
  PublicKey out{};
  std::size_t n = out.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), out.data(), &n) != 1 || n != out.size())
    return failure(Error::kNoMemory);
  return out;
}

Result<SharedSecret> x25519(const PrivateKey& own, const PublicKey& peer) noexcept {
  if (own.size() != 32) return failure(Error::kInvalidArgument);
  const Key key = load_private(own);
  const Key other(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, peer.data(), peer.size()));
  if (!key || !other) return failure(Error::kNoMemory);
  const Context context(EVP_PKEY_CTX_new(key.get(), nullptr));
  if (!context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1)
    return failure(Error::kNoMemory);
  SharedSecret shared;
  std::size_t n = 32;
  // OpenSSL refuses an all-zero result by itself; the check below does not rely on that.
  if (EVP_PKEY_derive(context.get(), shared.resize(32).data(), &n) != 1 || n != 32 ||
      is_zero(shared.bytes()))
    return failure(Error::kAuthentication);
  return shared;
}

TranscriptHash transcript_hash(Bytes offer, Bytes answer) noexcept {
  TranscriptHash out{};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> md(EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free);
  bool ok = md != nullptr && EVP_DigestInit_ex(md.get(), EVP_sha256(), nullptr) == 1;
  for (const Bytes part : {offer, answer}) {
    std::uint8_t length[8];
    store_be<8>(length, part.size());
    ok = ok && EVP_DigestUpdate(md.get(), length, sizeof(length)) == 1 &&
         EVP_DigestUpdate(md.get(), part.data(), part.size()) == 1;
  }
  ok = ok && EVP_DigestFinal_ex(md.get(), out.data(), nullptr) == 1;
  H4A_ASSERT(
      ok);  // SHA-256 of memory fails only without memory or without a SHA-256 in the library
  return out;
}

Result<PseudoRandomKey> hkdf_extract(Bytes salt, Bytes ikm) noexcept {
  PseudoRandomKey prk;
  if (!hmac_sha256(salt, ikm, prk.resize(32).data())) return failure(Error::kNoMemory);
  return prk;
}

Result<void> hkdf_expand(Bytes prk, Bytes info, MutableBytes out) noexcept {
  constexpr std::size_t kHash = 32;
  constexpr std::size_t kInfoMax = 128;
  if (out.empty() || out.size() > 255 * kHash || info.size() > kInfoMax)
    return failure(Error::kInvalidArgument);
  Secret<kHash> block;                 // T(i), empty before the first
  Secret<kHash + kInfoMax + 1> input;  // T(i-1) ‖ info ‖ i
  for (std::uint8_t i = 1; !out.empty(); ++i) {
    const Bytes previous = block.bytes();
    const MutableBytes in = input.resize(previous.size() + info.size() + 1);
    auto end = std::copy(previous.begin(), previous.end(), in.begin());
    end = std::copy(info.begin(), info.end(), end);
    *end = i;
    if (!hmac_sha256(prk, in, block.resize(kHash).data())) return failure(Error::kNoMemory);
    const std::size_t n = std::min(out.size(), kHash);
    std::copy_n(block.bytes().begin(), n, out.begin());
    out = out.subspan(n);
  }
  return {};
}

Result<KeyMaterial> derive_esp_key(const PseudoRandomKey& prk, Direction direction, EspSuite suite,
                                   Spi spi, std::uint32_t epoch) noexcept {
  const std::size_t size = key_material_size(suite);
  if (size == 0) return failure(Error::kUnsupported);
  constexpr std::string_view kLabel = "h4a 1 esp ";
  std::array<std::uint8_t, kLabel.size() + 10> info{};
  std::copy(kLabel.begin(), kLabel.end(), info.begin());
  info[10] = static_cast<std::uint8_t>(direction);
  info[11] = static_cast<std::uint8_t>(suite);
  store_be<4>(&info[12], spi.value());
  store_be<4>(&info[16], epoch);
  KeyMaterial key;
  const auto done = hkdf_expand(prk.bytes(), info, key.resize(size));
  if (!done) return failure(done.error());
  return key;
}

}  // namespace h4a::bootstrap
