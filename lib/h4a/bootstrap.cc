#include "h4a/bootstrap.h"

#include <algorithm>
#include <bootstrap_generated.h>
#include <cstring>
#include <optional>

namespace h4a::bootstrap {
namespace {

constexpr char kAnswerIdentifier[] = "H4AA";

// A message has three tables at most (root, Terms) one below the other; strings are not tables.
constexpr flatbuffers::uoffset_t kDepthMax = 4;
constexpr flatbuffers::uoffset_t kTablesMax = 4;

template <std::size_t N>
flatbuffers::span<const std::uint8_t, N> octets(const std::array<std::uint8_t, N>& a) noexcept {
  return flatbuffers::span<const std::uint8_t, N>(a);
}

fb::Address pack(const IpAddress& a) noexcept {
  return fb::Address(octets(a.bytes()));
}

IpAddress unpack(const fb::Address& a) noexcept {
  return IpAddress::load_v6(a.octets()->data());
}

flatbuffers::Offset<fb::Terms> pack(flatbuffers::FlatBufferBuilder& b, const Terms& t) {
  std::vector<fb::Candidate> candidates;
  for (const Candidate& c : t.candidates) candidates.emplace_back(pack(c.address), c.udp_port);
  const auto candidates_at = b.CreateVectorOfStructs(candidates);
  const fb::PublicKey public_key(octets(t.public_key));
  const fb::Nonce nonce(octets(t.nonce));
  const fb::Address icrc_address = pack(t.icrc_address);
  return fb::CreateTerms(b, t.version, &public_key, &nonce, candidates_at, &icrc_address,
                         t.spi.value(), t.qpn.value(), t.psn.value(), t.path_mtu, t.receive_depth,
                         t.receive_bytes, t.read_depth, t.features, t.lifetime_s);
}

std::vector<std::uint8_t> bytes_of(const flatbuffers::FlatBufferBuilder& b) {
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

bool is_path_mtu(std::uint16_t v) noexcept {
  return v == 256 || v == 512 || v == 1024 || v == 2048 || v == 4096;
}

bool can_be_destination(const IpAddress& a) noexcept {
  return !a.is_multicast() && !a.is_unspecified() && a != IpAddress::v4(255, 255, 255, 255);
}

/// The numbers have a meaning; what is merely too large was clamped before.
bool is_sound(const Terms& t, const fb::Terms& wire) noexcept {
  return t.spi.value() >= 256 && t.qpn.value() >= 2 && t.qpn.value() < 0xff'ffff &&
         wire.psn() <= Psn::kMask && is_path_mtu(t.path_mtu) && t.receive_depth > 0 &&
         t.receive_bytes >= kReceiveBytesMin && t.lifetime_s > 0 && !t.candidates.empty() &&
         can_be_destination(t.icrc_address) &&
         std::all_of(t.candidates.begin(), t.candidates.end(),
                     [](const Candidate& c) { return can_be_destination(c.address); });
}

Result<Terms> unpack(const fb::Terms& wire) {
  if (wire.version() != kVersion) return failure(Error::kBadVersion);
  Terms t;
  std::memcpy(t.public_key.data(), wire.public_key()->octets()->data(), t.public_key.size());
  std::memcpy(t.nonce.data(), wire.nonce()->octets()->data(), t.nonce.size());
  for (const fb::Candidate* c : *wire.candidates()) {
    if (t.candidates.size() == kCandidatesMax) break;
    t.candidates.push_back({unpack(c->address()), c->udp_port()});
  }
  t.icrc_address = unpack(*wire.icrc_address());
  t.spi = Spi(wire.spi());
  t.qpn = Qpn(wire.qpn());
  t.psn = Psn(wire.psn());
  t.path_mtu = wire.path_mtu();
  t.receive_depth = std::min(wire.receive_depth(), kReceiveDepthMax);
  t.receive_bytes = std::min(wire.receive_bytes(), kReceiveBytesMax);
  t.read_depth = std::min(wire.read_depth(), kReadDepthMax);
  t.features = wire.features();
  t.lifetime_s = std::min(wire.lifetime_s(), kLifetimeMax_s);
  if (!is_sound(t, wire)) return failure(Error::kMalformed);
  return t;
}

std::optional<EspSuite> known_suite(std::uint8_t v) noexcept {
  const auto suite = static_cast<EspSuite>(v);
  if (key_material_size(suite) == 0) return std::nullopt;
  return suite;
}

/// A body copied to memory aligned for every FlatBuffers scalar, and verified there.
template <class Root>
class Verified {
 public:
  static Result<Verified> of(Bytes body, const char* identifier) {
    // Root offset, identifier and the smallest table; less cannot even be asked for its identifier.
    if (body.size() < 12) return failure(Error::kTruncated);
    if (body.size() > kMessageMaxBytes) return failure(Error::kMalformed);
    Verified v(body);
    const auto* p = reinterpret_cast<const std::uint8_t*>(v.words_.data());
    flatbuffers::Verifier verifier(p, body.size(), kDepthMax, kTablesMax);
    if (!verifier.VerifyBuffer<Root>(identifier)) return failure(Error::kMalformed);
    return v;
  }
  const Root& root() const noexcept { return *flatbuffers::GetRoot<Root>(words_.data()); }

 private:
  explicit Verified(Bytes body) : words_((body.size() + 7) / 8) {
    std::memcpy(words_.data(), body.data(), body.size());
  }
  std::vector<std::uint64_t> words_;
};

bool is_host_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool is_port(std::string_view s) noexcept {
  if (s.empty() || s.size() > 5) return false;
  unsigned value = 0;
  for (const char c : s) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value >= 1 && value <= 65535;
}

}  // namespace

std::vector<std::uint8_t> encode_offer(const Offer& offer) {
  flatbuffers::FlatBufferBuilder b;
  const auto terms = pack(b, offer.terms);
  std::vector<std::uint8_t> suites;
  for (const EspSuite s : offer.suites) suites.push_back(static_cast<std::uint8_t>(s));
  b.Finish(fb::CreateOffer(b, terms, b.CreateVector(suites)), fb::OfferIdentifier());
  return bytes_of(b);
}

std::vector<std::uint8_t> encode_answer(const Answer& answer) {
  flatbuffers::FlatBufferBuilder b;
  const auto terms = pack(b, answer.terms);
  const auto authorities = b.CreateVectorOfStrings(answer.authorities);
  const auto suite = static_cast<std::uint8_t>(answer.suite);
  b.Finish(fb::CreateAnswer(b, terms, suite, authorities), kAnswerIdentifier);
  return bytes_of(b);
}

Result<Offer> decode_offer(Bytes body) {
  const auto verified = Verified<fb::Offer>::of(body, fb::OfferIdentifier());
  if (!verified) return failure(verified.error());
  auto terms = unpack(*verified->root().terms());
  if (!terms) return failure(terms.error());
  Offer offer{std::move(*terms), {}};
  for (const std::uint8_t v : *verified->root().suites()) {
    if (offer.suites.size() == kSuitesMax) break;
    if (const auto suite = known_suite(v)) offer.suites.push_back(*suite);
  }
  if (offer.suites.empty()) return failure(Error::kUnsupported);
  return offer;
}

Result<Answer> decode_answer(Bytes body) {
  const auto verified = Verified<fb::Answer>::of(body, kAnswerIdentifier);
  if (!verified) return failure(verified.error());
  auto terms = unpack(*verified->root().terms());
  if (!terms) return failure(terms.error());
  const auto suite = known_suite(verified->root().suite());
  if (!suite) return failure(Error::kUnsupported);
  Answer answer{std::move(*terms), *suite, {}};
  for (const flatbuffers::String* s : *verified->root().authorities()) {
    if (answer.authorities.size() == kAuthoritiesMax) break;
    if (!is_authority(s->string_view())) return failure(Error::kMalformed);
    answer.authorities.push_back(s->str());
  }
  if (answer.authorities.empty()) return failure(Error::kMalformed);
  return answer;
}

bool is_authority(std::string_view text) noexcept {
  if (text.empty() || text.size() > kAuthorityMaxBytes) return false;
  std::string_view rest;
  if (text.front() == '[') {  // an IPv6 address
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    const auto address = IpAddress::parse(text.substr(1, end - 1));
    if (!address || address->is_v4()) return false;
    rest = text.substr(end + 1);
  } else {
    std::size_t n = 0;
    while (n < text.size() && is_host_char(text[n])) ++n;
    if (n == 0) return false;
    rest = text.substr(n);
  }
  return rest.empty() || (rest.front() == ':' && is_port(rest.substr(1)));
}

}  // namespace h4a::bootstrap
