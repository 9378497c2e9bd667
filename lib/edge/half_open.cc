#include "edge/half_open.h"

#include <openssl/sha.h>

namespace h4a::edge {
namespace {

template <class Map>
std::size_t count_of(const Map& map, const typename Map::key_type& key) noexcept {
  const auto found = map.find(key);
  return found == map.end() ? 0 : found->second;
}

template <class Map>
void take_one(Map& map, const typename Map::key_type& key) noexcept {
  const auto found = map.find(key);
  if (found != map.end() && --found->second == 0) map.erase(found);
}

}  // namespace

IpAddress source_key(const IpAddress& address) noexcept {
  if (address.is_v4()) return address;
  auto bytes = address.bytes();
  for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = 0;
  return IpAddress::load_v6(bytes.data());
}

std::string identity_key(std::string_view client_subject, std::string_view authorization,
                         std::string_view cookie) {
  std::string text;
  if (!client_subject.empty())
    text.append("s").append(client_subject);
  else if (!authorization.empty())
    text.append("a").append(authorization);
  else if (!cookie.empty())
    text.append("c").append(cookie);
  else
    return {};
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool HalfOpenLimiter::has_room(const IpAddress& source,
                               const std::string& identity) const noexcept {
  return admitted_.size() < limits_.total && count_of(by_source_, source) < limits_.per_source &&
         (identity.empty() || count_of(by_identity_, identity) < limits_.per_identity);
}

std::shared_ptr<HalfOpenPlace> HalfOpenLimiter::admit(const IpAddress& source,
                                                      const std::string& identity, Instant now) {
  expire(now);
  const IpAddress key = source_key(source);
  if (!has_room(key, identity)) return nullptr;
  ++by_source_[key];
  if (!identity.empty()) ++by_identity_[identity];
  admitted_.push_back({key, identity, now + limits_.expiry, std::make_shared<HalfOpenPlace>()});
  return admitted_.back().place;
}

void HalfOpenLimiter::expire(Instant now) {
  std::erase_if(admitted_, [&](const Admitted& a) {
    if (a.until > now && !a.place->left()) return false;
    take_one(by_source_, a.source);
    take_one(by_identity_, a.identity);
    return true;
  });
}

}  // namespace h4a::edge
