#include "stack/neighbours.h"

#include <algorithm>

namespace h4a::stack {

Neighbours::Neighbours(std::size_t capacity) : entries_(capacity) {
  by_ip_.reserve(capacity);
  free_.reserve(capacity);
  busy_.reserve(capacity);
  for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
}

bool Neighbours::acquire(const IpAddress& ip, Index& out) noexcept {
  const auto found = by_ip_.find(ip);
  if (found != by_ip_.end()) {
    out = found->second;
  } else if (!insert(ip, out)) {
    return false;
  }
  ++entries_[out].users;
  return true;
}

void Neighbours::release(Index i) noexcept {
  H4A_ASSERT(entries_[i].users > 0);
  --entries_[i].users;
}

bool Neighbours::insert(const IpAddress& ip, Index& out) noexcept {
  if (free_.empty()) {
    // A flood of strangers must not cost us memory: an unused entry with nothing waiting makes room.
    const auto victim = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) {
      return e.state != State::kFree && e.users == 0 && e.pending_count == 0;
    });
    if (victim == entries_.end()) return false;
    by_ip_.erase(victim->ip);
    victim->state = State::kFree;
    free_.push_back(static_cast<Index>(victim - entries_.begin()));
  }
  out = free_.back();
  free_.pop_back();
  Entry& e = entries_[out];
  const bool busy = e.busy;  // it may be listed still; sweep() will see
  e = Entry{};
  e.busy = busy;
  e.ip = ip;
  e.state = State::kIncomplete;
  e.next_try = Instant::never();
  by_ip_.emplace(ip, out);
  return true;
}

void Neighbours::start_asking(Entry& e, Instant now) noexcept {
  if (!e.next_try.is_never()) return;
  e.tries = 0;
  e.next_try = now;
  list_busy(e);
}

void Neighbours::list_busy(Entry& e) noexcept {
  if (e.busy) return;
  e.busy = true;
  busy_.push_back(static_cast<Index>(&e - entries_.data()));  // never grows: one place an entry
}

void Neighbours::sweep() noexcept {
  std::erase_if(busy_, [this](Index i) {
    Entry& e = entries_[i];
    e.busy = e.pending_count > 0 || !e.next_try.is_never();
    return !e.busy;
  });
}

const MacAddress* Neighbours::resolve(Index i, Instant now) noexcept {
  Entry& e = entries_[i];
  switch (e.state) {
    case State::kReachable:
      if (now < e.expires) return &e.mac;
      start_asking(e, now);  // stale: used on while we ask
      return &e.mac;
    case State::kFailed:
      if (now < e.expires) return nullptr;
      e.state = State::kIncomplete;
      [[fallthrough]];
    case State::kIncomplete:
      start_asking(e, now);
      return nullptr;
    case State::kFree:
      return nullptr;
  }
  return nullptr;
}

bool Neighbours::unreachable(Index i) const noexcept {
  return entries_[i].state == State::kFailed;
}

bool Neighbours::hold(Index i, packet::Frame* frame) noexcept {
  Entry& e = entries_[i];
  if (e.state != State::kIncomplete || e.pending_count == kPendingMax) return false;
  e.pending[e.pending_count++] = frame;
  list_busy(e);
  return true;
}

std::size_t Neighbours::take_pending(Entry& e, std::span<packet::Frame*> out) noexcept {
  const std::size_t n = std::min<std::size_t>(e.pending_count, out.size());
  std::copy_n(e.pending.begin(), n, out.begin());
  std::copy(e.pending.begin() + static_cast<std::ptrdiff_t>(n), e.pending.begin() + e.pending_count,
            e.pending.begin());
  e.pending_count -= static_cast<std::uint32_t>(n);
  return n;
}

std::size_t Neighbours::take_ready(std::span<packet::Frame*> out,
                                   std::span<MacAddress> macs) noexcept {
  std::size_t n = 0;
  for (const Index i : busy_) {
    Entry& e = entries_[i];
    if (e.pending_count == 0 || e.state != State::kReachable) continue;
    const std::size_t taken = take_pending(e, out.subspan(n));
    std::fill_n(macs.begin() + static_cast<std::ptrdiff_t>(n), taken, e.mac);
    n += taken;
  }
  return n;
}

std::size_t Neighbours::take_expired(std::span<packet::Frame*> out) noexcept {
  std::size_t n = 0;
  for (const Index i : busy_)
    if (entries_[i].state == State::kFailed) n += take_pending(entries_[i], out.subspan(n));
  return n;
}

std::size_t Neighbours::take_all(std::span<packet::Frame*> out) noexcept {
  std::size_t n = 0;
  for (const Index i : busy_) n += take_pending(entries_[i], out.subspan(n));
  return n;
}

void Neighbours::learn(const IpAddress& ip, const MacAddress& mac, Instant now,
                       bool may_create) noexcept {
  Index i = 0;
  const auto found = by_ip_.find(ip);
  if (found != by_ip_.end()) {
    i = found->second;
  } else if (!may_create || !insert(ip, i)) {
    return;
  }
  Entry& e = entries_[i];
  e.mac = mac;
  e.state = State::kReachable;
  e.tries = 0;
  e.next_try = Instant::never();
  e.expires = now + kLifetime;
}

std::size_t Neighbours::due_solicitations(std::span<IpAddress> out, Instant now) noexcept {
  std::size_t n = 0;
  for (const Index i : busy_) {
    Entry& e = entries_[i];
    if (e.next_try > now || e.next_try.is_never()) continue;
    if (e.tries == kTriesMax) {
      e.state = State::kFailed;
      e.expires = now + kFailedFor;
      e.next_try = Instant::never();
      continue;
    }
    if (n == out.size()) break;
    e.next_try = now + kFirstRetransmit * (1 << e.tries);
    ++e.tries;
    out[n++] = e.ip;
  }
  sweep();
  return n;
}

Instant Neighbours::next_deadline() const noexcept {
  Instant first = Instant::never();
  for (const Index i : busy_) {
    const Entry& e = entries_[i];
    const bool decided = e.pending_count > 0 && e.state != State::kIncomplete;
    first = std::min(first, decided ? Instant{} : e.next_try);
  }
  return first;
}

}  // namespace h4a::stack
