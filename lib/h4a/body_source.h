// BodySource: where the bytes of a response come from.
//
// Two kinds: one that is read into the server's registered staging memory, piece by piece, and one that
// lies in registered memory already and is sent from there with no copy. Files are read, not mapped: a
// mapped file that someone truncates raises SIGBUS in whoever touches it (docs/adr/0003-bodies-are-read.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace h4a::http {

class BodySource {
 public:
  virtual ~BodySource() = default;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Copies `out.size()` bytes from `offset` on. Does not block for long.
  /// @return kIo or kTruncated if they are not all there (any more): the response becomes a 500.
  [[nodiscard]] virtual Result<void> read(std::uint64_t offset, MutableBytes out) noexcept = 0;

  struct Registered {
    const std::uint8_t* address = nullptr;
    Lkey lkey;
  };
  /// If the whole body lies in memory registered in the session's PD. It then stays there until release().
  [[nodiscard]] virtual std::optional<Registered> registered() const noexcept {
    return std::nullopt;
  }
  /// The session needs it no more: called exactly once, instead of delete.
  virtual void release() noexcept = 0;
};

struct BodyRelease {
  void operator()(BodySource* body) const noexcept { body->release(); }
};
/// Owns a body until the last byte was acknowledged.
using BodyPtr = std::unique_ptr<BodySource, BodyRelease>;

}  // namespace h4a::http
