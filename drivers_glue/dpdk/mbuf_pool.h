// MbufPool: frames in DPDK packet buffers. The Frame lives in the mbuf's private area, so that
// Frame and mbuf are one constant apart and changing from one to the other costs nothing.
//
// Layout of one element:  rte_mbuf | Frame | headroom 128 | 9216 bytes of data room
// The Frame is made once, with the pool. Buffers are contiguous; nothing here makes or takes
// chains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "packet/frame_pool.h"

struct rte_mempool;

namespace h4a::dpdk {

class MbufPool final : public packet::FramePool {
 public:
  /// Takes `count` frames of `data_room_bytes` behind the headroom from the EAL, which must be
  /// running.
  /// @return kNoMemory.
  [[nodiscard]] static Result<std::shared_ptr<MbufPool>> create(std::size_t count,
                                                                std::size_t data_room_bytes,
                                                                std::string& error);
  explicit MbufPool(rte_mempool* pool) noexcept : pool_(pool) {}
  MbufPool(const MbufPool&) = delete;
  MbufPool& operator=(const MbufPool&) = delete;
  /// All frames must be back.
  ~MbufPool() override;

  /// Thread: any, since DPDK's drivers share the pool with the stack.
  [[nodiscard]] std::size_t allocate(std::span<packet::Frame*> out) noexcept override;
  /// A frame of another MbufPool goes back to that one.
  void release(std::span<packet::Frame* const> frames) noexcept override;
  [[nodiscard]] std::size_t available() const noexcept override;

  [[nodiscard]] rte_mempool* mempool() noexcept { return pool_; }
  [[nodiscard]] std::size_t count() const noexcept;

 private:
  rte_mempool* pool_;
};

/// Bytes of one pool element beside its data room: headers, Frame and headroom. Drivers with a
/// limit on the whole element (AF_XDP: one page) make their data room that much smaller.
[[nodiscard]] std::size_t mbuf_overhead_bytes() noexcept;

}  // namespace h4a::dpdk
