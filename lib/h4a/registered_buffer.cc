#include "h4a/registered_buffer.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace h4a::http {

namespace {
constexpr std::size_t kPageBytes = 4096;
}

Result<RegisteredBuffer> RegisteredBuffer::create(verbs::Device& device, verbs::PdId pd,
                                                  std::size_t bytes, verbs::Access access,
                                                  AssociationId association) noexcept {
  if (bytes == 0 || bytes > SIZE_MAX - kPageBytes) return failure(Error::kInvalidArgument);
  const std::size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* const memory = std::aligned_alloc(kPageBytes, rounded);
  if (memory == nullptr) return failure(Error::kNoMemory);
  std::memset(memory, 0, rounded);
  const auto region = device.register_memory(pd, memory, bytes, access, association);
  if (!region) {
    std::free(memory);
    return failure(region.error());
  }
  RegisteredBuffer out;
  out.device_ = &device;
  out.data_ = static_cast<std::uint8_t*>(memory);
  out.size_ = bytes;
  out.region_ = *region;
  return out;
}

RegisteredBuffer::RegisteredBuffer(RegisteredBuffer&& other) noexcept {
  *this = std::move(other);
}

RegisteredBuffer& RegisteredBuffer::operator=(RegisteredBuffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    region_ = other.region_;
  }
  return *this;
}

RegisteredBuffer::~RegisteredBuffer() {
  release();
}

void RegisteredBuffer::release() noexcept {
  if (data_ == nullptr) return;
  // A region that is still in use is a bug of the owner; leaking the memory keeps it from harm.
  if (device_->deregister_memory(region_.id)) std::free(data_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace h4a::http
