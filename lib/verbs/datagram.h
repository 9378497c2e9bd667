// The address of a reply to a received datagram (as ibv_init_ah_from_wc makes it).
// Spec: IBA vol. 1 §11.2.2.1, annex A17.4.5.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/types.h"

namespace h4a::verbs {

/// Addresses swap places; traffic class and association are those of the datagram.
/// @param c of a received datagram. @param grh the first kGrhBytes of its receive buffer.
/// @return kInvalidArgument if it has no GRH; kTruncated. A datagram to a multicast group has no
/// address of ours in it: local_address is the group's then, for the caller to replace.
[[nodiscard]] Result<AhAttributes> reply_address(const Completion& c, Bytes grh) noexcept;

}  // namespace h4a::verbs
