#include "drivers_glue/dpdk/mbuf_pool.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <new>

#include "drivers_glue/dpdk/mbuf.h"

namespace h4a::dpdk {
namespace {

/// Frames that a thread keeps aside, to spare the shared ring. Small pools keep fewer.
unsigned cache_size(std::size_t count) noexcept {
  return count >= 2048 ? 256U : count >= 256 ? 32U : 0U;
}

void make_frame(rte_mempool*, void*, void* object, unsigned) {
  auto* m = static_cast<rte_mbuf*>(object);
  new (rte_mbuf_to_priv(m)) packet::Frame;
  to_frame(m)->init(static_cast<std::uint8_t*>(m->buf_addr), m->buf_len);
}

}  // namespace

Result<std::shared_ptr<MbufPool>> MbufPool::create(std::size_t count, std::size_t data_room_bytes,
                                                   std::string& error) {
  static std::atomic<unsigned> serial{0};
  const std::string name = fmt::format("h4a_frames_{}", serial++);
  rte_mempool* pool = rte_pktmbuf_pool_create(
      name.c_str(), static_cast<unsigned>(count), cache_size(count),
      static_cast<std::uint16_t>(kPrivateBytes),
      static_cast<std::uint16_t>(data_room_bytes + kFrameHeadroomBytes), SOCKET_ID_ANY);
  if (pool == nullptr) {
    const std::size_t megabytes = (count * (data_room_bytes + mbuf_overhead_bytes()) >> 20) + 1;
    error = fmt::format("no memory for {} frames ({} MB): lower frames=N or give DPDK more memory",
                        count, megabytes);
    return failure(Error::kNoMemory);
  }
  rte_mempool_obj_iter(pool, make_frame, nullptr);
  return std::make_shared<MbufPool>(pool);
}

MbufPool::~MbufPool() {
  rte_mempool_free(pool_);
}

std::size_t MbufPool::allocate(std::span<packet::Frame*> out) noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    rte_mbuf* mbufs[kBurstMax];
    std::size_t n = std::min(out.size() - done, kBurstMax);
    // All or nothing: near the end of the pool, ask for what is left, one at a time.
    if (rte_pktmbuf_alloc_bulk(pool_, mbufs, static_cast<unsigned>(n)) != 0) {
      mbufs[0] = rte_pktmbuf_alloc(pool_);
      if (mbufs[0] == nullptr) break;
      n = 1;
    }
    for (std::size_t i = 0; i < n; ++i) {
      out[done] = to_frame(mbufs[i]);
      out[done++]->reset(kFrameHeadroomBytes);
    }
  }
  return done;
}

void MbufPool::release(std::span<packet::Frame* const> frames) noexcept {
  rte_mbuf* mbufs[kBurstMax];
  while (!frames.empty()) {
    const std::size_t n = std::min(frames.size(), kBurstMax);
    for (std::size_t i = 0; i < n; ++i) mbufs[i] = to_mbuf(frames[i]);
    rte_pktmbuf_free_bulk(mbufs, static_cast<unsigned>(n));
    frames = frames.subspan(n);
  }
}

std::size_t MbufPool::available() const noexcept {
  return rte_mempool_avail_count(pool_);
}

std::size_t MbufPool::count() const noexcept {
  return pool_->size;
}

std::size_t mbuf_overhead_bytes() noexcept {
  return RTE_CACHE_LINE_ROUNDUP(sizeof(rte_mempool_objhdr)) + sizeof(rte_mbuf) + kPrivateBytes +
         kFrameHeadroomBytes;
}

}  // namespace h4a::dpdk
