#include "drivers_glue/dpdk/port_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

namespace h4a::dpdk {
namespace {

struct KindRow {
  std::string_view prefix;
  PortKind kind;
  std::string_view target;      // what stands behind the prefix
  std::string_view extra_keys;  // beside mtu, mac and frames; each between blanks
  std::size_t target_max;       // longest target
};

// IFNAMSIZ - 1 for interfaces, sizeof(sun_path) - 1 for sockets.
constexpr std::array<KindRow, 6> kKinds{{
    {"ring:", PortKind::kRing, "", "", 15},
    {"memif:", PortKind::kMemif, "a socket path", " role rsize id secret ", 107},
    {"af_packet:", PortKind::kAfPacket, "an interface", "", 15},
    {"af_xdp:", PortKind::kAfXdp, "an interface", " queue ", 15},
    {"tap:", PortKind::kTap, "a name for the new interface", "", 15},
    {"pci:", PortKind::kPci, "a PCI address", "", 31},
}};

constexpr std::string_view kHelp =
    "ring:[NAME]               two ends in one process\n"
    "memif:PATH[,role=server]  shared memory to another process; one side is the server\n"
    "af_packet:IFACE           a kernel interface (needs CAP_NET_RAW)\n"
    "af_xdp:IFACE              a kernel interface, by AF_XDP (needs root)\n"
    "tap:NAME                  a new kernel interface with the stack behind it (needs "
    "CAP_NET_ADMIN)\n"
    "pci:ADDRESS               a network card for DPDK (needs hugepages)\n"
    "net_xxx0,key=value,...    any DPDK device arguments\n"
    "Each short form takes ,mtu=N ,mac=XX:XX:XX:XX:XX:XX and ,frames=N.\n";

tl::unexpected<Error> malformed(std::string& error, std::string text) {
  error = std::move(text);
  return failure(Error::kMalformed);
}

template <class Integer>
bool parse_number(std::string_view text, Integer low, Integer high, Integer& out) noexcept {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc{} && end == text.data() + text.size() && out >= low && out <= high;
}

/// One "key=value" into `spec`. @return what the value should have been, or "" if it was right.
std::string_view apply(std::string_view key, std::string_view value, PortSpec& spec) {
  if (key == "mtu") {
    std::uint16_t mtu = 0;
    if (!parse_number<std::uint16_t>(value, 576, 9100, mtu)) return "576 to 9100";
    spec.mtu = mtu;
  } else if (key == "mac") {
    const auto mac = parse_mac(value);
    if (!mac || mac->is_multicast() || mac->is_zero()) return "a unicast MAC address";
    spec.mac = *mac;
  } else if (key == "frames") {
    std::size_t frames = 0;
    if (!parse_number<std::size_t>(value, 64, 1U << 20, frames)) return "64 to 1048576";
    spec.frames = frames;
  } else if (key == "role") {
    if (value != "server" && value != "client") return "server or client";
    spec.server = value == "server";
  } else if (key == "rsize") {
    if (!parse_number(value, 6U, 14U, spec.ring_log2)) return "6 to 14 (a power of two)";
  } else if (key == "id") {
    if (!parse_number(value, 0U, 0xffff'ffffU, spec.id)) return "a number";
  } else if (key == "secret") {
    if (value.empty() || value.size() > 23) return "1 to 23 characters";
    spec.secret = value;
  } else if (key == "queue") {
    if (!parse_number(value, 0U, 1023U, spec.queue)) return "0 to 1023";
  }
  return "";
}

bool known_key(const KindRow& row, std::string_view key) {
  if (key == "mtu" || key == "mac" || key == "frames") return true;
  return !key.empty() && row.extra_keys.find(fmt::format(" {} ", key)) != std::string_view::npos;
}

Result<PortSpec> parse_short_form(const KindRow& row, std::string_view rest, std::string& error) {
  PortSpec spec;
  spec.kind = row.kind;
  const std::size_t comma = std::min(rest.find(','), rest.size());
  spec.target = rest.substr(0, comma);
  if (spec.target.empty() && !row.target.empty())
    return malformed(error,
                     fmt::format("port {}: {} must follow the colon", row.prefix, row.target));
  if (spec.target.size() > row.target_max)
    return malformed(error, fmt::format("port {}{}: longer than {} characters", row.prefix,
                                        spec.target, row.target_max));
  rest.remove_prefix(comma);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t next = std::min(rest.find(','), rest.size());
    const std::string_view pair = rest.substr(0, next);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    if (!known_key(row, key))
      return malformed(error, fmt::format("port {}{}: unknown option '{}'; known: mtu mac frames{}",
                                          row.prefix, spec.target, key, row.extra_keys));
    if (const std::string_view want = apply(key, value, spec); !want.empty())
      return malformed(error, fmt::format("port {}{}: {}={} should be {}", row.prefix, spec.target,
                                          key, value, want));
    rest.remove_prefix(next);
  }
  return spec;
}

}  // namespace

Result<PortSpec> parse_port_spec(std::string_view text, std::string& error) {
  for (const KindRow& row : kKinds)
    if (text.starts_with(row.prefix))
      return parse_short_form(row, text.substr(row.prefix.size()), error);
  if (text.starts_with("net_") || text.starts_with("eth_")) {
    PortSpec spec;
    spec.kind = PortKind::kDevargs;
    spec.target = text;
    return spec;
  }
  return malformed(error, fmt::format("port '{}' is not understood. Forms are:\n{}", text, kHelp));
}

std::string_view port_spec_help() noexcept {
  return kHelp;
}

}  // namespace h4a::dpdk
