// The client's half of a session. See client_session.h.
#include "h4a/client_session.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace h4a::http {

using verbs::WindowStatus;
using verbs::WrOpcode;

// In the send queue each request needs a bind, a SEND and a local invalidation.
ClientSession::ClientSession(verbs::Device& device, verbs::PdId pd, Random& random,
                             const SessionOptions& options)
    : Session(device, pd, random, options, true, options.max_requests, 3 * options.max_requests) {}

ClientSession::~ClientSession() {
  abort(SessionError::kClosed);
}

Result<void> ClientSession::on_open() noexcept {
  requests_.resize(options_.max_requests);
  queue_.resize(options_.max_requests);
  for (Pending& p : requests_) {
    const auto window = device_.alloc_window(pd_);
    if (!window) return failure(window.error());
    p.window = window->id;
    p.has_window = true;
  }
  return {};
}

std::uint32_t ClientSession::free_requests() const noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(requests_.begin(), requests_.end(),
                    [](const Pending& p) { return p.stage == Stage::kFree; }));
}

std::uint32_t ClientSession::index_of(const Pending& p) const noexcept {
  return static_cast<std::uint32_t>(&p - requests_.data());
}

ClientSession::Pending* ClientSession::find(RequestId id) noexcept {
  for (Pending& p : requests_)
    if (p.stage != Stage::kFree && p.id == id) return &p;
  return nullptr;
}

// ---- asking ----

Result<RequestId> ClientSession::submit(const RequestHead& head, const SinkBuffer& sink,
                                        Duration timeout, ResponseListener& listener,
                                        Instant now) noexcept {
  if (ending() || draining() ||
      (state() != SessionState::kConfirming && state() != SessionState::kOpen))
    return failure(Error::kClosed);
  if (const auto fine = check(head, sink, timeout); !fine) return failure(fine.error());
  const auto free = std::find_if(requests_.begin(), requests_.end(),
                                 [](const Pending& p) { return p.stage == Stage::kFree; });
  if (free == requests_.end()) return failure(Error::kFull);
  Pending& p = *free;
  const auto bytes = encode_request(p, head, sink, timeout);
  if (!bytes) return failure(bytes.error());
  p.begin(RequestId(next_id_++), listener, now + timeout, sink, static_cast<std::uint32_t>(*bytes));
  queue_[(queue_head_ + queue_count_++) % queue_.size()] = index_of(p);
  ++counters_.requests;
  return p.id;
}

Result<void> ClientSession::check(const RequestHead& head, const SinkBuffer& sink,
                                  Duration timeout) const noexcept {
  if (timeout <= Duration() || timeout > Duration::s(86400))
    return failure(Error::kInvalidArgument);
  if (sink.length > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(sink.address))
    return failure(Error::kInvalidArgument);
  if (!carries(head.authority)) return failure(Error::kAccess);
  if (in_use(sink)) return failure(Error::kBusy);
  return {};
}

// RFC 9110 §4.2.2: an https authority without a port is the one with port 443.
bool ClientSession::carries(std::string_view authority) const noexcept {
  constexpr std::string_view kDefaultPort = ":443";
  const auto without_default = [&](std::string_view a) {
    return a.ends_with(kDefaultPort) ? a.substr(0, a.size() - kDefaultPort.size()) : a;
  };
  const auto& carried = peer().authorities;
  return carried.empty() || std::any_of(carried.begin(), carried.end(), [&](const std::string& a) {
           return equals_ignoring_case(without_default(a), without_default(authority));
         });
}

// Two bodies in the same bytes would each be verified, and then one overwritten by the other.
bool ClientSession::in_use(const SinkBuffer& sink) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(sink.address);
  return std::any_of(requests_.begin(), requests_.end(), [&](const Pending& p) {
    const auto other = reinterpret_cast<std::uintptr_t>(p.sink.address);
    return p.stage != Stage::kFree && p.stage != Stage::kDone && sink.length > 0 &&
           begin < other + p.sink.length && other < begin + sink.length;
  });
}

