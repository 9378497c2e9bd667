// The processor's time-stamp counter, for profiles and benchmarks. Never for protocol decisions.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace h4a {

/// Cycles of a constant-rate counter; differences within one core mean something. About 20 cycles.
[[nodiscard]] inline std::uint64_t read_cycles() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t v = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(v));
  return v;
#else
#error "no time-stamp counter known for this processor"
#endif
}

/// Adds the time since the last lap to one counter after the other.
class CycleLap {
 public:
  CycleLap() noexcept : last_(read_cycles()) {}
  void add_to(std::uint64_t& counter) noexcept {
    const std::uint64_t now = read_cycles();
    counter += now - last_;
    last_ = now;
  }

 private:
  std::uint64_t last_;
};

}  // namespace h4a
