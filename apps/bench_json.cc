#include "apps/bench_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace h4a::apps {
namespace {

using nlohmann::json;

std::string hex(Bytes bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool parse_hex(std::string_view text, MutableBytes out) noexcept {
  if (text.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    unsigned value = 0;
    for (const char c : text.substr(2 * i, 2)) {
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<unsigned>(c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + static_cast<unsigned>(c - 'a') + 10;
      else
        return false;
    }
    out[i] = static_cast<std::uint8_t>(value);
  }
  return true;
}

/// j[key], or 0 if it is no number of that kind.
std::uint64_t number(const json& j, const char* key) {
  const auto at = j.is_object() ? j.find(key) : j.end();
  return at != j.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

/// j[key], or "".
std::string text(const json& j, const char* key) {
  const auto at = j.is_object() ? j.find(key) : j.end();
  return at != j.end() && at->is_string() ? at->get<std::string>() : std::string();
}

json drops_json(const DropCounters& drops) {
  json j = json::object();
  drops.for_each([&](Drop reason, std::uint64_t n) { j[std::string(to_string(reason))] = n; });
  return j;
}

/// Cycles a packet by stage.
json stages_json(const BenchRow& row) {
  json j = json::object();
  for (std::size_t i = 0; i < kBenchStages.size(); ++i)
    j[std::string(kBenchStages[i])] = row.stage_cycles_per_packet(i);
  return j;
}

}  // namespace

std::string_view name_of(BenchOperation operation) noexcept {
  switch (operation) {
    case BenchOperation::kWrite:
      return "write";
    case BenchOperation::kRead:
      return "read";
    case BenchOperation::kSend:
      return "send";
  }
  return "";
}

std::string to_line(const BenchContact& c) {
  return json{
      {"ip", to_string(c.ip)},   {"qpn", c.qpn.value()}, {"psn", c.psn.value()},
      {"spi", c.spi.value()},    {"address", c.address}, {"rkey", c.rkey.value()},
      {"path_mtu", c.path_mtu},  {"clear", c.clear},     {"operation", name_of(c.operation)},
      {"key", hex(c.public_key)}}
      .dump();
}

Result<BenchContact> parse_contact(std::string_view line) {
  const json j = json::parse(line, nullptr, false);
  const std::string ip = text(j, "ip");
  const auto address = IpAddress::parse(ip);
  const std::string operation = text(j, "operation");
  BenchContact c;
  if (!address || !j.contains("clear") || !j["clear"].is_boolean() ||
      !parse_hex(text(j, "key"), c.public_key))
    return failure(Error::kMalformed);
  if (operation == name_of(BenchOperation::kRead))
    c.operation = BenchOperation::kRead;
  else if (operation == name_of(BenchOperation::kSend))
    c.operation = BenchOperation::kSend;
  else if (operation != name_of(BenchOperation::kWrite))
    return failure(Error::kMalformed);
  c.ip = *address;
  c.qpn = Qpn(static_cast<std::uint32_t>(number(j, "qpn")));
  c.psn = Psn(static_cast<std::uint32_t>(number(j, "psn")));
  c.spi = Spi(static_cast<std::uint32_t>(number(j, "spi")));
  c.address = number(j, "address");
  c.rkey = Rkey(static_cast<std::uint32_t>(number(j, "rkey")));
  c.path_mtu = static_cast<std::uint16_t>(number(j, "path_mtu"));
  c.clear = j["clear"].get<bool>();
  return c;
}

std::string to_line(const BenchCommand& c) {
  return json{{"size", c.size}, {"seed", c.seed}}.dump();
}

Result<BenchCommand> parse_command(std::string_view line) {
  const json j = json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("size")) return failure(Error::kMalformed);
  const std::uint64_t size = number(j, "size");
  if (size > kBenchMessageMax) return failure(Error::kMalformed);
  return BenchCommand{size, static_cast<std::uint8_t>(number(j, "seed"))};
}

std::string to_line(const BenchReport& r) {
  const BenchUsage& u = r.usage;
  return json{{"busy_cycles", u.busy_cycles},
              {"stages", u.stages},
              {"busy_packets", u.busy_packets},
              {"packets", u.packets},
              {"interrupted_turns", u.interrupted_turns},
              {"retransmitted", u.retransmitted},
              {"cycles_per_second", u.cycles_per_second},
              {"drops", drops_json(u.drops)},
              {"intact", r.intact}}
      .dump();
}

Result<BenchReport> parse_report(std::string_view line) {
  const json j = json::parse(line, nullptr, false);
  if (!j.is_object() || !j.contains("cycles_per_second") || !j["cycles_per_second"].is_number() ||
      !j.contains("intact") || !j["intact"].is_boolean() || !j.contains("drops") ||
      !j.contains("stages") || !j["stages"].is_array() || j["stages"].size() != kBenchStages.size())
    return failure(Error::kMalformed);
  BenchReport r;
  r.intact = j["intact"].get<bool>();
  r.usage.busy_cycles = number(j, "busy_cycles");
  const json& stages = j["stages"];
  for (std::size_t i = 0; i < r.usage.stages.size(); ++i)
    if (stages[i].is_number_unsigned()) r.usage.stages[i] = stages[i].get<std::uint64_t>();
  r.usage.busy_packets = number(j, "busy_packets");
  r.usage.packets = number(j, "packets");
  r.usage.interrupted_turns = number(j, "interrupted_turns");
  r.usage.retransmitted = number(j, "retransmitted");
  r.usage.cycles_per_second = j["cycles_per_second"].get<double>();
  for (std::size_t i = 1; i < kDropCount; ++i) {
    const auto reason = static_cast<Drop>(i);
    r.usage.drops.add(reason, number(j["drops"], std::string(to_string(reason)).c_str()));
  }
  return r;
}

std::string bench_json(const BenchOptions& options, std::size_t path_mtu,
                       const std::vector<BenchRow>& rows) {
  json list = json::array();
  for (const BenchRow& r : rows)
    list.push_back({{"bytes", r.size},
                    {"iterations", r.timing.iterations},
                    {"seconds", r.timing.seconds},
                    {"bw_peak_gbps", r.peak_gbps()},
                    {"bw_average_gbps", r.average_gbps()},
                    {"msg_rate_mpps", r.message_rate_mpps()},
                    {"goodput_gbps", r.goodput_gbps()},
                    {"packets", r.receiver.packets},
                    {"cycles_per_packet", r.cycles_per_packet()},
                    {"driver_cycles_per_packet", r.driver_cycles_per_packet()},
                    {"own_cycles_per_packet", r.own_cycles_per_packet()},
                    {"ceiling_ratio", r.ceiling_ratio()},
                    {"ceiling_cycles", r.ceiling.open_copy_128.cycles},
                    {"stages", stages_json(r)},
                    {"open_cycles", r.loops.open},
                    {"crc_cycles", r.loops.crc},
                    {"copy_cycles", r.loops.copy},
                    {"interrupted_turns", r.receiver.interrupted_turns},
                    {"retransmitted", r.retransmitted},
                    {"drops", drops_json(r.drops)}});
  return json{{"operation", name_of(options.operation)},
              {"clear", options.clear},
              {"path_mtu", path_mtu},
              {"depth", options.depth},
              {"rows", list}}
      .dump();
}

}  // namespace h4a::apps