void ClientSession::Pending::begin(RequestId new_id, ResponseListener& l, Instant until,
                                   const SinkBuffer& buffer, std::uint32_t bytes) noexcept {
  const Pending kept = *this;
  *this = Pending{};
  window = kept.window;
  has_window = kept.has_window;
  rkey = kept.rkey;
  stage = Stage::kQueued;
  id = new_id;
  listener = &l;
  deadline = until;
  sink = buffer;
  message_bytes = bytes;
  in_queue = true;
}

Result<std::size_t> ClientSession::encode_request(Pending& p, const RequestHead& head,
                                                  const SinkBuffer& sink,
                                                  Duration timeout) noexcept {
  RequestFrame frame;
  frame.id = RequestId(next_id_);
  frame.head = head;
  frame.deadline_us = static_cast<std::uint64_t>(timeout.count_ns() / 1000);
  if (sink.length > 0) {
    const auto rkey = device_.fresh_rkey(p.window);
    if (!rkey) return failure(rkey.error());
    p.rkey = *rkey;
    frame.sink = Region{reinterpret_cast<std::uintptr_t>(sink.address), sink.length, *rkey};
  }
  const auto bytes = encode(frame, message_slot(index_of(p)));
  if (!bytes && bytes.error() == Error::kFull) return failure(Error::kInvalidArgument);
  return bytes;
}

void ClientSession::cancel(RequestId id) noexcept {
  if (Pending* p = find(id)) p->cancel_wanted = true;
}

// ---- the turn ----

std::size_t ClientSession::on_turn() noexcept {
  std::size_t work = 0;
  for (Pending& p : requests_)
    if (p.stage == Stage::kQueued || p.stage == Stage::kSent || p.stage == Stage::kRevoking)
      work += mind(p);
  if (state() == SessionState::kOpen && !ending()) work += send_queued();
  return work;
}

// Deadlines and cancellations of one request, and what remains to be done for one given up.
std::size_t ClientSession::mind(Pending& p) noexcept {
  if (!p.told && (p.cancel_wanted || now() >= p.deadline)) {
    give_up(p, p.cancel_wanted ? Outcome::kCancelled : Outcome::kTimeout);
    return 1;
  }
  if (p.stage != Stage::kSent || !p.told) return 0;
  if (p.cancel_to_send) p.cancel_to_send = !send_control(CancelFrame{p.id});
  // The bind may still be in the send queue: then there is nothing to retire yet.
  if (p.to_retire) p.to_retire = !device_.retire_window(p.window);
  if (now() >= p.answer_by) fail(SessionError::kUnresponsive);
  return 0;
}

// The request completes now; its sink stays out of reach until the peer's final frame (DESIGN D4).
void ClientSession::give_up(Pending& p, Outcome outcome) noexcept {
  if (p.stage == Stage::kQueued) {
    tell_outcome(p, outcome, false);
    return release(p);
  }
  if (p.stage == Stage::kSent) {
    p.to_retire = p.window_live;
    p.cancel_to_send = true;
    p.answer_by = now() + options_.cancel_grace;
    ++counters_.cancels;
  }
  tell_outcome(p, outcome, true);
}

std::size_t ClientSession::send_queued() noexcept {
  const std::uint32_t limit = peer_settings_.max_requests == 0
                                  ? options_.max_requests
                                  : std::min(options_.max_requests, peer_settings_.max_requests);
  std::size_t sent = 0;
  while (queue_count_ > 0) {
    Pending& p = requests_[queue_[queue_head_]];
    const bool queued = p.stage == Stage::kQueued;  // not given up meanwhile
    if (queued && (in_flight_ >= limit || !send(p))) break;
    queue_head_ = (queue_head_ + 1) % static_cast<std::uint32_t>(queue_.size());
    --queue_count_;
    p.in_queue = false;
    free_if_done(p);
    ++sent;
  }
  return sent;
}

