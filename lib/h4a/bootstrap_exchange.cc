#include "h4a/bootstrap_exchange.h"

#include <algorithm>
#include <utility>

namespace h4a::bootstrap {
namespace {

Terms make_terms(const LocalParameters& local, const PublicKey& public_key, Random& random) {
  Terms t;
  t.public_key = public_key;
  random.fill(t.nonce);
  t.candidates = local.candidates;
  t.icrc_address = local.icrc_address;
  t.spi = local.inbound_spi;
  t.qpn = local.qpn;
  t.psn = local.psn;
  t.path_mtu = local.path_mtu;
  t.receive_depth = local.receive_depth;
  t.receive_bytes = local.receive_bytes;
  t.read_depth = local.read_depth;
  t.features = local.features;
  t.lifetime_s = local.lifetime_s;
  return t;
}

bool contains(const std::vector<EspSuite>& suites, EspSuite s) noexcept {
  return std::find(suites.begin(), suites.end(), s) != suites.end();
}

/// Ours must survive the peer's clamps unchanged, or the two sides would differ.
bool in_range(const LocalParameters& p) noexcept {
  return p.candidates.size() <= kCandidatesMax && p.receive_depth <= kReceiveDepthMax &&
         p.receive_bytes <= kReceiveBytesMax && p.read_depth <= kReadDepthMax &&
         p.lifetime_s <= kLifetimeMax_s;
}

/// All that needs no key: the peer's numbers, and the smaller of what each side can do.
SessionParameters combine(const LocalParameters& local, const Terms& peer, EspSuite suite) {
  SessionParameters s;
  s.peer_candidates = peer.candidates;
  s.local_icrc_address = local.icrc_address;
  s.peer_icrc_address = peer.icrc_address;
  s.local_qpn = local.qpn;
  s.peer_qpn = peer.qpn;
  s.local_psn = local.psn;
  s.peer_psn = peer.psn;
  s.path_mtu = std::min(local.path_mtu, peer.path_mtu);
  s.peer_receive_depth = peer.receive_depth;
  s.peer_receive_bytes = peer.receive_bytes;
  s.peer_read_depth = peer.read_depth;
  s.suite = suite;
  s.inbound_spi = local.inbound_spi;
  s.outbound_spi = peer.spi;
  s.features = local.features & peer.features;
  s.lifetime_s = std::min(local.lifetime_s, peer.lifetime_s);
  return s;
}

/// Both directions' keys, into `s`. `outbound` is the direction this side sends in.
Result<void> derive_keys(SessionParameters& s, const PrivateKey& own, const PublicKey& peer,
                         Bytes offer, Bytes answer, Direction outbound) {
  const auto shared = x25519(own, peer);
  if (!shared) return failure(shared.error());
  const auto prk = hkdf_extract(transcript_hash(offer, answer), shared->bytes());
  if (!prk) return failure(prk.error());
  const Direction inbound = outbound == Direction::kClientToServer ? Direction::kServerToClient
                                                                   : Direction::kClientToServer;
  auto in = derive_esp_key(*prk, inbound, s.suite, s.inbound_spi);
  if (!in) return failure(in.error());
  auto out = derive_esp_key(*prk, outbound, s.suite, s.outbound_spi);
  if (!out) return failure(out.error());
  s.inbound_key = std::move(*in);
  s.outbound_key = std::move(*out);
  return {};
}

bool same_family(const SessionParameters& s) noexcept {
  return s.local_icrc_address.is_v4() == s.peer_icrc_address.is_v4();
}

}  // namespace

Result<ClientExchange> ClientExchange::start(const LocalParameters& local, Random& random) {
  if (!in_range(local) || local.suites.size() > kSuitesMax) return failure(Error::kInvalidArgument);
  auto keys = make_key_pair(random);
  if (!keys) return failure(keys.error());
  ClientExchange c;
  c.local_ = local;
  c.public_key_ = keys->public_key;
  c.offer_ = encode_offer({make_terms(local, keys->public_key, random), local.suites});
  c.private_key_ = std::move(keys->private_key);
  // The peer's own reader decides what is in range: one rule, in one place.
  if (!decode_offer(c.offer_)) return failure(Error::kInvalidArgument);
  return c;
}

Result<SessionParameters> ClientExchange::finish(Bytes body) {
  if (private_key_.size() == 0) return failure(Error::kInvalidState);
  const PrivateKey own = std::move(private_key_);  // wiped on every way out
  auto answer = decode_answer(body);
  if (!answer) return failure(answer.error());
  const Terms& peer = answer->terms;
  if (!contains(local_.suites, answer->suite) || (peer.features & ~local_.features) != 0)
    return failure(Error::kMalformed);
  if (peer.public_key == public_key_) return failure(Error::kAuthentication);  // our own, reflected
  SessionParameters s = combine(local_, peer, answer->suite);
  if (!same_family(s)) return failure(Error::kUnsupported);
  const auto done = derive_keys(s, own, peer.public_key, offer_, body, Direction::kClientToServer);
  if (!done) return failure(done.error());
  s.authorities = std::move(answer->authorities);
  return s;
}

Result<ServerExchange> ServerExchange::receive(Bytes body) {
  auto offer = decode_offer(body);
  if (!offer) return failure(offer.error());
  ServerExchange s;
  s.offer_ = std::move(*offer);
  s.body_.assign(body.begin(), body.end());
  return s;
}

Result<Accepted> ServerExchange::answer(const LocalParameters& local,
                                        const std::vector<std::string>& authorities,
                                        Random& random) const {
  if (!in_range(local) || authorities.size() > kAuthoritiesMax)
    return failure(Error::kInvalidArgument);
  const auto suite = std::find_if(offer_.suites.begin(), offer_.suites.end(),
                                  [&](EspSuite s) { return contains(local.suites, s); });
  if (suite == offer_.suites.end()) return failure(Error::kUnsupported);
  Accepted a{{}, combine(local, offer_.terms, *suite)};
  if (!same_family(a.session)) return failure(Error::kUnsupported);
  const auto keys = make_key_pair(random);
  if (!keys) return failure(keys.error());
  Answer message{make_terms(local, keys->public_key, random), *suite, authorities};
  message.terms.features = a.session.features;
  message.terms.path_mtu = a.session.path_mtu;
  message.terms.lifetime_s = a.session.lifetime_s;
  a.answer = encode_answer(message);
  if (!decode_answer(a.answer)) return failure(Error::kInvalidArgument);
  const auto done = derive_keys(a.session, keys->private_key, offer_.terms.public_key, body_,
                                a.answer, Direction::kServerToClient);
  if (!done) return failure(done.error());
  a.session.authorities = authorities;
  return a;
}

}  // namespace h4a::bootstrap
