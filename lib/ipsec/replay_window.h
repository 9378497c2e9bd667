// The anti-replay window, with no packets in it. Spec: RFC 4303 §3.4.3 and appendix A2; the ring of
// words is RFC 6479's.
//
// With `top` the highest number committed and W the size, s is new if top - W < s and it was not
// committed before. The bitmap is a ring of 64-bit words, a power of two and at least one word
// longer than W, so that moving forward clears whole words and never shifts.
//
// Use: check() before decryption, which is cheap and says nothing final; commit() once the ICV is
// good, which decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace h4a::ipsec {

enum class ReplayVerdict : std::uint8_t { kNew, kDuplicate, kTooOld };

class ReplayWindow {
 public:
  static constexpr std::uint32_t kSizeMin = 32;
  static constexpr std::uint32_t kSizeMax = std::uint32_t{1} << 20;

  /// @param size_packets kSizeMin..kSizeMax. @param top the highest number held to be received.
  /// Numbers up to `top` that lie in the window count as not received. Throws std::bad_alloc.
  explicit ReplayWindow(std::uint32_t size_packets, std::uint64_t top = 0);

  /// What commit(sequence) would say now.
  [[nodiscard]] ReplayVerdict check(std::uint64_t sequence) const noexcept;
  /// Takes note of `sequence` if it is new, and moves the window if it is ahead.
  /// Cost: one word for each 64 numbers moved, at most the whole ring.
  [[nodiscard]] ReplayVerdict commit(std::uint64_t sequence) noexcept;

  [[nodiscard]] std::uint64_t top() const noexcept { return top_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

 private:
  [[nodiscard]] std::uint64_t& word(std::uint64_t sequence) const noexcept {
    return words_[(sequence >> 6) & mask_];
  }
  [[nodiscard]] static std::uint64_t bit(std::uint64_t sequence) noexcept {
    return std::uint64_t{1} << (sequence & 63);
  }
  void move_to(std::uint64_t sequence) noexcept;

  std::uint64_t top_;
  std::uint32_t size_;
  std::uint64_t mask_;
  std::unique_ptr<std::uint64_t[]> words_;
};

/// The 64-bit number whose low half came in a packet. Spec: RFC 4303 appendix A2.1, A2.2.
/// @param top highest number committed; @param window the size in packets.
/// Below the first 2^32 nothing precedes, and above the last nothing follows: there the high half
/// stays.
[[nodiscard]] std::uint64_t infer_sequence(std::uint64_t top, std::uint32_t window,
                                           std::uint32_t low) noexcept;

}  // namespace h4a::ipsec
