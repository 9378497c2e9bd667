// AES-GCM by intel-ipsec-mb: the only file of this folder that knows its header.
//
// Opening is one call a packet, in place. Sealing has two forms, chosen by size. Small: gather the
// segments in the output, then one call in place. Large: encrypt each large segment straight from
// where it lies into the output, so that encryption is the copy; small segments and the odd bytes
// at either end of a large one are gathered in the output and encrypted in place. Every streaming
// call but the last is then a whole number of blocks, which spares the library its partial-block
// path.
//
// Measured (Xeon 2.8 GHz with VAES, AES-128, 36 header bytes, payload cold in a 64 MiB region),
// cycles a packet, gather / stream / stream with partial blocks: 64 B 169 / 390 / 398 · 256 B 230 /
// 430 / 423 · 1024 B 582 / 669 / 663 · 4096 B 2648 / 2404 / 2508 · 8192 B 4650 / 3857 / 3780. Hence
// kStreamMin.
#include <array>
#include <cstring>
#include <new>

#include <intel-ipsec-mb.h>

#include "base/assert.h"
#include "base/secret.h"
#include "ipsec/aead_backends.h"

namespace h4a::ipsec {
namespace {

/// Segments shorter than this are gathered, not streamed.
constexpr std::size_t kStreamMin = 1536;
constexpr std::size_t kBlock = 16;

/// The library's entry points for one key size and one instruction set.
struct GcmFunctions {
  aes_gcm_pre_t expand_key = nullptr;
  aes_gcm_enc_dec_t encrypt = nullptr;
  aes_gcm_enc_dec_t decrypt = nullptr;
  aes_gcm_init_t init = nullptr;
  aes_gcm_enc_dec_update_t update = nullptr;
  aes_gcm_enc_dec_finalize_t finalize = nullptr;
};

struct InstructionSet {
  bool supported = false;
  std::array<GcmFunctions, 3> by_key_size{};  // 16, 24, 32 bytes
};

/// Asks the library once. A manager is 100 KiB of multi-buffer state that GCM never uses, so only
/// the addresses of its functions are kept. Extensions the CPU lacks are not called: `needs` are
/// checked first.
InstructionSet load(std::uint64_t needs, void (*init)(IMB_MGR*)) noexcept {
  InstructionSet set;
  IMB_MGR* m = alloc_mb_mgr(0);
  if (m == nullptr) return set;
  if ((m->features & needs) == needs) {
    init(m);
    set.supported = imb_get_errno(m) == 0;
    set.by_key_size = {{{m->gcm128_pre, m->gcm128_enc, m->gcm128_dec, m->gcm128_init,
                         m->gcm128_enc_update, m->gcm128_enc_finalize},
                        {m->gcm192_pre, m->gcm192_enc, m->gcm192_dec, m->gcm192_init,
                         m->gcm192_enc_update, m->gcm192_enc_finalize},
                        {m->gcm256_pre, m->gcm256_enc, m->gcm256_dec, m->gcm256_init,
                         m->gcm256_enc_update, m->gcm256_enc_finalize}}};
  }
  free_mb_mgr(m);
  return set;
}

/// Constant after the first call, which C++ makes safe against races.
const InstructionSet& instruction_set(AeadBackend backend) noexcept {
  static const InstructionSet none;
  static const InstructionSet sse = load(IMB_CPUFLAGS_SSE, init_mb_mgr_sse);
  static const InstructionSet avx = load(IMB_CPUFLAGS_AVX, init_mb_mgr_avx);
  static const InstructionSet avx2 = load(IMB_CPUFLAGS_AVX2, init_mb_mgr_avx2);
  static const InstructionSet avx512 = load(IMB_CPUFLAGS_AVX512, init_mb_mgr_avx512);
  switch (backend) {
    case AeadBackend::kIpsecMbSse:
      return sse;
    case AeadBackend::kIpsecMbAvx:
      return avx;
    case AeadBackend::kIpsecMbAvx2:
      return avx2;
    case AeadBackend::kIpsecMbAvx512:
      return avx512;
    case AeadBackend::kAuto:
    case AeadBackend::kOpenSsl:
      break;
  }
  return none;
}

class IpsecMbGcm final : public Aead {
 public:
  IpsecMbGcm(const GcmFunctions& functions, Bytes key, Bytes salt, std::size_t tag_size) noexcept
      : Aead(tag_size), call_(functions) {
    salt_ = load_le<kAeadSaltSize>(salt.data());
    call_.expand_key(key.data(), &key_);
  }
  ~IpsecMbGcm() override {
    wipe(&key_, sizeof(key_));
    wipe(&context_, sizeof(context_));
    wipe(&salt_, sizeof(salt_));
    wipe(nonce_.data(), nonce_.size());
  }

