// HostMemory: the memory of a played host that its peer reached, under keys of ours.
//
// The peer's packets name addresses and keys of the recorded host. Each key becomes a region, or a window
// if the peer invalidated it, over memory that is mapped but not touched: only what packets reach costs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "apps/replay_as_facts.h"
#include "base/bytes.h"
#include "roce/engine.h"
#include "verbs/types.h"

namespace h4a::apps {

/// Zeroed pages that are not there before they are touched.
class SparseMemory {
 public:
  SparseMemory() = default;
  ~SparseMemory();
  SparseMemory(SparseMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SparseMemory& operator=(SparseMemory&&) = delete;
  [[nodiscard]] bool map(std::uint64_t size);
  [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }

 private:
  MutableBytes bytes_;
};

class HostMemory {
 public:
  /// Registers everything. @return false if a range is too long to map, or the engine has no room.
  [[nodiscard]] bool create(roce::Engine& engine, verbs::PdId pd, const Facts& facts);
  /// The work requests that bind the windows, to be posted first.
  [[nodiscard]] const std::vector<verbs::SendWr>& binds() const noexcept { return binds_; }

  /// Our key for a recorded one; one that nothing has if the capture shows no memory under it.
  [[nodiscard]] Rkey key(Rkey recorded) const noexcept;
  [[nodiscard]] std::uint64_t address(Rkey recorded, std::uint64_t recorded_address) const noexcept;

  /// The peer reads or changes `length` bytes, which held `content` then: what is not known to be there
  /// is put there. @return bytes that were known and differed, which `overwrite` replaces.
  std::uint64_t reveal(Rkey recorded, std::uint64_t recorded_address, Bytes content,
                       bool overwrite);
  /// The peer wrote there: from now on it is known.
  void note_written(Rkey recorded, std::uint64_t recorded_address, std::uint64_t length);

 private:
  struct Range {
    std::uint64_t begin = 0;  // as recorded
    SparseMemory memory;
    SparseMemory known;  // 1 for each byte that is
    Rkey rkey;
  };
  [[nodiscard]] bool add(roce::Engine& engine, verbs::PdId pd, std::uint32_t key,
                         const ReachedMemory& reached);
  [[nodiscard]] bool bind(roce::Engine& engine, verbs::PdId pd, const verbs::MemoryRegion& region,
                          Range& range);
  [[nodiscard]] Range* find(Rkey recorded, std::uint64_t address, std::uint64_t length) noexcept;

  std::map<std::uint32_t, Range> ranges_;  // by recorded key
  std::vector<verbs::SendWr> binds_;
};

}  // namespace h4a::apps
