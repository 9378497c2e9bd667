// Randomness is handed in. Keys, rkeys, QPNs, PSNs and SPIs come from a CSPRNG in production and from a
// seed in the simulator.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace h4a {

class Random {
 public:
  virtual ~Random() = default;
  /// Fills `out` with random bytes. Never fails: the system source aborts if the kernel has none.
  virtual void fill(MutableBytes out) noexcept = 0;

  [[nodiscard]] std::uint32_t u32() noexcept;
  [[nodiscard]] std::uint64_t u64() noexcept;
  /// Uniform in [0, n), without bias. `n` > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t n) noexcept;
};

/// The kernel's CSPRNG (getrandom(2)), buffered.
class SystemRandom final : public Random {
 public:
  ~SystemRandom() override;
  void fill(MutableBytes out) noexcept override;

 private:
  std::uint8_t buffer_[256] = {};
  std::size_t used_ = sizeof(buffer_);
};

/// Repeatable, NOT secret: xoshiro256** from one seed. For the simulator, fault injection and tests.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) noexcept;
  void fill(MutableBytes out) noexcept override;

 private:
  std::uint64_t next() noexcept;
  std::uint64_t state_[4];
};

}  // namespace h4a
