// Compares a packet of ours with the recorded one that it stands for, field by field.
//
// Left out, since two right implementations may differ in it: time, UDP source port and IP fields (not
// looked at), BTH's MigReq, FECN and BECN, the request for an acknowledgement, and the credits of an ACK.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/serial.h"
#include "net/bth.h"

namespace h4a::apps {

struct FieldDifference {
  std::string_view field;
  std::string recorded;
  std::string ours;
};

/// @param msn_offset what the recorded host's MSN was ahead of ours when the capture began.
[[nodiscard]] std::vector<FieldDifference> compare_packets(const net::TransportPacket& recorded,
                                                           const net::TransportPacket& ours,
                                                           std::uint32_t msn_offset);

/// What compare_packets() leaves out and what a player may do otherwise, for people.
[[nodiscard]] const std::vector<std::string_view>& what_may_differ();

}  // namespace h4a::apps
