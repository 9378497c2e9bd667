// Sealing, which makes the records authentic again for the next burst, is not timed.
#include "apps/bench_loops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/cycles.h"
#include "base/limits.h"
#include "base/time.h"
#include "ipsec/aead.h"
#include "net/icrc.h"

namespace h4a::apps {
namespace {

constexpr Duration kTime = Duration::ms(50);
constexpr std::size_t kBurstsMin = 5;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kRegionBytes = std::size_t{64} << 20;

/// A burst of buffers, the region, and where the next copy goes.
class Loops {
 public:
  explicit Loops(std::size_t record)
      : record_(record),
        stride_((record + 127) / 64 * 64),
        buffers_(kBurstMax * stride_),
        tags_(kBurstMax * kTagBytes),
        region_(kRegionBytes, 1) {
    const std::array<std::uint8_t, 16> key{1, 2, 3};
    const std::array<std::uint8_t, ipsec::kAeadSaltSize> salt{4};
    aead_ = std::move(ipsec::make_aes_gcm(key, salt).value());
  }

  /// The median burst, so that being interrupted does not count.
  template <class Timed>
  double measure(Timed timed) {
    std::vector<std::uint64_t> bursts;
    const Instant end = steady_now() + kTime;
    while (bursts.size() < kBurstsMin || steady_now() < end) {
      seal();
      const std::uint64_t begin = read_cycles();
      timed();
      bursts.push_back(read_cycles() - begin);
    }
    const auto middle = bursts.begin() + static_cast<std::ptrdiff_t>(bursts.size() / 2);
    std::nth_element(bursts.begin(), middle, bursts.end());
    return static_cast<double>(*middle) / static_cast<double>(kBurstMax);
  }

  void open() {
    std::array<ipsec::OpenJob, kBurstMax> jobs;
    for (std::size_t i = 0; i < kBurstMax; ++i)
      jobs[i] = {buffer(i), record_, &tags_[i * kTagBytes], ivs_[i].data(), {}, 12, false};
    aead_->open(jobs);
  }
  void copy() {
    for (std::size_t i = 0; i < kBurstMax; ++i) {
      if (at_ + record_ > region_.size()) at_ = 0;
      std::memcpy(&region_[at_], buffer(i), record_);
      at_ += (record_ + 63) / 64 * 64;
    }
  }
  void crc() {
    for (std::size_t i = 0; i < kBurstMax; ++i) sink_ = sink_ ^ net::crc32({buffer(i), record_});
  }

 private:
  [[nodiscard]] std::uint8_t* buffer(std::size_t i) noexcept { return &buffers_[i * stride_]; }

  void seal() {
    std::array<ipsec::SealJob, kBurstMax> jobs;
    for (std::size_t i = 0; i < kBurstMax; ++i) {
      store_be<8>(ivs_[i].data(), ++iv_);
      jobs[i].out = buffer(i);
      jobs[i].segment_count = 0;
      jobs[i].add_segment(buffer(i), record_);
      jobs[i].tag = &tags_[i * kTagBytes];
      jobs[i].iv = ivs_[i].data();
      jobs[i].aad = {};
      jobs[i].aad_size = 12;
    }
    aead_->seal(jobs);
  }

  std::size_t record_;
  std::size_t stride_;
  std::vector<std::uint8_t> buffers_;
  std::vector<std::uint8_t> tags_;
  std::vector<std::uint8_t> region_;
  std::array<std::array<std::uint8_t, ipsec::kAeadIvSize>, kBurstMax> ivs_{};
  std::unique_ptr<ipsec::Aead> aead_;
  std::uint64_t iv_ = 0;
  std::size_t at_ = 0;
  volatile std::uint32_t sink_ = 0;
};

}  // namespace

LoopCost BenchLoops::at(std::size_t record_bytes) {
  const auto known = by_size_.find(record_bytes);
  if (known != by_size_.end()) return known->second;
  Loops loops(record_bytes);
  LoopCost cost;
  cost.open = loops.measure([&] { loops.open(); });
  cost.crc = loops.measure([&] { loops.crc(); });
  cost.copy = loops.measure([&] { loops.copy(); });
  return by_size_[record_bytes] = cost;
}

}  // namespace h4a::apps
