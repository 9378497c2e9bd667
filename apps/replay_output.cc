// Text and JSON of `h4a replay`. The fields of the JSON are those of README and `h4a replay --help`; new
// ones may be added, none changes its meaning.
#include "apps/replay_output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace h4a::apps {
namespace {

using Json = nlohmann::ordered_json;

/// File names may hold any bytes; the output is UTF-8 nevertheless.
std::string dump(const Json& j) {
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void put(Json& j, const char* name, std::string_view value) {
  if (!value.empty()) j[name] = value;
}

template <class T>
void put(Json& j, const char* name, const std::optional<T>& value) {
  if (value) j[name] = *value;
}

void put(Json& j, const char* name, const std::optional<IpAddress>& ip) {
  if (ip) j[name] = to_string(*ip);
}

Json counts(const DropCounters& counters) {
  Json j = Json::object();
  counters.for_each([&j](Drop reason, std::uint64_t n) { j[std::string(to_string(reason))] = n; });
  return j;
}

template <class Key>
Json counts(const std::map<Key, std::uint64_t>& counters) {
  Json j = Json::object();
  for (const auto& [key, n] : counters) j[std::string(to_string(key))] = n;
  return j;
}

std::uint64_t count(const ReplaySummary& s, Verdict v) {
  const auto at = s.verdicts.find(v);
  return at == s.verdicts.end() ? 0 : at->second;
}

std::string text_addresses(const std::optional<IpAddress>& from,
                           const std::optional<IpAddress>& to) {
  return from && to ? fmt::format("  {} > {}", to_string(*from), to_string(*to)) : std::string();
}

std::string text_esp(const FrameReport& r) {
  if (!r.spi) return {};
  std::string s = fmt::format("  spi 0x{:08x} seq {}", *r.spi, r.sequence.value_or(0));
  if (r.esn.value_or(false)) s += " esn";
  if (r.udp_encap) s += " in udp";
  if (!r.mode.empty()) s += fmt::format(" {} {}", r.mode, r.inner_protocol);
  return s;
}

std::string text_roce(const FrameReport& r) {
  if (r.opcode.empty()) return {};
  std::string s =
      fmt::format("  {} qp 0x{:06x} psn {}", r.opcode, r.dest_qp.value_or(0), r.psn.value_or(0));
  if (r.payload_bytes.value_or(0) != 0) s += fmt::format(" {} bytes", *r.payload_bytes);
  if (r.syndrome) s += fmt::format(" syndrome 0x{:02x}", *r.syndrome);
  return s;
}

std::string text_checks(const FrameReport& r) {
  std::string s;
  if (r.icv != Check::kDoesNotApply) s += fmt::format("  icv {}", to_string(r.icv));
  if (r.icrc != Check::kDoesNotApply) s += fmt::format("  icrc {}", to_string(r.icrc));
  if (r.bad_ip_checksum) s += "  ip checksum bad";
  return s;
}

std::string text_verdict(const FrameReport& r) {
  std::string s = fmt::format("  {}", to_string(r.verdict));
  if (r.reason == Drop::kNone) return s;
  s += fmt::format(": {}", to_string(r.reason));
  if (!r.where.empty()) s += fmt::format(" in {}", r.where);
  if (r.offset) s += fmt::format(" at byte {}", *r.offset);
  return s;
}

}  // namespace

void ReplaySummary::add(const FrameReport& r) {
  ++frames;
  ++verdicts[r.verdict];
  ++protocols[r.protocol];
  if (r.icrc != Check::kDoesNotApply) ++icrc[r.icrc];
  if (r.icv != Check::kDoesNotApply) ++icv[r.icv];
  if (r.verdict == Verdict::kDrop) drops.add(r.reason);
  if (r.verdict == Verdict::kUnchecked) unchecked.add(r.reason);
}

std::string to_json(const FrameReport& r, const std::string& file) {
  Json j;
  put(j, "file", file);
  j["frame"] = r.frame;
  j["protocol"] = r.protocol;
  put(j, "source", r.source);
  put(j, "destination", r.destination);
  if (r.vlan_tags != 0) j["vlan_tags"] = r.vlan_tags;
  put(j, "spi", r.spi);
  put(j, "sequence", r.sequence);
  put(j, "esn", r.esn);
  if (r.udp_encap) j["udp_encap"] = true;
  put(j, "mode", r.mode);
  put(j, "icv", to_string(r.icv));
  put(j, "inner_protocol", r.inner_protocol);
  put(j, "inner_source", r.inner_source);
  put(j, "inner_destination", r.inner_destination);
  put(j, "opcode", r.opcode);
  put(j, "dest_qp", r.dest_qp);
  put(j, "psn", r.psn);
  put(j, "payload_bytes", r.payload_bytes);
  put(j, "syndrome", r.syndrome);
  put(j, "icrc", to_string(r.icrc));
  if (r.bad_ip_checksum) j["ip_checksum"] = "bad";
  j["verdict"] = to_string(r.verdict);
  if (r.reason != Drop::kNone) j["reason"] = to_string(r.reason);
  put(j, "where", r.where);
  put(j, "offset", r.offset);
  return dump(j);
}

std::string to_json(const ReplaySummary& s) {
  Json j;
  j["files"] = s.files;
  j["frames"] = s.frames;
  for (const Verdict v : {Verdict::kOk, Verdict::kDrop, Verdict::kUnchecked})
    j[std::string(to_string(v))] = count(s, v);
  j["protocols"] = Json::object();
  for (const auto& [name, n] : s.protocols) j["protocols"][std::string(name)] = n;
  j["icrc"] = counts(s.icrc);
  j["icv"] = counts(s.icv);
  j["drops"] = counts(s.drops);
  j["unchecked_reasons"] = counts(s.unchecked);
  for (const FileError& e : s.errors) j["errors"].push_back({{"file", e.file}, {"error", e.what}});
  return dump(Json{{"summary", j}});
}

std::string to_text(const FrameReport& r, const std::string& file) {
  std::string s = file.empty() ? std::string() : file + ": ";
  s += fmt::format("{:6}  {}", r.frame, r.protocol);
  s += text_addresses(r.source, r.destination);
  s += text_esp(r);
  s += text_addresses(r.inner_source, r.inner_destination);
  s += text_roce(r);
  s += text_checks(r);
  return s + text_verdict(r);
}

std::string to_text(const ReplaySummary& s) {
  std::string out =
      fmt::format("{} frame{} in {} file{}: {} ok, {} drop, {} unchecked\n", s.frames,
                  s.frames == 1 ? "" : "s", s.files, s.files == 1 ? "" : "s",
                  count(s, Verdict::kOk), count(s, Verdict::kDrop), count(s, Verdict::kUnchecked));
  for (const auto& [name, n] : s.protocols) out += fmt::format("  {:<22} {}\n", name, n);
  for (const auto& [check, n] : s.icrc)
    out += fmt::format("  icrc {:<17} {}\n", to_string(check), n);
  for (const auto& [check, n] : s.icv) out += fmt::format("  icv {:<18} {}\n", to_string(check), n);
  const auto reasons = [&out](std::string_view verdict, const DropCounters& counters) {
    counters.for_each([&](Drop reason, std::uint64_t n) {
      out += fmt::format("  {} {:<{}} {}  ({})\n", verdict, to_string(reason), 21 - verdict.size(),
                         n, info(reason).text);
    });
  };
  reasons("drop", s.drops);
  reasons("unchecked", s.unchecked);
  for (const FileError& e : s.errors) out += fmt::format("  error {}: {}\n", e.file, e.what);
  return out;
}

}  // namespace h4a::apps
