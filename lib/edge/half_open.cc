#include "edge/half_open.h"

namespace h4a::edge {

IpAddress source_key(const IpAddress& address) noexcept {
  if (address.is_v4()) return address;
  auto bytes = address.bytes();
  for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = 0;
  return IpAddress::load_v6(bytes.data());
}

bool HalfOpenLimiter::admit(const IpAddress& source, Instant now) {
  expire(now);
  if (admitted_.size() >= limits_.total) return false;
  const IpAddress key = source_key(source);
  const auto found = by_source_.find(key);
  if (found != by_source_.end() && found->second >= limits_.per_source) return false;
  if (limits_.per_source == 0) return false;
  ++by_source_[key];
  admitted_.push_back({key, now + limits_.expiry});
  return true;
}

void HalfOpenLimiter::expire(Instant now) {
  while (!admitted_.empty() && admitted_.front().until <= now) {
    const auto found = by_source_.find(admitted_.front().source);
    if (--found->second == 0) by_source_.erase(found);
    admitted_.pop_front();
  }
}

}  // namespace h4a::edge
