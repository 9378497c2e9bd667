#include "apps/replay_as.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace h4a::apps {
namespace {

using nlohmann::json;

std::string quote(const PlayDifference& d) {
  std::string text =
      d.only_ours        ? fmt::format("  after frame {}: ours alone: {}", d.frame, d.packet)
      : d.fields.empty() ? fmt::format("  frame {}: not sent by us: {}", d.frame, d.packet)
                         : fmt::format("  frame {}: {}", d.frame, d.packet);
  for (const FieldDifference& f : d.fields)
    text += fmt::format("\n    {}: recorded {}, ours {}", f.field, f.recorded, f.ours);
  return text;
}

void add_count(std::string& text, std::uint64_t n, std::string_view what) {
  if (n > 0) text += fmt::format(", {} {}", n, what);
}

std::string headline(const PlayResult& r) {
  std::string text = fmt::format("{} qp {:#x} against {} qp {:#x}: ", to_string(r.host),
                                 r.own.value(), to_string(r.peer), r.remote.value());
  if (!r.obstacle.empty()) return text + "not played: " + r.obstacle;
  if (r.silent) return text + "not played: the host sent nothing";
  text += fmt::format("{} of {} packets equal", r.equal, r.recorded);
  add_count(text, r.repeated, "repeats equal to the first");
  add_count(text, r.coalesced, "ACKs coalesced");
  add_count(text, r.unrecorded, "of ours lost or repeated");
  add_count(text, r.incomparable, "of messages that were not captured as a whole");
  add_count(text, r.own_changes, "bytes changed by the host's own program");
  if (r.msn_offset != 0) text += fmt::format(", MSN begins at {}", r.msn_offset);
  return text;
}

json to_json(const PlayDifference& d) {
  json fields = json::array();
  for (const FieldDifference& f : d.fields)
    fields.push_back({{"field", f.field}, {"recorded", f.recorded}, {"ours", f.ours}});
  return {{"frame", d.frame},
          {"sent_by", d.only_ours        ? "ours"
                      : d.fields.empty() ? "recorded"
                                         : "both"},
          {"packet", d.packet},
          {"fields", std::move(fields)}};
}

json to_json(const PlayResult& r) {
  json differences = json::array();
  for (const PlayDifference& d : r.differences) differences.push_back(to_json(d));
  json j = {{"host", to_string(r.host)},
            {"peer", to_string(r.peer)},
            {"qp", r.own.value()},
            {"peer_qp", r.remote.value()},
            {"mtu", r.mtu},
            {"recorded", r.recorded},
            {"equal", r.equal},
            {"repeated", r.repeated},
            {"coalesced", r.coalesced},
            {"unrecorded", r.unrecorded},
            {"incomparable", r.incomparable},
            {"own_changes_bytes", r.own_changes},
            {"msn_offset", r.msn_offset},
            {"silent", r.silent},
            {"clean", r.clean()},
            {"differences", std::move(differences)}};
  if (!r.obstacle.empty()) j["obstacle"] = r.obstacle;
  return j;
}

}  // namespace

bool PlayReport::clean() const noexcept {
  return std::all_of(conversations.begin(), conversations.end(),
                     [](const PlayResult& r) { return r.clean(); });
}

PlayReport play_as(const std::vector<RecordedPacket>& packets, const IpAddress& host) {
  Conversations found = conversations_of(packets, host);
  PlayReport report;
  report.left_out = std::move(found.left_out);
  for (const Conversation& c : found.all) report.conversations.push_back(play(c));
  return report;
}

std::string to_text(const PlayReport& report, const std::string& file) {
  std::string text;
  for (const PlayResult& r : report.conversations) {
    if (!file.empty()) text += file + ": ";
    text += headline(r) + "\n";
    for (const PlayDifference& d : r.differences) text += quote(d) + "\n";
  }
  for (const auto& [service, n] : report.left_out)
    text += fmt::format("not played: {} packets of {}\n", n, service);
  text += "not compared:";
  for (const std::string_view what : what_may_differ()) text += fmt::format(" {};", what);
  text.back() = '\n';
  return text;
}

std::string to_json(const PlayReport& report, const std::string& file) {
  std::string text;
  for (const PlayResult& r : report.conversations) {
    json j = to_json(r);
    if (!file.empty()) j["file"] = file;
    text += j.dump() + "\n";
  }
  json left_out = json::object();
  for (const auto& [service, n] : report.left_out) left_out[std::string(service)] = n;
  json summary = {{"conversations", report.conversations.size()},
                  {"clean", report.clean()},
                  {"not_played", std::move(left_out)},
                  {"not_compared", what_may_differ()}};
  if (!file.empty()) summary["file"] = file;
  return text + json{{"summary", std::move(summary)}}.dump() + "\n";
}

}  // namespace h4a::apps
