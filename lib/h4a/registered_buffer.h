// RegisteredBuffer: page-aligned memory with its registration, for sinks and for bodies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "h4a/request.h"
#include "verbs/device.h"

namespace h4a::http {

/// Owns the memory and the region. Moves, never copies. Its device must outlive it.
class RegisteredBuffer {
 public:
  RegisteredBuffer() noexcept = default;
  /// @param access kLocalWrite | kWindowBind for a sink, kNone for a body that is only sent.
  /// @param association of the session whose peer will reach it through windows.
  /// @return kInvalidArgument for 0 bytes, kNoMemory, or what the device answers.
  [[nodiscard]] static Result<RegisteredBuffer> create(
      verbs::Device& device, verbs::PdId pd, std::size_t bytes,
      verbs::Access access = verbs::Access::kLocalWrite | verbs::Access::kWindowBind,
      AssociationId association = kClear) noexcept;
  RegisteredBuffer(RegisteredBuffer&& other) noexcept;
  RegisteredBuffer& operator=(RegisteredBuffer&& other) noexcept;
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;
  /// Deregisters. No window may be bound to it any more: wait for on_sink_released() first.
  ~RegisteredBuffer();

  [[nodiscard]] std::uint8_t* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] MutableBytes bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] Lkey lkey() const noexcept { return region_.lkey; }
  /// The first `length` bytes as a sink.
  [[nodiscard]] SinkBuffer sink(std::uint64_t length) const noexcept {
    return {data_, length < size_ ? length : size_, region_.id};
  }
  [[nodiscard]] SinkBuffer sink() const noexcept { return sink(size_); }

 private:
  void release() noexcept;

  verbs::Device* device_ = nullptr;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  verbs::MemoryRegion region_;
};

}  // namespace h4a::http
