#include "base/random.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <sys/random.h>

#include "base/assert.h"
#include "base/secret.h"

namespace h4a {
namespace {

void fill_from_kernel(std::uint8_t* p, std::size_t n) noexcept {
  while (n > 0) {
    const ssize_t got = getrandom(p, n, 0);
    if (got < 0 && errno == EINTR) continue;
    H4A_ASSERT(got > 0);
    p += got;
    n -= static_cast<std::size_t>(got);
  }
}

std::uint64_t splitmix64(std::uint64_t& x) noexcept {
  std::uint64_t z = (x += 0x9e37'79b9'7f4a'7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return z ^ (z >> 31);
}

}  // namespace

std::uint32_t Random::u32() noexcept {
  std::uint8_t b[4];
  fill(b);
  return static_cast<std::uint32_t>(load_le<4>(b));
}

std::uint64_t Random::u64() noexcept {
  std::uint8_t b[8];
  fill(b);
  return load_le<8>(b);
}

std::uint64_t Random::below(std::uint64_t n) noexcept {
  H4A_ASSERT(n > 0);
  const std::uint64_t unbiased = UINT64_MAX - UINT64_MAX % n;
  std::uint64_t v = u64();
  while (v >= unbiased) v = u64();
  return v % n;
}

SystemRandom::~SystemRandom() {
  wipe(buffer_, sizeof(buffer_));
}

void SystemRandom::fill(MutableBytes out) noexcept {
  if (out.size() > sizeof(buffer_) / 2) return fill_from_kernel(out.data(), out.size());
  if (sizeof(buffer_) - used_ < out.size()) {
    fill_from_kernel(buffer_, sizeof(buffer_));
    used_ = 0;
  }
  std::copy_n(buffer_ + used_, out.size(), out.data());
  wipe(buffer_ + used_, out.size());
  used_ += out.size();
}

SeededRandom::SeededRandom(std::uint64_t seed) noexcept {
  for (auto& s : state_) s = splitmix64(seed);
}

std::uint64_t SeededRandom::next() noexcept {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

void SeededRandom::fill(MutableBytes out) noexcept {
  while (!out.empty()) {
    std::uint8_t b[8];
    store_le<8>(b, next());
    const std::size_t n = std::min<std::size_t>(out.size(), 8);
    std::copy_n(b, n, out.data());
    out = out.subspan(n);
  }
}

}  // namespace h4a
