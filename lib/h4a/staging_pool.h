// StagingPool: registered chunks that bodies are read into before they are written to the peer. All
// sessions of a server share one, which bounds what they hold together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "h4a/registered_buffer.h"

namespace h4a::http {

/// Longest body work request, so that priorities can act between them (DESIGN §7).
inline constexpr std::size_t kBodyChunkBytes = 256 * 1024;

class StagingPool {
 public:
  /// @param chunks of kBodyChunkBytes each, >= 1.
  [[nodiscard]] static Result<StagingPool> create(verbs::Device& device, verbs::PdId pd,
                                                  std::uint32_t chunks) noexcept;
  struct Chunk {
    std::uint32_t index = 0;
    MutableBytes bytes;
  };
  /// From now on, until it is called again, take() gives `reads` chunks at most: each means a read, and a
  /// cold disk stalls the thread for it. Until the first call there is no such bound.
  void begin_turn(std::uint32_t reads) noexcept { reads_left_ = reads; }
  /// @return kNoMemory when all are taken, kBusy when the turn's reads are used up.
  [[nodiscard]] Result<Chunk> take() noexcept;
  void give_back(std::uint32_t index) noexcept;
  [[nodiscard]] Lkey lkey() const noexcept { return memory_.lkey(); }
  [[nodiscard]] std::size_t available() const noexcept { return free_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.size() / kBodyChunkBytes; }

 private:
  RegisteredBuffer memory_;
  std::vector<std::uint32_t> free_;
  std::uint32_t reads_left_ = UINT32_MAX;
};

}  // namespace h4a::http