// Bind and Request leave in one batch: the peer cannot have the key before the window has it.
bool ClientSession::send(Pending& p) noexcept {
  verbs::SendWr bind = work_request(WrOpcode::kBindWindow);
  bind.window = p.window;
  bind.region = p.sink.region;
  bind.bind_address = reinterpret_cast<std::uintptr_t>(p.sink.address);
  bind.bind_length = p.sink.length;
  bind.bind_access = verbs::Access::kRemoteWrite;
  bind.rkey = p.rkey;
  const bool with_window = p.sink.length > 0;
  if (!post_message(index_of(p), p.message_bytes, nullptr, with_window ? &bind : nullptr))
    return false;
  p.stage = Stage::kSent;
  p.window_live = with_window;
  p.work_pending = with_window ? 2 : 1;
  ++in_flight_;
  return true;
}

// ---- the answer ----

Session::Buffer ClientSession::on_frame(const Frame& frame, const verbs::Completion& completion,
                                        std::uint32_t receive) noexcept {
  if (const auto* response = std::get_if<ResponseFrame>(&frame.body))
    return on_response(*response, completion, receive);
  fail(SessionError::kProtocol);  // Request and Cancel are the client's to send
  return Buffer::kDone;
}

Session::Buffer ClientSession::on_response(const ResponseFrame& frame,
                                           const verbs::Completion& completion,
                                           std::uint32_t receive) noexcept {
  Pending* const p = find(frame.id);
  if (p == nullptr || p->stage != Stage::kSent) {
    fail(SessionError::kProtocol);
    return Buffer::kDone;
  }
  if (completion.has_invalidate) {
    if (!p->window_live || completion.invalidated_rkey != p->rkey) {
      fail(SessionError::kWrongWindow);
      return Buffer::kDone;
    }
    p->window_live = false;
  }
  --in_flight_;
  if (!p->window_live) {
    finish(*p, frame);
    return Buffer::kDone;
  }
  // DESIGN D4: the window is alive, so we kill it ourselves and look at the body after that.
  p->stage = Stage::kRevoking;
  p->receive = receive;
  verbs::SendWr wr = work_request(WrOpcode::kLocalInvalidate);
  wr.invalidate_rkey = p->rkey;
  if (!post_work(wr, Work::kInvalidate, index_of(*p))) {
    fail_local(Error::kFull);
    return Buffer::kDone;
  }
  ++p->work_pending;
  return Buffer::kHeld;
}

void ClientSession::on_work_done(Work work, std::uint32_t index) noexcept {
  Pending& p = requests_[index];
  --p.work_pending;
  if (work == Work::kInvalidate) return on_revoked(p);
  free_if_done(p);
}

void ClientSession::on_revoked(Pending& p) noexcept {
  p.window_live = false;
  const std::uint32_t receive = p.receive;
  const auto frame = held_frame(receive);
  const auto* response = frame ? std::get_if<ResponseFrame>(&frame->body) : nullptr;
  if (response == nullptr) return fail(SessionError::kMalformed);
  finish(p, *response);
  release_receive(receive);
}

// The window is dead: what is in the sink now stays. Is it what the peer says it is? (DESIGN D6)
bool ClientSession::body_holds(const Pending& p, const ResponseFrame& frame) noexcept {
  switch (frame.place) {
    case BodyPlace::kNone:
    case BodyPlace::kNotSent:
      return true;
    case BodyPlace::kInline:
      if (p.sink.length == 0 || frame.inline_body.size() <= p.sink.length) return true;
      break;
    case BodyPlace::kPlaced: {
      if (p.sink.length == 0 || frame.placed_bytes > p.sink.length) break;
      const auto status = device_.window_status(p.window);
      if (status && status->state == WindowStatus::State::kInvalidated &&
          status->contiguous_bytes >= frame.placed_bytes)
        return true;
      fail(SessionError::kPlacedShort);
      return false;
    }
    case BodyPlace::kSource:
      break;  // pull mode: not offered
  }
  fail(SessionError::kProtocol);
  return false;
}

