#include "h4a/staging_pool.h"

#include <utility>

#include "base/assert.h"

namespace h4a::http {

Result<StagingPool> StagingPool::create(verbs::Device& device, verbs::PdId pd,
                                        std::uint32_t chunks) noexcept {
  auto memory = RegisteredBuffer::create(device, pd, std::size_t{chunks} * kBodyChunkBytes,
                                         verbs::Access::kNone);
  if (!memory) return failure(memory.error());
  StagingPool pool;
  pool.memory_ = std::move(*memory);
  pool.free_.reserve(chunks);
  for (std::uint32_t i = chunks; i > 0; --i) pool.free_.push_back(i - 1);
  return pool;
}

Result<StagingPool::Chunk> StagingPool::take() noexcept {
  if (free_.empty()) return failure(Error::kNoMemory);
  if (reads_left_ == 0) return failure(Error::kBusy);
  --reads_left_;
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return Chunk{index, memory_.bytes().subspan(index * kBodyChunkBytes, kBodyChunkBytes)};
}

void StagingPool::give_back(std::uint32_t index) noexcept {
  H4A_ASSERT(free_.size() < capacity());
  free_.push_back(index);
}

}  // namespace h4a::http
