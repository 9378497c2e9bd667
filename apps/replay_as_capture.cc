#include "apps/replay_as_capture.h"

#include <algorithm>
#include <set>

#include "apps/replay_frame.h"

namespace h4a::apps {
namespace {

/// Packets from one host to one queue pair of another.
struct Flow {
  Qpn to;
  std::vector<const RecordedPacket*> packets;
  std::set<std::uint32_t> requests;  // PSNs
  std::set<std::uint32_t> answers;
};

/// By queue pair number.
using Flows = std::map<std::uint32_t, Flow>;

void add(Flows& flows, const RecordedPacket& p) {
  const net::TransportPacket packet = p.packet();
  Flow& flow = flows[packet.bth().dest_qp().value()];
  flow.to = packet.bth().dest_qp();
  flow.packets.push_back(&p);
  (packet.row().is_request() ? flow.requests : flow.answers).insert(packet.bth().psn().value());
}

std::size_t common(const std::set<std::uint32_t>& a, const std::set<std::uint32_t>& b) {
  return static_cast<std::size_t>(
      std::count_if(a.begin(), a.end(), [&](std::uint32_t v) { return b.contains(v); }));
}

/// How many PSNs of one flow answer requests of the other.
std::size_t kinship(const Flow& in, const Flow& out) {
  return common(in.answers, out.requests) + common(out.answers, in.requests);
}

Conversation merge(const IpAddress& host, const IpAddress& peer, const Flow* in, const Flow* out) {
  const net::Service service = (in != nullptr ? in : out)->packets.front()->packet().row().service;
  Conversation c{
      service, host, peer, in != nullptr ? in->to : Qpn{}, out != nullptr ? out->to : Qpn{}, {}};
  for (const Flow* flow : {in, out})
    if (flow != nullptr)
      c.packets.insert(c.packets.end(), flow->packets.begin(), flow->packets.end());
  std::sort(c.packets.begin(), c.packets.end(),
            [](const auto* a, const auto* b) { return a->frame < b->frame; });
  return c;
}

/// The closest pairs first; what is left talks to itself.
void pair(const IpAddress& host, const IpAddress& peer, Flows in, Flows out,
          std::vector<Conversation>& result) {
  struct Candidate {
    std::size_t kinship;
    std::uint32_t in;
    std::uint32_t out;
  };
  std::vector<Candidate> candidates;
  for (const auto& [a, flow_in] : in)
    for (const auto& [b, flow_out] : out)
      if (const std::size_t k = kinship(flow_in, flow_out); k > 0) candidates.push_back({k, a, b});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.kinship > b.kinship; });
  for (const Candidate& c : candidates) {
    if (!in.contains(c.in) || !out.contains(c.out)) continue;
    result.push_back(merge(host, peer, &in[c.in], &out[c.out]));
    in.erase(c.in);
    out.erase(c.out);
  }
  // One direction alone on each side: they belong together although nothing was answered.
  if (in.size() == 1 && out.size() == 1) {
    result.push_back(merge(host, peer, &in.begin()->second, &out.begin()->second));
    return;
  }
  for (const auto& [number, flow] : in) result.push_back(merge(host, peer, &flow, nullptr));
  for (const auto& [number, flow] : out) result.push_back(merge(host, peer, nullptr, &flow));
}

}  // namespace

std::vector<RecordedPacket> read_packets(Bytes file, EspOpener& opener,
                                         std::optional<net::CaptureFault>& fault) {
  std::vector<RecordedPacket> packets;
  Dissector dissector(opener);
  dissector.on_transport([&](const FrameReport& r, const net::PacketView& view, Bytes packet) {
    packets.push_back({r.frame, view.source, view.destination, {packet.begin(), packet.end()}});
  });
  net::CaptureReader reader(file);
  net::CaptureRecord record;
  for (std::uint64_t number = 1; reader.next(record); ++number)
    static_cast<void>(dissector.dissect(record, number));
  fault = reader.fault();
  return packets;
}

Conversations conversations_of(const std::vector<RecordedPacket>& packets, const IpAddress& host) {
  Conversations result;
  std::map<IpAddress, std::pair<Flows, Flows>> by_peer;
  std::map<std::uint32_t, Conversation> datagrams;  // by the host's number
  for (const RecordedPacket& p : packets) {
    const bool in = p.destination == host;
    if (!in && p.source != host) continue;
    const net::TransportPacket packet = p.packet();
    if (packet.row().service == net::Service::kCnp) {
      ++result.left_out["CNP"];
      continue;
    }
    if (packet.row().service == net::Service::kUd) {
      const Qpn own = in ? packet.bth().dest_qp() : packet.deth().source_qp;
      Conversation& c = datagrams[own.value()];
      if (c.packets.empty())
        c = {net::Service::kUd, host, in ? p.source : p.destination, own, Qpn{}, {}};
      c.packets.push_back(&p);
      continue;
    }
    auto& [flows_in, flows_out] = by_peer[in ? p.source : p.destination];
    add(in ? flows_in : flows_out, p);
  }
  for (auto& [peer, flows] : by_peer)
    pair(host, peer, std::move(flows.first), std::move(flows.second), result.all);
  for (auto& [number, c] : datagrams) result.all.push_back(std::move(c));
  return result;
}

std::vector<IpAddress> hosts_of(const std::vector<RecordedPacket>& packets) {
  std::set<IpAddress> hosts;
  for (const RecordedPacket& p : packets) {
    hosts.insert(p.source);
    hosts.insert(p.destination);
  }
  return {hosts.begin(), hosts.end()};
}

}  // namespace h4a::apps
