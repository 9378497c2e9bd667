#include "sim/link.h"

#include <algorithm>
#include <cstring>

namespace h4a::sim {

class Link::End final : public packet::Port {
 public:
  End(Link& link, std::size_t index, std::size_t frames)
      : link_(link), index_(index), frame_count_(frames), pool_(frames) {}

  std::size_t receive(std::span<packet::Frame*> out) noexcept override {
    auto& queue = link_.in_flight_[index_];
    std::size_t n = 0;
    while (n < out.size() && !queue.empty() && queue.begin()->first <= link_.now_) {
      packet::Frame* f = pool_.allocate_one();
      if (f == nullptr) break;
      const Packet& p = queue.begin()->second;
      std::memcpy(f->append(p.size()), p.data(), p.size());
      queue.erase(queue.begin());
      ++counters_.rx_frames;
      counters_.rx_bytes += f->size();
      out[n++] = f;
    }
    return n;
  }

  std::size_t transmit(std::span<packet::Frame* const> frames) noexcept override {
    for (packet::Frame* f : frames) {
      H4A_ASSERT(f->pieces().empty() && f->tail().empty());
      if (f->size() > link_.options_.mtu + kLinkHeaderMax) {
        counters_.drops.add(Drop::kOversize);
      } else {
        ++counters_.tx_frames;
        counters_.tx_bytes += f->size();
        link_.carry(index_, f->bytes());
      }
    }
    pool_.release(frames);
    return frames.size();
  }

  packet::FramePool& pool() noexcept override { return pool_; }
  MacAddress mac() const noexcept override {
    return MacAddress({0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(index_ + 1)});
  }
  std::uint16_t mtu() const noexcept override { return link_.options_.mtu; }
  const packet::PortCounters& counters() const noexcept override { return counters_; }

  [[nodiscard]] bool all_home() const noexcept { return pool_.available() == frame_count_; }

 private:
  static constexpr std::size_t kLinkHeaderMax = 22;  // Ethernet with two VLAN tags
  Link& link_;
  std::size_t index_;
  std::size_t frame_count_;
  packet::HeapFramePool pool_;
  packet::PortCounters counters_;
};

Link::Link(const LinkOptions& options, Random& random, std::size_t frames_per_pool)
    : options_(options), random_(random) {
  for (std::size_t i = 0; i < 2; ++i) ends_[i] = std::make_unique<End>(*this, i, frames_per_pool);
}

Link::~Link() = default;

packet::Port& Link::port(std::size_t end) noexcept {
  return *ends_[end];
}

void Link::set_faults(double loss, double duplicate, double reorder, double corrupt) noexcept {
  options_.loss = loss;
  options_.duplicate = duplicate;
  options_.reorder = reorder;
  options_.corrupt = corrupt;
}

bool Link::chance(double p) noexcept {
  return p > 0 && static_cast<double>(random_.below(1'000'000)) < p * 1e6;
}

void Link::carry(std::size_t from, Bytes frame) {
  if (tap_) tap_(from, frame, now_);
  ++counters_.sent;
  if (!up_ || chance(options_.loss)) {
    ++counters_.lost;
    return;
  }
  const auto bits = static_cast<std::int64_t>(8 * frame.size());
  const auto rate = static_cast<std::int64_t>(options_.bits_per_second);
  Instant& free_at = free_at_[from];
  free_at = std::max(free_at, now_) + Duration::ns(bits * 1'000'000'000 / rate);
  Instant arrival = free_at + options_.delay;
  if (chance(options_.reorder)) {
    ++counters_.reordered;
    const auto span = static_cast<std::uint64_t>(options_.reorder_delay.count_ns()) + 1;
    arrival = arrival + Duration::ns(static_cast<std::int64_t>(random_.below(span)));
  }
  const std::size_t to = 1 - from;
  if (chance(options_.duplicate)) {
    ++counters_.duplicated;
    schedule(to, frame, arrival + options_.delay);
  }
  schedule(to, frame, arrival);
}

void Link::schedule(std::size_t to, Bytes frame, Instant arrival) {
  if (in_flight_[to].size() >= options_.queue_frames) {
    ++counters_.lost;
    return;
  }
  Packet copy(frame.begin(), frame.end());
  if (chance(options_.corrupt) && !copy.empty()) {
    ++counters_.corrupted;
    const std::uint64_t bit = random_.below(8 * copy.size());
    copy[bit / 8] = static_cast<std::uint8_t>(copy[bit / 8] ^ (1U << (bit % 8)));
  }
  in_flight_[to].emplace(arrival, std::move(copy));
}

Instant Link::next_arrival() const noexcept {
  Instant first = Instant::never();
  for (const auto& queue : in_flight_)
    if (!queue.empty()) first = std::min(first, queue.begin()->first);
  return first;
}

bool Link::all_frames_home() const noexcept {
  return in_flight_[0].empty() && in_flight_[1].empty() && ends_[0]->all_home() &&
         ends_[1]->all_home();
}

}  // namespace h4a::sim
