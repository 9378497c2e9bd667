#include "stack/associations.h"

#include <algorithm>
#include <new>
#include <utility>

namespace h4a::stack {
namespace {

constexpr std::uint32_t kSpiFirst = 256;  // 1..255 are reserved, RFC 4303 §2.1

ipsec::SaConfig make_config(AssociationId id, const verbs::AssociationOptions& options,
                            const SaLimits& limits, verbs::SaOptions&& sa) {
  const bool in = sa.direction == verbs::SaDirection::kInbound;
  ipsec::SaConfig c;
  c.spi = sa.spi;
  c.source = in ? options.remote_address : options.local_address;
  c.destination = in ? options.local_address : options.remote_address;
  c.association = id;
  c.suite = sa.suite;
  c.key = std::move(sa.key);
  c.esn = sa.esn;
  c.replay_window = sa.replay_window;
  c.soft_limit_blocks = limits.soft_blocks;
  c.hard_limit_blocks = limits.hard_blocks;
  return c;
}

}  // namespace

Associations::Associations(std::size_t capacity, const SaLimits& limits, Random& random)
    : capacity_(capacity), limits_(limits), random_(random), table_(2 * capacity) {
  by_id_.reserve(capacity);
}

Result<AssociationId> Associations::create(const verbs::AssociationOptions& options) noexcept {
  if (by_id_.size() == capacity_) return failure(Error::kNoMemory);
  if (options.local_address.is_v4() != options.remote_address.is_v4() ||
      options.remote_address.is_unspecified() || options.remote_address.is_multicast())
    return failure(Error::kInvalidArgument);
  AssociationId id;
  do id = AssociationId(random_.u32());
  while (id == kClear || by_id_.contains(id.value()));
  std::unique_ptr<Association> a(new (std::nothrow) Association);
  if (!a) return failure(Error::kNoMemory);
  a->options = options;
  by_id_.emplace(id.value(), std::move(a));
  return id;
}

Result<void> Associations::destroy(AssociationId id) noexcept {
  Association* a = find(id);
  if (a == nullptr) return failure(Error::kNotFound);
  for (const Inbound& in : a->inbound)
    (void)table_.remove_inbound(in.spi, a->options.local_address);
  by_id_.erase(id.value());
  return {};
}

Associations::Association* Associations::find(AssociationId id) noexcept {
  const auto it = by_id_.find(id.value());
  return it == by_id_.end() ? nullptr : it->second.get();
}

Result<Spi> Associations::allocate_spi() noexcept {
  Spi spi;
  do spi = Spi(random_.u32());
  while (spi.value() < kSpiFirst || table_.has_spi(spi));
  return spi;
}

Result<void> Associations::install(AssociationId id, verbs::SaOptions&& sa) noexcept {
  Association* a = find(id);
  if (a == nullptr) return failure(Error::kNotFound);
  const Spi spi = sa.spi;
  const bool in = sa.direction == verbs::SaDirection::kInbound;
  ipsec::SaConfig config = make_config(id, a->options, limits_, std::move(sa));
  if (in) {
    const auto added = table_.add_inbound(std::move(config));
    if (!added) return failure(added.error());
    a->inbound.push_back({spi, *added, {}});
    return {};
  }
  auto made = ipsec::make_outbound(std::move(config));
  if (!made) return failure(made.error());
  a->outbound = std::move(*made);
  a->outbound_spi = spi;
  a->outbound_reported = {};
  return {};
}

Result<void> Associations::remove(AssociationId id, verbs::SaDirection direction,
                                  Spi spi) noexcept {
  Association* a = find(id);
  if (a == nullptr) return failure(Error::kNotFound);
  if (direction == verbs::SaDirection::kOutbound) {
    if (!a->outbound || a->outbound_spi != spi) return failure(Error::kNotFound);
    a->outbound.reset();
    return {};
  }
  const auto it = std::find_if(a->inbound.begin(), a->inbound.end(),
                               [spi](const Inbound& in) { return in.spi == spi; });
  if (it == a->inbound.end()) return failure(Error::kNotFound);
  a->inbound.erase(it);
  return table_.remove_inbound(spi, a->options.local_address);
}

}  // namespace h4a::stack