  void seal(std::span<SealJob> jobs) noexcept override {
    for (const SealJob& job : jobs) seal_one(job);
  }

  void open(std::span<OpenJob> jobs) noexcept override {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (i + 1 < jobs.size()) prefetch(jobs[i + 1]);
      open_one(jobs[i]);
    }
  }

 private:
  /// The first lines only; the CPU's own prefetcher sees the rest coming.
  static void prefetch(const OpenJob& job) noexcept {
    for (std::size_t offset = 0; offset < 256 && offset < job.size; offset += 64)
      __builtin_prefetch(job.data + offset, 1);
    __builtin_prefetch(job.tag);
  }

  /// Writes salt and IV with one store of 16 bytes. The library reads the nonce at once and in wider pieces
  /// than 4 or 8 bytes; from two stores it could not be forwarded, and the read would wait until every
  /// store before them, of payload to cold memory, has left the core: 100 to 250 cycles a packet.
  void set_iv(const std::uint8_t* iv) noexcept {
    std::uint64_t e;
    std::memcpy(&e, iv, sizeof(e));
    using Block = std::uint64_t __attribute__((vector_size(kBlock)));  // x86: least byte first
    const Block block = {salt_ | e << 32, e >> 32};
    std::memcpy(nonce_.data(), &block, sizeof(block));
  }

  void open_one(OpenJob& job) noexcept {
    set_iv(job.iv);
    std::array<std::uint8_t, kBlock> tag;
    call_.decrypt(&key_, &context_, job.data, job.data, job.size, nonce_.data(), job.aad.data(),
                  job.aad_size, tag.data(), tag_size());
    job.authentic = tags_equal(tag.data(), job.tag, tag_size());
    if (!job.authentic) wipe(job.data, job.size);
  }

  void seal_one(const SealJob& job) noexcept {
    set_iv(job.iv);
    for (std::size_t i = 0; i < job.segment_count; ++i)
      if (job.segments[i].size >= kStreamMin) return stream(job);
    const std::size_t size = gather(job);
    call_.encrypt(&key_, &context_, job.out, job.out, size, nonce_.data(), job.aad.data(),
                  job.aad_size, job.tag, tag_size());
  }

  /// Copies the segments that do not lie in the output yet. @return bytes of all.
  static std::size_t gather(const SealJob& job) noexcept {
    std::size_t size = 0;
    for (std::size_t i = 0; i < job.segment_count; ++i) {
      const auto& segment = job.segments[i];
      place(job.out + size, segment.data, segment.size);
      size += segment.size;
    }
    return size;
  }

  static void place(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
    if (n > 0 && to != from) std::memcpy(to, from, n);
  }

  void stream(const SealJob& job) noexcept {
    call_.init(&key_, &context_, nonce_.data(), job.aad.data(), job.aad_size);
    std::uint8_t* out = job.out;  // everything before it is ciphertext
    std::size_t gathered = 0;     // plaintext bytes that lie at `out`
    for (std::size_t i = 0; i < job.segment_count; ++i) {
      const std::uint8_t* data = job.segments[i].data;
      std::size_t size = job.segments[i].size;
      if (size >= kStreamMin && data != out + gathered) {
        const std::size_t fill = (kBlock - gathered % kBlock) % kBlock;
        place(out + gathered, data, fill);
        out = update(out, out, gathered + fill);
        data += fill;
        const std::size_t bulk = (size - fill) / kBlock * kBlock;
        out = update(out, data, bulk);
        data += bulk;
        size -= fill + bulk;
        gathered = 0;
      }
      place(out + gathered, data, size);
      gathered += size;
    }
    update(out, out, gathered);
    call_.finalize(&key_, &context_, job.tag, tag_size());
  }

  std::uint8_t* update(std::uint8_t* out, const std::uint8_t* in, std::size_t n) noexcept {
    if (n > 0) call_.update(&key_, &context_, out, in, n);
    return out + n;
  }

  // The library's header aligns its structures only where a macro of its own build is set.
  alignas(64) gcm_key_data key_;
  alignas(64) gcm_context_data context_{};
  GcmFunctions call_;
  std::uint64_t salt_;
  alignas(kBlock) std::array<std::uint8_t, kBlock> nonce_{};  // 12 bytes, the rest unused
};

}  // namespace

bool ipsec_mb_supports(AeadBackend backend) noexcept {
  return instruction_set(backend).supported;
}

std::unique_ptr<Aead> make_ipsec_mb_gcm(Bytes key, Bytes salt, std::size_t tag_size,
                                        AeadBackend backend) {
  const InstructionSet& set = instruction_set(backend);
  const GcmFunctions& functions = set.by_key_size[key.size() / 8 - 2];
  return std::unique_ptr<Aead>(new (std::nothrow) IpsecMbGcm(functions, key, salt, tag_size));
}

}  // namespace h4a::ipsec
