// Capture files: what pcap and pcapng have in common.
// Spec: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
//
// Readers work on bytes in memory, which they borrow; a record's bytes are a part of the file's.
// Every length is checked against the file before it is used; a broken file ends with a
// CaptureFault that says where, after all records before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace h4a::net {

/// Link-layer header types by their numbers in capture files; others are passed through as they
/// are.
enum class LinkType : std::uint16_t {
  kNull = 0,        // BSD loopback: address family in the byte order of the capturing host
  kEthernet = 1,    //
  kRawIp = 101,     // IPv4 or IPv6, no link header
  kLoop = 108,      // as kNull, in network order
  kLinuxSll = 113,  // Linux cooked capture, 16 bytes
  kRawIpv4 = 228,   //
  kRawIpv6 = 229,   //
  kNflog = 239,     // Linux netfilter log: TLVs, one of which is an IP packet
  kLinuxSll2 = 276  // Linux cooked capture, 20 bytes
};

/// Longest record that is read. libpcap's own limit for everything but USB and D-Bus.
inline constexpr std::size_t kCaptureRecordMax = 262'144;

struct CaptureRecord {
  LinkType link_type = LinkType::kEthernet;
  std::int64_t time_ns = 0;         // since 1970
  std::uint32_t original_size = 0;  // on the wire; more than bytes.size() if the capture was cut
  Bytes bytes;
};

struct CaptureFault {
  Error error = Error::kMalformed;
  std::uint64_t frame = 0;   // number of the record, from 1; 0: the file's own header
  std::uint64_t offset = 0;  // in the file
  std::string_view what;     // for people
};
[[nodiscard]] std::string to_string(const CaptureFault& fault);

}  // namespace h4a::net
