#include "apps/rping_session.h"

#include <algorithm>
#include <fmt/format.h>

namespace h4a::apps {

using Type = verbs::CmEvent::Type;

RpingSession::~RpingSession() {
  for (Entry& e : entries_) static_cast<void>(cm_.destroy(e.id));
  if (listener_ != verbs::CmListenerId{}) static_cast<void>(cm_.stop_listening(listener_));
}

bool RpingSession::start(std::string& error) {
  if (options_.task.server) {
    verbs::CmListenOptions o;
    o.local_address = options_.address;
    o.port = options_.port;
    const auto listener = cm_.listen(o);
    if (!listener) {
      error =
          fmt::format("cannot listen on {} port {}: {}",
                      o.local_address.is_unspecified() ? "any address" : to_string(o.local_address),
                      o.port, to_string(listener.error()));
      return false;
    }
    listener_ = *listener;
    return true;
  }
  auto peer = RpingPeer::create(device_, options_.task, error);
  if (!peer) return false;
  verbs::CmConnectOptions o;
  o.local_address = options_.source;
  o.remote_address = options_.address;
  o.port = options_.port;
  o.qp = peer->parameters();
  const auto id = cm_.connect(o);
  if (!id) {
    error = fmt::format("cannot connect to {}: {}", to_string(options_.address),
                        id.error() == Error::kInvalidArgument
                            ? "no route from the addresses of this stack"
                            : to_string(id.error()));
    return false;
  }
  entries_.push_back({*id, std::move(peer)});
  return true;
}

bool RpingSession::poll(Instant now) {
  bool worked = false;
  verbs::CmEvent e;
  while (cm_.poll_event(e)) {
    on_event(e, now);
    worked = true;
  }
  for (Entry& entry : entries_) {
    worked = entry.peer->poll(now) || worked;
    if (!entry.peer->done() || entry.disconnecting || !entry.established) continue;
    entry.disconnecting = true;
    entry.peer->end();
    static_cast<void>(cm_.disconnect(entry.id, {}));
  }
  if (stopping_ && entries_.empty()) over_ = true;
  return worked;
}

void RpingSession::on_event(const verbs::CmEvent& e, Instant now) {
  if (e.type == Type::kConnectRequest) return on_request(e);
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.id == e.id; });
  if (at == entries_.end()) return;
  switch (e.type) {
    case Type::kEstablished:
      at->established = true;
      ++connections_;
      return at->peer->start(now);
    case Type::kRejected:
    case Type::kUnreachable:
      fail(fmt::format("{} {}: {}", to_string(e.remote_address),
                       e.type == Type::kRejected ? "rejects the connection" : "does not answer",
                       to_string(e.reason)));
      break;
    default:
      // The client ends it when it has done what it was told to; a server ends it when it fails.
      if (!options_.task.server && !at->disconnecting) fail("the server ended the connection");
      break;
  }
  finish(static_cast<std::size_t>(at - entries_.begin()));
}

void RpingSession::on_request(const verbs::CmEvent& e) {
  const std::size_t most = options_.persistent ? kPeersMax : 1;
  std::string error;
  auto peer = stopping_ || entries_.size() >= most
                  ? nullptr
                  : RpingPeer::create(device_, options_.task, error);
  if (!peer || !cm_.accept(e.id, {.qp = peer->parameters(), .private_data = {}})) {
    static_cast<void>(cm_.destroy(e.id));  // refuses it
    return fail(std::move(error));
  }
  entries_.push_back({e.id, std::move(peer)});
}

/// The connection is over: the peer's numbers stay, the rest goes.
void RpingSession::finish(std::size_t index) {
  Entry& entry = entries_[index];
  entry.peer->end();
  if (!entry.peer->error().empty()) fail(entry.peer->error());
  finished_ = sum(finished_, entry.peer->times());
  static_cast<void>(cm_.destroy(entry.id));
  const bool established = entry.established;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  // A server waits for the next client if this one never came through.
  if (!options_.task.server || (!options_.persistent && established)) stopping_ = true;
}

void RpingSession::stop() {
  stopping_ = true;
  for (std::size_t i = entries_.size(); i > 0; --i) {
    Entry& entry = entries_[i - 1];
    if (!entry.established) {
      finish(i - 1);
    } else if (!entry.disconnecting) {
      entry.disconnecting = true;
      entry.peer->end();
      static_cast<void>(cm_.disconnect(entry.id, {}));
    }
  }
}

RpingTimes RpingSession::times() const noexcept {
  RpingTimes all = finished_;
  for (const Entry& e : entries_) all = sum(all, e.peer->times());
  return all;
}

RpingTimes RpingSession::sum(RpingTimes a, const RpingTimes& b) noexcept {
  if (b.pings == 0) return a;
  if (a.pings == 0) return b;
  return {a.pings + b.pings, std::min(a.least, b.least), std::max(a.most, b.most), a.sum + b.sum};
}

}  // namespace h4a::apps
