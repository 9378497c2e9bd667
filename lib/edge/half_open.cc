#include "edge/half_open.h"

namespace h4a::edge {

IpAddress source_key(const IpAddress& address) noexcept {
  if (address.is_v4()) return address;
  auto bytes = address.bytes();
  for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = 0;
  return IpAddress::load_v6(bytes.data());
}

std::shared_ptr<HalfOpenPlace> HalfOpenLimiter::admit(const IpAddress& source, Instant now) {
  expire(now);
  if (admitted_.size() >= limits_.total) return nullptr;
  const IpAddress key = source_key(source);
  const auto found = by_source_.find(key);
  if (found != by_source_.end() && found->second >= limits_.per_source) return nullptr;
  if (limits_.per_source == 0) return nullptr;
  ++by_source_[key];
  admitted_.push_back({key, now + limits_.expiry, std::make_shared<HalfOpenPlace>()});
  return admitted_.back().place;
}

void HalfOpenLimiter::expire(Instant now) {
  std::erase_if(admitted_, [&](const Admitted& a) {
    if (a.until > now && !a.place->left()) return false;
    const auto found = by_source_.find(a.source);
    if (--found->second == 0) by_source_.erase(found);
    return true;
  });
}

}  // namespace h4a::edge
