// What lies between the bootstrap messages and a running session: this side's terms out of its device
// and QP, and an agreed session's keys and peer into the device (DESIGN §6.4). Both ends use it alike.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "h4a/bootstrap_exchange.h"
#include "h4a/session.h"
#include "verbs/device.h"

namespace h4a::http {

/// Fills in what this side says of itself: `local` comes from Session::open(), an inbound SPI is taken
/// from the device, and the path MTU is the largest that fits its port with ESP.
/// @param address one of the device's own: where ESP packets are to be sent.
/// @return kInvalidArgument if the port's MTU has no room for any path MTU.
[[nodiscard]] Result<bootstrap::LocalParameters> describe(verbs::Device& device,
                                                          const LocalEndpoint& local,
                                                          const IpAddress& address) noexcept;

/// Creates the association, installs both SAs and connects the session through them. The keys of
/// `agreed` are wiped. After an error nothing is left in the device; the session is still kBound.
/// @param local, remote the addresses that packets travel between.
/// @return the association, which the caller destroys after the session ended.
[[nodiscard]] Result<AssociationId> establish(Session& session,
                                              bootstrap::SessionParameters& agreed,
                                              const IpAddress& local, const IpAddress& remote,
                                              Instant now) noexcept;

}  // namespace h4a::http
