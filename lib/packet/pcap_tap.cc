// A frame belongs to the port below as soon as that takes it, and which ones it takes is known only
// afterwards: so a burst is copied first, and as many copies are recorded as frames were taken.
#include "packet/pcap_tap.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace h4a::packet {

PcapTap::PcapTap(Port& below, FrameRecorder& recorder, WallClock wall_now_ns)
    : below_(below),
      recorder_(recorder),
      wall_now_ns_(std::move(wall_now_ns)),
      copies_(std::make_unique<Copy[]>(kBurstMax)) {}

std::size_t PcapTap::receive(std::span<Frame*> out) noexcept {
  const std::size_t n = below_.receive(out);
  if (n == 0) {
    recorder_.flush();
    return 0;
  }
  const std::int64_t now = wall_now_ns_();
  for (const Frame* f : out.first(n)) recorder_.record(f->bytes(), now);
  return n;
}

std::size_t PcapTap::transmit(std::span<Frame* const> frames) noexcept {
  const auto burst = frames.first(std::min(frames.size(), kBurstMax));
  for (std::size_t i = 0; i < burst.size(); ++i) {
    copies_[i].size = std::min(burst[i]->size(), kFrameBufferBytes);
    std::memcpy(copies_[i].bytes, burst[i]->data(), copies_[i].size);
  }
  const std::size_t taken = below_.transmit(burst);
  if (taken == 0) return 0;
  const std::int64_t now = wall_now_ns_();
  for (std::size_t i = 0; i < taken; ++i)
    recorder_.record({copies_[i].bytes, copies_[i].size}, now);
  return taken;
}

}  // namespace h4a::packet
