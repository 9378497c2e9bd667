// OfferService: the server's half of the bootstrap, in the stack's thread: reads an Offer, opens a
// session for it, answers, and connects (DESIGN §6).
#pragma once

#include "apps/esp_key_log.h"
#include "base/random.h"
#include "edge/offer_queue.h"
#include "h4a/bootstrap.h"
#include "h4a/server.h"
#include "verbs/device.h"

namespace h4a::apps {

class OfferService final : public edge::OfferHandler {
 public:
  /// All references must outlive the service.
  OfferService(verbs::Device& device, http::Server& server, Random& random, EspKeyLog& keys,
               std::uint32_t lifetime_s) noexcept
      : device_(device), server_(server), random_(random), keys_(keys), lifetime_s_(lifetime_s) {}

  [[nodiscard]] edge::OfferReply answer(Bytes offer, const edge::AuthInfo& from) override;

 private:
  struct Way {
    IpAddress local;
    IpAddress remote;
  };
  [[nodiscard]] Result<Way> choose_way(const bootstrap::Offer& offer) const noexcept;

  verbs::Device& device_;
  http::Server& server_;
  Random& random_;
  EspKeyLog& keys_;
  std::uint32_t lifetime_s_;
};

}  // namespace h4a::apps
