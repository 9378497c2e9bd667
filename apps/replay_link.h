// What stands in front of the packet in a capture, by link type.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/drop.h"
#include "net/capture.h"

namespace h4a::apps {

/// Where a record's packet begins and what it is.
struct LinkPayload {
  enum class Kind : std::uint8_t {
    kEthernet,  // `bytes` is an Ethernet frame
    kIp,        // `bytes` is an IPv4 or IPv6 packet
    kArp,       // `bytes` is an ARP packet
    kNone,      // `drop` says why
  };
  Kind kind = Kind::kNone;
  Drop drop = Drop::kNone;
  Bytes bytes;
};

/// Takes off cooked, loopback and netfilter-log headers. Reads nothing behind the record.
/// kNone with kTruncated, kUnknownEthertype or kUnknownLinkType if there is no packet in it.
[[nodiscard]] LinkPayload link_payload(const net::CaptureRecord& record) noexcept;

/// "ethernet", "raw_ip", "linux_sll", …, or "other".
[[nodiscard]] std::string_view to_string(net::LinkType type) noexcept;

}  // namespace h4a::apps
