// FramePool: where frames come from and go back to. All memory is taken at start.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "packet/frame.h"

namespace h4a::packet {

/// Thread: the owner of the stack, unless an implementation says more.
class FramePool {
 public:
  virtual ~FramePool() = default;
  /// Fills `out` from the front with empty frames, headroom kFrameHeadroomBytes. The caller owns them.
  /// @return how many: all or, when the pool runs dry, fewer. Callers drop with kNoFrames or wait.
  [[nodiscard]] virtual std::size_t allocate(std::span<Frame*> out) noexcept = 0;
  /// Takes all of `frames` back.
  virtual void release(std::span<Frame* const> frames) noexcept = 0;
  /// Frames that can still be allocated; exact when nothing is in flight in a port.
  [[nodiscard]] virtual std::size_t available() const noexcept = 0;

  [[nodiscard]] Frame* allocate_one() noexcept {
    Frame* f = nullptr;
    return allocate({&f, 1}) == 1 ? f : nullptr;
  }
  void release_one(Frame* f) noexcept { release({&f, 1}); }
};

/// Frames on the heap, for the simulator, tests, fuzzers and ports without DPDK.
class HeapFramePool final : public FramePool {
 public:
  explicit HeapFramePool(std::size_t count, std::size_t buffer_bytes = kFrameBufferBytes);
  [[nodiscard]] std::size_t allocate(std::span<Frame*> out) noexcept override;
  void release(std::span<Frame* const> frames) noexcept override;
  [[nodiscard]] std::size_t available() const noexcept override { return free_.size(); }
  [[nodiscard]] std::size_t count() const noexcept { return frames_.size(); }

 private:
  std::size_t buffer_bytes_;
  std::unique_ptr<std::uint8_t[]> memory_;
  std::vector<Frame> frames_;
  std::vector<Frame*> free_;
};

}  // namespace h4a::packet
