#include "ipsec/aead.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "ipsec/esp_vectors.h"
#include "ipsec/test_bytes.h"

#include "test/test_support.h"

namespace {

/// Looks into every over-aligned block as it is given back: key schedules need 64-byte alignment.
struct Watch {
  std::vector<std::uint8_t> pattern;
  int found = 0;
} g_watch;

bool contains(const void* block, std::size_t size, const std::vector<std::uint8_t>& pattern) {
  const auto* p = static_cast<const std::uint8_t*>(block);
  return !pattern.empty() && std::search(p, p + size, pattern.begin(), pattern.end()) != p + size;
}

std::size_t g_aligned_size = 0;  // of the newest over-aligned block

void* allocate(std::size_t size, std::align_val_t alignment) noexcept {
  const auto a = static_cast<std::size_t>(alignment);
  g_aligned_size = size;
  return std::aligned_alloc(a, (size + a - 1) / a * a);
}

void release(void* p) noexcept {
  if (p != nullptr && contains(p, g_aligned_size, g_watch.pattern)) ++g_watch.found;
  std::free(p);
}

}  // namespace

void* operator new(std::size_t n, std::align_val_t a) {
  void* p = allocate(n, a);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, a);
}
void operator delete(void* p, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
  release(p);
}

namespace h4a::ipsec {
namespace {

using test::ByteVector;
using test::EspVector;
using test::from_hex;
using test::is_zero;
using test::kEspVectors;
using test::random_bytes;

constexpr std::size_t kEspHeader = 8;

std::vector<AeadBackend> backends() {
  std::vector<AeadBackend> list;
  for (const auto b :
       {AeadBackend::kIpsecMbSse, AeadBackend::kIpsecMbAvx, AeadBackend::kIpsecMbAvx2,
        AeadBackend::kIpsecMbAvx512, AeadBackend::kOpenSsl})
    if (is_supported(b))
      list.push_back(b);
    else
      print_message("# SKIP %s: not on this CPU\n", std::string(to_string(b)).c_str());
  return list;
}

std::unique_ptr<Aead> make(Bytes key, Bytes salt, AeadBackend backend, std::size_t tag_size = 16) {
  auto aead = make_aes_gcm(key, salt, tag_size, backend);
  assert_ok(aead);
  return std::move(*aead);
}

/// A packet's fixed parts: what travels beside the text.
struct Envelope {
  std::array<std::uint8_t, kAeadAadMax> aad{};
  std::size_t aad_size = 0;
  std::array<std::uint8_t, kAeadIvSize> iv{};
};

Envelope random_envelope(Random& random) {
  Envelope e;
  e.aad_size = random.below(2) == 0 ? 8 : 12;
  random.fill(e.aad);
  random.fill(e.iv);
  return e;
}

/// @return ciphertext and tag, sealed from one segment in place.
ByteVector seal(Aead& aead, const Envelope& e, ByteVector text) {
  const std::size_t n = text.size();
  text.resize(n + aead.tag_size());
  SealJob job{};
  job.out = text.data();
  job.add_segment(text.data(), n);
  job.tag = text.data() + n;
  job.iv = e.iv.data();
  job.aad = e.aad;
  job.aad_size = e.aad_size;
  aead.seal({&job, 1});
  return text;
}

/// Opens ciphertext and tag in `sealed`, in place; plaintext or zeros stand there afterwards.
bool open(Aead& aead, const Envelope& e, ByteVector& sealed) {
  OpenJob job{};
  job.data = sealed.data();
  job.size = sealed.size() - aead.tag_size();
  job.tag = sealed.data() + job.size;
  job.iv = e.iv.data();
  job.aad = e.aad;
  job.aad_size = e.aad_size;
  aead.open({&job, 1});
  return job.authentic;
}

Envelope envelope_of(const EspVector& v, const ByteVector& packet) {
  Envelope e;
  std::copy_n(packet.data() + kEspHeader, kAeadIvSize, e.iv.data());
  std::copy_n(packet.data(), 4, e.aad.data());
  std::uint8_t* low = e.aad.data() + 4;
  if (v.esn) {
    store_be<4>(low, v.sequence_high);
    low += 4;
  }
  std::copy_n(packet.data() + 4, 4, low);
  e.aad_size = v.esn ? 12 : 8;
  return e;
}

void published_packets_seal_and_open(void**) {
  for (const AeadBackend backend : backends()) {
    for (const EspVector& v : kEspVectors) {
      const ByteVector packet = from_hex(v.packet);
      const ByteVector plaintext = from_hex(v.plaintext);
      const Envelope e = envelope_of(v, packet);
      const ByteVector sealed(packet.begin() + kEspHeader + kAeadIvSize, packet.end());
      const auto aead = make(from_hex(v.key), from_hex(v.salt), backend);
      if (seal(*aead, e, plaintext) != sealed) fail_msg("%s: seal differs", v.id);
      ByteVector opened = sealed;
      if (!open(*aead, e, opened)) fail_msg("%s: not authentic", v.id);
      opened.resize(plaintext.size());
      if (opened != plaintext) fail_msg("%s: plaintext differs", v.id);
    }
  }
}

void published_packets_of_other_suites(void**) {
  for (const char* id : test::kEspVectorsOfOtherSuites)
    print_message("# SKIP %s: suite not built\n", id);
  for (const char* name :
       {"AES-GMAC", "ChaCha20-Poly1305", "AES-CBC-PKCS5", "HMAC-SHA1/256/384/512"})
    print_message("# SKIP Wycheproof %s: suite not built\n", name);
  for (const char* name : {"Wycheproof AES-GCM", "intel-ipsec-mb kat-app vectors"})
    print_message("# SKIP %s: the files are not part of the vector set\n", name);
  print_message("# SKIP ipsec_rules hmac-trunc: suite not built\n");
  skip();
}

void a_short_tag_is_the_front_of_the_long_one(void**) {
  SeededRandom random(28);
  const ByteVector key = random_bytes(random, 16);
  const ByteVector salt = random_bytes(random, 4);
  const ByteVector text = random_bytes(random, 100);
  const Envelope e = random_envelope(random);
  for (const AeadBackend backend : backends()) {
    const ByteVector full = seal(*make(key, salt, backend), e, text);
    for (const std::size_t n : {8U, 12U}) {
      const auto aead = make(key, salt, backend, n);
      ByteVector sealed = seal(*aead, e, text);
      assert_int_equal(sealed.size(), text.size() + n);
      assert_memory_equal(sealed.data(), full.data(), sealed.size());
      ByteVector as_long = sealed;
      assert_false(open(*make(key, salt, backend), e, as_long));
      assert_true(open(*aead, e, sealed));
      assert_memory_equal(sealed.data(), text.data(), text.size());
    }
  }
}

void sizes_that_rfc_4106_does_not_know_are_refused(void**) {
  const ByteVector b(64);
  const Bytes bytes(b);
  for (const std::size_t key : {0U, 8U, 15U, 17U, 31U, 33U, 64U})
    assert_error(make_aes_gcm(bytes.first(key), bytes.first(4)), Error::kInvalidArgument);
  for (const std::size_t salt : {0U, 3U, 8U})
    assert_error(make_aes_gcm(bytes.first(16), bytes.first(salt)), Error::kInvalidArgument);
  for (const std::size_t tag : {0U, 4U, 15U, 17U})
    assert_error(make_aes_gcm(bytes.first(16), bytes.first(4), tag), Error::kInvalidArgument);
}

void any_flipped_bit_is_caught_and_the_text_wiped(void**) {
  SeededRandom random(35);
  const ByteVector key = random_bytes(random, 32);
  const ByteVector salt = random_bytes(random, 4);
  const ByteVector text = random_bytes(random, 67);
  const Envelope e = random_envelope(random);
  for (const AeadBackend backend : backends()) {
    const auto aead = make(key, salt, backend);
    const ByteVector sealed = seal(*aead, e, text);
    for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
      ByteVector forged = sealed;
      forged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
      assert_false(open(*aead, e, forged));
      assert_true(is_zero(Bytes(forged).first(text.size())));
    }
    for (std::size_t bit = 0; bit < e.aad_size * 8; ++bit) {
      Envelope other = e;
      other.aad[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
      ByteVector copy = sealed;
      assert_false(open(*aead, other, copy));
    }
    Envelope other = e;
    other.iv[3] ^= 1;
    ByteVector copy = sealed;
    assert_false(open(*aead, other, copy));
  }
}

/// Cuts `text` at random: the front lies in the output already, then up to four foreign pieces,
/// then a tail in the output again.
ByteVector seal_in_segments(Aead& aead, const Envelope& e, const ByteVector& text, Random& random) {
  ByteVector out(text.size() + aead.tag_size(), 0xee);
  const std::size_t front = std::min<std::size_t>(text.size(), random.below(80));
  const std::size_t tail = std::min<std::size_t>(text.size() - front, random.below(20));
  std::vector<ByteVector> pieces;
  SealJob job{};
  job.out = out.data();
  std::copy_n(text.data(), front, out.data());
  job.add_segment(out.data(), front);
  std::size_t at = front;
  for (std::size_t left = kGatherMax; left > 0; --left) {
    const std::size_t rest = text.size() - tail - at;
    const std::size_t n = left == 1 ? rest : random.below(rest + 1);
    const std::size_t skew = random.below(64);
    pieces.emplace_back(skew + n);
    std::copy_n(text.data() + at, n, pieces.back().data() + skew);
    job.add_segment(pieces.back().data() + skew, n);
    at += n;
  }
  std::copy_n(text.data() + at, tail, out.data() + at);
  job.add_segment(out.data() + at, tail);
  job.tag = out.data() + text.size();
  job.iv = e.iv.data();
  job.aad = e.aad;
  job.aad_size = e.aad_size;
  aead.seal({&job, 1});
  return out;
}

void back_ends_agree_on_any_size_and_any_cut(void**) {
  SeededRandom random(1);
  for (const std::size_t key_size : {16U, 24U, 32U}) {
    const ByteVector key = random_bytes(random, key_size);
    const ByteVector salt = random_bytes(random, 4);
    const auto reference = make(key, salt, AeadBackend::kOpenSsl);
    for (const AeadBackend backend : backends()) {
      const auto aead = make(key, salt, backend);
      for (int i = 0; i < 300; ++i) {
        const std::size_t n = i < 140 ? static_cast<std::size_t>(i) : random.below(9001);
        const ByteVector text = random_bytes(random, n);
        const Envelope e = random_envelope(random);
        const ByteVector expected = seal(*reference, e, text);
        if (seal(*aead, e, text) != expected) fail_msg("one segment, %zu bytes", n);
        if (seal_in_segments(*aead, e, text, random) != expected) fail_msg("cut, %zu bytes", n);
        ByteVector opened = expected;
        if (!open(*aead, e, opened)) fail_msg("not authentic, %zu bytes", n);
        assert_memory_equal(opened.data(), text.data(), n);
      }
    }
  }
}

void a_burst_opens_each_job_for_itself(void**) {
  SeededRandom random(64);
  const ByteVector key = random_bytes(random, 16);
  const ByteVector salt = random_bytes(random, 4);
  for (const AeadBackend backend : backends()) {
    const auto aead = make(key, salt, backend);
    std::vector<ByteVector> packets;
    std::vector<Envelope> envelopes;
    std::vector<OpenJob> jobs(kBurstMax);
    for (std::size_t i = 0; i < kBurstMax; ++i) {
      envelopes.push_back(random_envelope(random));
      packets.push_back(seal(*aead, envelopes[i], random_bytes(random, random.below(500))));
      if (i % 3 == 0) packets[i].back() ^= 0x80;
    }
    for (std::size_t i = 0; i < kBurstMax; ++i) {
      const std::size_t n = packets[i].size() - 16;
      jobs[i] = {packets[i].data(),
                 n,
                 packets[i].data() + n,
                 envelopes[i].iv.data(),
                 envelopes[i].aad,
                 envelopes[i].aad_size,
                 false};
    }
    aead->open(jobs);
    for (std::size_t i = 0; i < kBurstMax; ++i) assert_eq(jobs[i].authentic, i % 3 != 0);
  }
}

/// The first round key of AES-128 is the key itself, so a schedule that was not wiped contains it.
void destruction_wipes_the_key_schedule(void**) {
  SeededRandom random(3);
  const ByteVector key = random_bytes(random, 16);
  const ByteVector salt = random_bytes(random, 4);
  for (const AeadBackend backend : backends()) {
    if (backend == AeadBackend::kOpenSsl) continue;  // OpenSSL's own allocation, which it cleanses
    auto aead = make(key, salt, backend);
    assert_true(contains(aead.get(), g_aligned_size, key));
    g_watch = {key, 0};
    aead.reset();
    assert_int_equal(g_watch.found, 0);
    g_watch = {};
  }
}

}  // namespace
}  // namespace h4a::ipsec

int main() {
  using namespace h4a::ipsec;
  const CMUnitTest tests[] = {
      cmocka_unit_test(published_packets_seal_and_open),
      cmocka_unit_test(published_packets_of_other_suites),
      cmocka_unit_test(a_short_tag_is_the_front_of_the_long_one),
      cmocka_unit_test(sizes_that_rfc_4106_does_not_know_are_refused),
      cmocka_unit_test(any_flipped_bit_is_caught_and_the_text_wiped),
      cmocka_unit_test(back_ends_agree_on_any_size_and_any_cut),
      cmocka_unit_test(a_burst_opens_each_job_for_itself),
      cmocka_unit_test(destruction_wipes_the_key_schedule),
  };
  return cmocka_run_group_tests_name("aead", tests, nullptr, nullptr);
}
