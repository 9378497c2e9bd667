#include "packet/frame_pool.h"

namespace h4a::packet {

HeapFramePool::HeapFramePool(std::size_t count, std::size_t buffer_bytes)
    : buffer_bytes_(buffer_bytes),
      memory_(std::make_unique_for_overwrite<std::uint8_t[]>(count * buffer_bytes)),
      frames_(count) {
  free_.reserve(count);
  for (std::size_t i = count; i > 0; --i) {
    frames_[i - 1].init(memory_.get() + (i - 1) * buffer_bytes_,
                        static_cast<std::uint32_t>(buffer_bytes_));
    free_.push_back(&frames_[i - 1]);
  }
}

std::size_t HeapFramePool::allocate(std::span<Frame*> out) noexcept {
  std::size_t n = 0;
  for (; n < out.size() && !free_.empty(); ++n) {
    out[n] = free_.back();
    free_.pop_back();
    out[n]->reset(kFrameHeadroomBytes);
  }
  return n;
}

void HeapFramePool::release(std::span<Frame* const> frames) noexcept {
  for (Frame* f : frames) {
    H4A_ASSERT(f >= frames_.data() && f < frames_.data() + frames_.size());
    H4A_ASSERT(free_.size() < frames_.size());  // a frame was released twice
    free_.push_back(f);                         // never grows: reserved at start
  }
}

}  // namespace h4a::packet
