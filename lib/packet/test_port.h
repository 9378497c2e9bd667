// TestPort: a port of two queues in memory, for the tests of middleware.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "packet/port.h"

namespace h4a::packet::test {

class TestPort final : public Port {
 public:
  explicit TestPort(std::size_t frames) : pool_(frames, 2048) {}
  ~TestPort() override {
    for (Frame* f : waiting_) pool_.release_one(f);
  }

  /// Puts a frame of these bytes where receive() will find it.
  void deliver(Bytes bytes) {
    Frame* f = pool_.allocate_one();
    H4A_ASSERT(f != nullptr);
    std::memcpy(f->append(bytes.size()), bytes.data(), bytes.size());
    waiting_.push_back(f);
  }
  [[nodiscard]] std::size_t receive(std::span<Frame*> out) noexcept override {
    const std::size_t n = std::min(out.size(), waiting_.size());
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = waiting_.front();
      waiting_.pop_front();
    }
    return n;
  }
  [[nodiscard]] std::size_t transmit(std::span<Frame* const> frames) noexcept override {
    const std::size_t n = std::min(frames.size(), takes);
    for (Frame* f : frames.first(n)) {
      sent.emplace_back(f->bytes().begin(), f->bytes().end());
      std::memset(f->data(), 0xdd, f->size());  // whoever reads it later sees that it is gone
      pool_.release_one(f);
    }
    takes -= n;
    return n;
  }
  [[nodiscard]] FramePool& pool() noexcept override { return pool_; }
  [[nodiscard]] MacAddress mac() const noexcept override { return MacAddress({2, 0, 0, 0, 0, 1}); }
  [[nodiscard]] std::uint16_t mtu() const noexcept override { return 1500; }
  [[nodiscard]] const PortCounters& counters() const noexcept override { return counters_; }

  std::vector<std::vector<std::uint8_t>> sent;
  std::size_t takes = SIZE_MAX;  // frames that transmit() will still take

 private:
  HeapFramePool pool_;
  std::deque<Frame*> waiting_;
  PortCounters counters_;
};

}  // namespace h4a::packet::test
