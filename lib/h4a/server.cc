#include "h4a/server.h"

#include <algorithm>
#include <new>
#include <utility>

namespace h4a::http {

Server::Server(verbs::Device& device, verbs::PdId pd, Random& random, Handler& handler,
               const Options& options, Ended ended)
    : device_(device),
      pd_(pd),
      random_(random),
      handler_(handler),
      options_(options),
      ended_(std::move(ended)) {
  sessions_.reserve(options.sessions_max);
}

Server::~Server() {
  for (const Entry& e : sessions_) {
    e.session->abort(SessionError::kClosed);
    if (ended_) ended_(*e.session);
  }
}

Result<void> Server::start() noexcept {
  auto staging = StagingPool::create(device_, pd_, options_.staging_chunks);
  if (!staging) return failure(staging.error());
  staging_ = std::move(*staging);
  return {};
}

Result<ServerSession*> Server::open(std::string client, std::function<void()> settled) noexcept {
  if (!staging_) return failure(Error::kInvalidState);
  if (sessions_.size() >= options_.sessions_max) {
    ++past_.refused;
    return failure(Error::kFull);
  }
  const auto of_client = std::count_if(sessions_.begin(), sessions_.end(),
                                       [&](const Entry& e) { return e.client == client; });
  if (!client.empty() && static_cast<std::uint64_t>(of_client) >= options_.sessions_per_client) {
    ++past_.refused;
    return failure(Error::kBusy);
  }
  std::unique_ptr<ServerSession> session(new (std::nothrow) ServerSession(
      device_, pd_, random_, handler_, *staging_, options_.session));
  if (!session) return failure(Error::kNoMemory);
  if (const auto opened = session->open(); !opened) return failure(opened.error());
  ++past_.sessions;
  sessions_.push_back({std::move(session), std::move(client), std::move(settled)});
  return sessions_.back().session.get();
}

std::size_t Server::poll(Instant now) noexcept {
  std::size_t work = 0;
  if (staging_) staging_->begin_turn(options_.reads_per_turn);
  if (!sessions_.empty()) {  // the reads of a turn go to another session first in the next
    first_ = (first_ + 1) % sessions_.size();
    std::swap(sessions_[0], sessions_[first_]);
  }
  for (std::size_t i = 0; i < sessions_.size();) {
    ServerSession& s = *sessions_[i].session;
    if (s.state() == SessionState::kBound) s.abort(SessionError::kNotConfirmed);
    work += s.poll(now);
    if (s.state() > SessionState::kConfirming)
      if (const auto settled = std::exchange(sessions_[i].settled, {})) settled();
    if (!s.ended()) {
      ++i;
      continue;
    }
    if (ended_) ended_(s);
    add(past_, s);
    sessions_[i] = std::move(sessions_.back());
    sessions_.pop_back();
  }
  return work;
}

void Server::on_event(const verbs::AsyncEvent& event) noexcept {
  for (const Entry& e : sessions_) handle_sa_event(*e.session, event);
}

Instant Server::next_deadline() const noexcept {
  Instant next = Instant::never();
  for (const Entry& e : sessions_) next = std::min(next, e.session->next_deadline());
  return next;
}

void Server::close(Instant now) noexcept {
  for (const Entry& e : sessions_) e.session->close(now);
}

void Server::add(Counters& sum, const ServerSession& s) noexcept {
  const SessionCounters& c = s.counters();
  sum.requests += c.requests;
  sum.responses += c.responses;
  sum.body_bytes += c.body_bytes_placed + c.body_bytes_inline;
}

Server::Counters Server::counters() const noexcept {
  Counters sum = past_;
  for (const Entry& e : sessions_) add(sum, *e.session);
  return sum;
}

}  // namespace h4a::http