void ClientSession::finish(Pending& p, const ResponseFrame& frame) noexcept {
  if (p.told) return release(p);
  // From here on the request is as good as unanswered if its body does not hold: on_ended() tells.
  p.stage = Stage::kRevoking;
  if (!body_holds(p, frame)) return;
  Response response;
  response.status = frame.status;
  response.headers = frame.headers;
  response.body_sent = frame.place != BodyPlace::kNotSent;
  response.body_length = frame.body_length;
  if (frame.place == BodyPlace::kPlaced) {
    response.body = {static_cast<const std::uint8_t*>(p.sink.address),
                     static_cast<std::size_t>(frame.placed_bytes)};
    counters_.body_bytes_placed += frame.placed_bytes;
  } else if (frame.place == BodyPlace::kInline) {
    response.body = frame.inline_body;
    if (p.sink.length > 0 && !frame.inline_body.empty()) {
      std::memcpy(p.sink.address, frame.inline_body.data(), frame.inline_body.size());
      response.body = {static_cast<const std::uint8_t*>(p.sink.address), frame.inline_body.size()};
    }
    counters_.body_bytes_inline += frame.inline_body.size();
  }
  ++counters_.responses;
  tell(p, response);
  release(p);
}

// ---- telling ----

void ClientSession::tell(Pending& p, const Response& response) noexcept {
  H4A_ASSERT(!p.told);
  p.told = true;
  p.listener->on_response(p.id, response);
}

void ClientSession::tell_outcome(Pending& p, Outcome outcome, bool maybe_processed) noexcept {
  Response response;
  response.outcome = outcome;
  response.body_sent = false;
  response.maybe_processed = maybe_processed;
  tell(p, response);
}

// No peer reaches the sink any more. The slot waits for its own work requests.
void ClientSession::release(Pending& p) noexcept {
  H4A_ASSERT(p.told && !p.window_live);
  p.stage = Stage::kDone;
  free_if_done(p);
  p.listener->on_sink_released(p.id);
}

void ClientSession::free_if_done(Pending& p) noexcept {
  if (p.stage == Stage::kDone && p.work_pending == 0 && !p.in_queue) p.stage = Stage::kFree;
}

bool ClientSession::requests_in_flight() const noexcept {
  return std::any_of(requests_.begin(), requests_.end(), [](const Pending& p) {
    return p.stage != Stage::kFree && p.stage != Stage::kDone;
  });
}

Instant ClientSession::on_next_deadline() const noexcept {
  Instant next = Instant::never();
  for (const Pending& p : requests_) {
    if (p.stage == Stage::kFree || p.stage == Stage::kDone) continue;
    next = std::min(next, p.told ? p.answer_by : p.deadline);
  }
  return next;
}

// What the server will not answer is told now. The windows of those stay retired until the session ends.
void ClientSession::on_drain() noexcept {
  for (Pending& p : requests_) {
    if (p.stage == Stage::kQueued) {
      tell_outcome(p, Outcome::kRefused, false);
      release(p);
    } else if (p.stage == Stage::kSent && peer_drains() && p.id > go_away_last_id()) {
      p.refused = true;
      p.to_retire = p.window_live;
      p.answer_by = Instant::never();
      p.cancel_to_send = false;
      if (!p.told) tell_outcome(p, Outcome::kRefused, false);
    }
  }
}

bool ClientSession::drained() const noexcept {
  return std::none_of(requests_.begin(), requests_.end(), [](const Pending& p) {
    return p.stage != Stage::kFree && p.stage != Stage::kDone && !p.refused;
  });
}

// The QP is gone. Windows go next, then everybody is told, then sinks are released.
void ClientSession::on_ended() noexcept {
  for (Pending& p : requests_) {
    if (p.has_window) static_cast<void>(device_.dealloc_window(p.window));
    p.has_window = p.window_live = false;
    p.work_pending = 0;
    p.in_queue = false;
  }
  queue_count_ = 0;
  for (Pending& p : requests_) {
    if (p.stage == Stage::kFree || p.stage == Stage::kDone) continue;
    const bool refused = error() == SessionError::kPeerClosed && p.id > go_away_last_id();
    const bool sent = p.stage != Stage::kQueued;
    if (!p.told)
      tell_outcome(p, refused ? Outcome::kRefused : Outcome::kSessionFailed, sent && !refused);
    release(p);
  }
}

}  // namespace h4a::http
