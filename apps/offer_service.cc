#include "apps/offer_service.h"

#include "base/time.h"
#include "h4a/bootstrap_exchange.h"
#include "h4a/establish.h"

namespace h4a::apps {
namespace {

edge::OfferReply refuse(Error e) {
  switch (e) {
    case Error::kUnsupported:
      return {409, {}};  // nothing in common: the client uses HTTPS
    case Error::kBusy:
      return {429, {}};  // this client has enough of them
    case Error::kFull:
    case Error::kNoMemory:
      return {503, {}};
    default:
      return {400, {}};
  }
}

// A name that a certificate proves, wherever it comes from; else the address. What else a client says of
// itself is not verified here, and would only help it to look like many.
std::string client_of(const edge::AuthInfo& from) {
  return from.client_subject.empty() ? "at " + to_string(edge::source_key(from.source))
                                     : "named " + from.client_subject;
}

}  // namespace

edge::OfferReply OfferService::answer(Bytes offer, const edge::AuthInfo& from) {
  const auto exchange = bootstrap::ServerExchange::receive(offer);
  if (!exchange) return refuse(exchange.error());
  const auto way = choose_way(exchange->offer());
  if (!way) return refuse(way.error());

  const auto session = server_.open(client_of(from), [place = from.half_open] {
    if (place) place->leave();
  });
  if (!session) return refuse(session.error());
  auto local = http::describe(device_, (*session)->local(), way->local);
  if (!local) return refuse(Error::kNoMemory);
  local->lifetime_s = lifetime_s_;
  auto accepted = exchange->answer(*local, from.authorities, random_);
  if (!accepted) return refuse(accepted.error());

  bootstrap::SessionParameters& agreed = accepted->session;
  keys_.add(way->remote, way->local, agreed.inbound_spi, agreed.suite, agreed.inbound_key.bytes(),
            true);
  keys_.add(way->local, way->remote, agreed.outbound_spi, agreed.suite, agreed.outbound_key.bytes(),
            true);
  // From here on the session is polled; if it cannot be established, the server drops it.
  const auto association =
      http::establish(**session, agreed, way->local, way->remote, steady_now());
  // An address that is neither on-link nor behind a gateway, or our own.
  if (!association)
    return refuse(association.error() == Error::kInvalidArgument ? Error::kUnsupported
                                                                 : association.error());
  return {200, std::move(accepted->answer)};
}

// The client's first native candidate that one of our addresses can reach. Nothing is sent there until
// an authentic packet came from it: the server's side of a session only answers.
Result<OfferService::Way> OfferService::choose_way(const bootstrap::Offer& offer) const noexcept {
  for (const bootstrap::Candidate& c : offer.terms.candidates) {
    if (c.udp_port != 0) continue;
    for (const IpInterface& i : device_.addresses())
      if (i.address.is_v4() == c.address.is_v4() && i.address.same_prefix(c.address, i.prefix_bits))
        return Way{i.address, c.address};
    for (const IpInterface& i : device_.addresses())
      if (i.address.is_v4() == c.address.is_v4()) return Way{i.address, c.address};
  }
  return failure(Error::kUnsupported);
}

}  // namespace h4a::apps
