// Link headers of captures. Spec: tcpdump.org/linktypes: LINKTYPE_LINUX_SLL, LINUX_SLL2, NULL, LOOP, NFLOG.
#include "apps/replay_link.h"

#include "net/ether.h"

namespace h4a::apps {
namespace {

using Kind = LinkPayload::Kind;

LinkPayload none(Drop drop) noexcept {
  return {Kind::kNone, drop, {}};
}

LinkPayload after(Bytes bytes, std::size_t header) noexcept {
  if (bytes.size() < header) return none(Drop::kTruncated);
  return {Kind::kIp, Drop::kNone, bytes.subspan(header)};
}

/// A cooked header names its payload by an Ethernet type.
LinkPayload cooked(Bytes bytes, std::size_t header, std::size_t type_at) noexcept {
  if (bytes.size() < header) return none(Drop::kTruncated);
  const Bytes payload = bytes.subspan(header);
  switch (static_cast<net::EtherType>(load_be16(&bytes[type_at]))) {
    case net::EtherType::kIpv4:
    case net::EtherType::kIpv6:
      return {Kind::kIp, Drop::kNone, payload};
    case net::EtherType::kArp:
      return {Kind::kArp, Drop::kNone, payload};
    default:
      return none(Drop::kUnknownEthertype);
  }
}

// A header of 4 bytes, then TLVs: length (its own 4 bytes included) and type in the byte order of the
// capturing host, data, padded to 4. Type 9 is the packet. The first length tells the byte order: it
// is small, so its high byte is 0.
LinkPayload nflog(Bytes bytes) noexcept {
  constexpr std::size_t kHeader = 4;
  constexpr std::uint64_t kPayload = 9;
  if (bytes.size() < kHeader + 4) return none(Drop::kTruncated);
  const bool big_endian = bytes[kHeader] == 0 && bytes[kHeader + 1] != 0;
  const auto load = [big_endian](const std::uint8_t* p) {
    return big_endian ? load_be<2>(p) : load_le<2>(p);
  };
  for (Bytes rest = bytes.subspan(kHeader); rest.size() >= 4;) {
    const std::size_t size = load(rest.data());
    const std::uint64_t type = load(&rest[2]) & 0x7fff;
    if (size < 4 || size > rest.size()) return none(Drop::kTruncated);
    if (type == kPayload) return {Kind::kIp, Drop::kNone, rest.subspan(4, size - 4)};
    const std::size_t padded = (size + 3) & ~std::size_t{3};
    if (padded >= rest.size()) break;
    rest = rest.subspan(padded);
  }
  return none(Drop::kTruncated);
}

}  // namespace

LinkPayload link_payload(const net::CaptureRecord& record) noexcept {
  const Bytes bytes = record.bytes;
  switch (record.link_type) {
    case net::LinkType::kEthernet:
      return {Kind::kEthernet, Drop::kNone, bytes};
    case net::LinkType::kRawIp:
    case net::LinkType::kRawIpv4:
    case net::LinkType::kRawIpv6:
      return {Kind::kIp, Drop::kNone, bytes};
    // The address family's number differs between systems; the IP version in the packet does not.
    case net::LinkType::kNull:
    case net::LinkType::kLoop:
      return after(bytes, 4);
    case net::LinkType::kLinuxSll:
      return cooked(bytes, 16, 14);
    case net::LinkType::kLinuxSll2:
      return cooked(bytes, 20, 0);
    case net::LinkType::kNflog:
      return nflog(bytes);
  }
  return none(Drop::kUnknownLinkType);
}

std::string_view to_string(net::LinkType type) noexcept {
  switch (type) {
    case net::LinkType::kEthernet:
      return "ethernet";
    case net::LinkType::kRawIp:
    case net::LinkType::kRawIpv4:
    case net::LinkType::kRawIpv6:
      return "raw_ip";
    case net::LinkType::kNull:
    case net::LinkType::kLoop:
      return "loopback";
    case net::LinkType::kLinuxSll:
    case net::LinkType::kLinuxSll2:
      return "linux_cooked";
    case net::LinkType::kNflog:
      return "nflog";
  }
  return "other";
}

}  // namespace h4a::apps
