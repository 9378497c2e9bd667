// What `h4a replay` found out about one frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/address.h"
#include "base/drop.h"

namespace h4a::apps {

/// ok: a receiving stack would hand it on. drop: it would discard it, for `reason`. unchecked: nothing
/// in it could be verified, because a key or a suite is missing or because it is another program's.
enum class Verdict : std::uint8_t { kOk, kDrop, kUnchecked };

enum class Check : std::uint8_t {
  kDoesNotApply,  // left out of the output
  kOk,
  kBad,
  kNone,   // there should be one, but the frame is too short to hold it
  kNoKey,  // ICV only
};

struct FrameReport {
  std::uint64_t frame = 0;  // from 1, in its file
  std::int64_t time_ns = 0;
  std::uint32_t size = 0;           // captured bytes
  std::uint32_t original_size = 0;  // on the wire

  std::string_view protocol = "unknown";  // of the outermost packet that is understood
  std::optional<IpAddress> source;        // outer addresses
  std::optional<IpAddress> destination;
  bool bad_ip_checksum = false;
  std::uint8_t vlan_tags = 0;

  std::optional<std::uint32_t> spi;
  std::optional<std::uint64_t> sequence;  // the full number if ESN is known
  std::optional<bool> esn;
  std::string_view mode;   // "transport", "tunnel" of an opened ESP packet
  bool udp_encap = false;  // RFC 3948
  std::string_view suite;  // of the key that was used
  Check icv = Check::kDoesNotApply;
  std::string_view inner_protocol;  // inside ESP
  std::optional<IpAddress> inner_source;
  std::optional<IpAddress> inner_destination;

  std::string_view opcode;
  std::optional<std::uint32_t> dest_qp;
  std::optional<std::uint32_t> psn;
  std::optional<std::uint32_t> payload_bytes;
  std::optional<std::uint8_t> syndrome;
  Check icrc = Check::kDoesNotApply;
  std::uint32_t icrc_on_wire = 0;  // as it was read, if there is one; not printed

  Verdict verdict = Verdict::kOk;
  Drop reason = Drop::kNone;
  std::string_view where;               // the header that is wrong: "ethernet", "ip", "udp", …
  std::optional<std::uint32_t> offset;  // where it begins in the frame, if it is not encrypted

  void drop(Drop why) noexcept { set(Verdict::kDrop, why); }
  void unchecked(Drop why) noexcept { set(Verdict::kUnchecked, why); }

 private:
  void set(Verdict v, Drop why) noexcept {
    verdict = v;
    reason = why;
  }
};

[[nodiscard]] constexpr std::string_view to_string(Verdict v) noexcept {
  switch (v) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kDrop:
      return "drop";
    case Verdict::kUnchecked:
      return "unchecked";
  }
  return "";
}

[[nodiscard]] constexpr std::string_view to_string(Check c) noexcept {
  switch (c) {
    case Check::kDoesNotApply:
      return "";
    case Check::kOk:
      return "ok";
    case Check::kBad:
      return "bad";
    case Check::kNone:
      return "none";
    case Check::kNoKey:
      return "no_key";
  }
  return "";
}

}  // namespace h4a::apps
