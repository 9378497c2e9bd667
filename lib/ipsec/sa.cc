#include "ipsec/sa.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <new>

#include "base/assert.h"

namespace h4a::ipsec {
namespace {

/// SPIs 1..255 are reserved by IANA, 0 is never on the wire. Spec: RFC 4303 §2.1.
constexpr std::uint32_t kSpiMin = 256;
/// Packets with a wrong ICV that a GCM key bears (DESIGN §6.5).
constexpr std::uint64_t kFailedIcvsMax = std::uint64_t{1} << 52;

bool is_valid(const SaConfig& c) noexcept {
  const std::size_t material = key_material_size(c.suite);
  const std::uint64_t last = c.esn ? UINT64_MAX : UINT32_MAX;
  return c.spi.value() >= kSpiMin && material != 0 && c.key.size() == material &&
         c.first_sequence >= 1 && c.first_sequence <= last &&
         c.soft_limit_blocks <= c.hard_limit_blocks;
}

bool is_valid_window(std::uint32_t packets) noexcept {
  return packets >= ReplayWindow::kSizeMin && packets <= ReplayWindow::kSizeMax;
}

/// All suites of today are AES-GCM; another family gets its case here and in key_material_size().
Result<std::unique_ptr<Aead>> make_aead(const SaConfig& c) {
  const Bytes material = c.key.bytes();
  const std::size_t key_size = material.size() - kAeadSaltSize;
  switch (c.suite) {
    case EspSuite::kAesGcm128:
    case EspSuite::kAesGcm256:
      return make_aes_gcm(material.first(key_size), material.subspan(key_size), 16, c.backend);
  }
  return failure(Error::kUnsupported);
}

struct SaKey {
  Spi spi;
  IpAddress destination;
  friend bool operator==(const SaKey&, const SaKey&) noexcept = default;
};

struct HashSaKey {
  using is_avalanching = void;  // SPIs are random, but a peer may choose them: mix both well
  std::size_t operator()(const SaKey& k) const noexcept {
    std::uint64_t h = std::hash<IpAddress>{}(k.destination) ^ k.spi.value();
    h = (h ^ (h >> 32)) * 0xd6e8'feb8'6659'fd93ULL;
    h = (h ^ (h >> 32)) * 0xd6e8'feb8'6659'fd93ULL;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};

}  // namespace

InboundSa::InboundSa(const SaConfig& c, std::unique_ptr<Aead> aead)
    : spi_(c.spi),
      esn_(c.esn),
      association_(c.association),
      soft_limit_blocks_(c.soft_limit_blocks),
      hard_limit_blocks_(c.hard_limit_blocks),
      aead_(std::move(aead)),
      window_(c.replay_window, c.first_sequence - 1),
      source_(c.source),
      destination_(c.destination) {}

bool InboundSa::soft_limit_reached() const noexcept {
  return usage_.blocks >= soft_limit_blocks_ || failed_icvs_ >= kFailedIcvsMax / 2;
}

bool InboundSa::exhausted() const noexcept {
  return usage_.blocks >= hard_limit_blocks_ || failed_icvs_ >= kFailedIcvsMax;
}

ReplayVerdict InboundSa::commit(std::uint64_t sequence, std::size_t ciphertext) noexcept {
  ++usage_.packets;
  usage_.bytes += ciphertext;
  usage_.blocks += aes_blocks(ciphertext);
  return window_.commit(sequence);
}

OutboundSa::OutboundSa(const SaConfig& c, std::unique_ptr<Aead> aead) noexcept
    : spi_(c.spi),
      esn_(c.esn),
      association_(c.association),
      next_sequence_(c.first_sequence),
      soft_limit_blocks_(c.soft_limit_blocks),
      hard_limit_blocks_(c.hard_limit_blocks),
      aead_(std::move(aead)),
      source_(c.source),
      destination_(c.destination) {}

bool OutboundSa::soft_limit_reached() const noexcept {
  return wrapped_ || usage_.blocks >= soft_limit_blocks_ ||
         next_sequence_ > last_sequence() / 4 * 3;
}

bool OutboundSa::exhausted() const noexcept {
  return wrapped_ || usage_.blocks >= hard_limit_blocks_;
}

std::uint64_t OutboundSa::take(std::size_t ciphertext) noexcept {
  H4A_ASSERT(!wrapped_);
  ++usage_.packets;
  usage_.bytes += ciphertext;
  usage_.blocks += aes_blocks(ciphertext);
  const std::uint64_t sequence = next_sequence_;
  if (sequence == last_sequence())
    wrapped_ = true;
  else
    ++next_sequence_;
  return sequence;
}

struct SaTable::Impl {
  std::size_t capacity;
  boost::unordered_flat_map<SaKey, std::unique_ptr<InboundSa>, HashSaKey> by_key;
};

SaTable::SaTable(std::size_t capacity) : impl_(std::make_unique<Impl>()) {
  impl_->capacity = capacity;
  impl_->by_key.reserve(capacity);
}

SaTable::~SaTable() = default;

Result<InboundSa*> SaTable::add_inbound(SaConfig&& given) noexcept {
  const SaConfig config = std::move(given);  // its key goes when we return
  if (!is_valid(config) || !is_valid_window(config.replay_window))
    return failure(Error::kInvalidArgument);
  if (find(config.spi, config.destination) != nullptr) return failure(Error::kExists);
  if (size() >= impl_->capacity) return failure(Error::kNoMemory);
  try {
    auto aead = make_aead(config);
    if (!aead) return failure(aead.error());
    auto sa = std::make_unique<InboundSa>(config, std::move(*aead));
    InboundSa* raw = sa.get();
    impl_->by_key.emplace(SaKey{config.spi, config.destination}, std::move(sa));
    return raw;
  } catch (const std::bad_alloc&) {
    return failure(Error::kNoMemory);
  }
}

Result<void> SaTable::remove_inbound(Spi spi, const IpAddress& destination) noexcept {
  if (impl_->by_key.erase(SaKey{spi, destination}) == 0) return failure(Error::kNotFound);
  return {};
}

InboundSa* SaTable::find(Spi spi, const IpAddress& destination) noexcept {
  const auto it = impl_->by_key.find(SaKey{spi, destination});
  return it == impl_->by_key.end() ? nullptr : it->second.get();
}

bool SaTable::has_spi(Spi spi) const noexcept {
  for (const auto& entry : impl_->by_key)
    if (entry.first.spi == spi) return true;
  return false;
}

std::size_t SaTable::size() const noexcept {
  return impl_->by_key.size();
}

Result<std::unique_ptr<OutboundSa>> make_outbound(SaConfig&& given) {
  const SaConfig config = std::move(given);
  if (!is_valid(config)) return failure(Error::kInvalidArgument);
  auto aead = make_aead(config);
  if (!aead) return failure(aead.error());
  return std::make_unique<OutboundSa>(config, std::move(*aead));
}

}  // namespace h4a::ipsec
