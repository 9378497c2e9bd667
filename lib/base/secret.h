// Key material: wiped when it goes, moved but never copied, and without a way to print it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/bytes.h"

namespace h4a {

/// Overwrites memory with zeros in a way the compiler may not remove.
void wipe(void* p, std::size_t n) noexcept;

/// Up to `N` secret bytes.
template <std::size_t N>
class Secret {
 public:
  static constexpr std::size_t kCapacity = N;
  Secret() noexcept = default;
  /// Copies `bytes` in; the source is the caller's to wipe. `bytes.size()` <= N.
  explicit Secret(Bytes bytes) noexcept : size_(bytes.size()) {
    H4A_ASSERT(size_ <= N);
    std::copy(bytes.begin(), bytes.end(), bytes_);
  }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  Secret(Secret&& other) noexcept : Secret(other.bytes()) { other.clear(); }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      clear();
      size_ = other.size_;
      std::copy_n(other.bytes_, size_, bytes_);
      other.clear();
    }
    return *this;
  }
  ~Secret() { clear(); }

  [[nodiscard]] Bytes bytes() const noexcept { return {bytes_, size_}; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Makes it `n` bytes long and lets the caller write them.
  [[nodiscard]] MutableBytes resize(std::size_t n) noexcept {
    H4A_ASSERT(n <= N);
    size_ = n;
    return {bytes_, size_};
  }
  /// A second copy, on purpose and by name.
  [[nodiscard]] Secret duplicate() const noexcept { return Secret(bytes()); }
  void clear() noexcept {
    wipe(bytes_, N);
    size_ = 0;
  }

 private:
  std::uint8_t bytes_[N] = {};
  std::size_t size_ = 0;
};

}  // namespace h4a
