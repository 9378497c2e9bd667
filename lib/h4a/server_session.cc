// The server's half of a session. See server_session.h.
#include "h4a/server_session.h"

#include <algorithm>

#include "base/assert.h"

namespace h4a::http {
namespace {

// What a Response frame needs beside its inline body, if its head is short.
constexpr std::size_t kHeadBytes = 1024;

// Longer relative deadlines than a day are none.
constexpr std::uint64_t kDeadlineMaxUs = 86'400'000'000;

constexpr std::uint16_t kMisdirected = 421;    // RFC 9110 §15.5.20
constexpr std::uint16_t kHeadTooLarge = 431;   // RFC 6585 §5
constexpr std::uint16_t kClientClosed = 499;   // as nginx has it: the client gave up
constexpr std::uint16_t kInternalError = 500;  // RFC 9110 §15.6.1
constexpr std::uint16_t kNotImplemented = 501;
constexpr std::uint16_t kGatewayTimeout = 504;

std::size_t head_bytes(const RequestHead& head) noexcept {
  std::size_t n = head.path.size() + head.authority.size();
  for (const HeaderField& f : head.headers) n += f.name.size() + f.value.size();
  return n;
}

}  // namespace

ServerSession::ServerSession(verbs::Device& device, verbs::PdId pd, Random& random,
                             Handler& handler, StagingPool& staging, const ServerOptions& options)
    : Session(device, pd, random, options.session, false, options.session.max_requests,
              options.session.max_requests + options.writes_max),
      handler_(handler),
      staging_(staging),
      server_options_(options) {}

ServerSession::~ServerSession() {
  abort(SessionError::kClosed);
}

Result<void> ServerSession::on_open() noexcept {
  if (server_options_.writes_max == 0 || server_options_.reads_per_turn == 0 ||
      server_options_.requests_per_turn == 0)
    return failure(Error::kInvalidArgument);
  active_.resize(options_.max_requests);
  held_.reserve(options_.max_requests);
  writes_.resize(server_options_.writes_max);
  inline_scratch_.resize(std::min(server_options_.inline_max, options_.recv_bytes));
  return {};
}

// ---- requests ----

Session::Buffer ServerSession::on_frame(const Frame& frame, const verbs::Completion&,
                                        std::uint32_t receive) noexcept {
  touch();
  if (const auto* request = std::get_if<RequestFrame>(&frame.body))
    return take_request(*request, receive);
  if (const auto* cancel = std::get_if<CancelFrame>(&frame.body)) {
    on_cancel(cancel->id);
  } else {
    fail(SessionError::kProtocol);  // a Response is the server's to send
  }
  return Buffer::kDone;
}

// A client that keeps to Settings is never refused. Its next request may come before the acknowledgement of
// our last Response, which still occupies a place then: such a request waits in its receive buffer. Ids
// grow, so that GoAway can name the last.
Session::Buffer ServerSession::take_request(const RequestFrame& frame,
                                            std::uint32_t receive) noexcept {
  if (draining()) return Buffer::kDone;  // GoAway tells, or has told, that it was not processed
  if (unanswered() >= options_.max_requests || frame.id <= last_id_) {
    fail(SessionError::kProtocol);
    return Buffer::kDone;
  }
  last_id_ = frame.id;
  Active* const place = held_.empty() ? free_place() : nullptr;
  if (place == nullptr) {
    held_.push_back(receive);
    return Buffer::kHeld;
  }
  on_request(frame, *place);
  return Buffer::kDone;
}

std::size_t ServerSession::take_held() noexcept {
  std::size_t taken = 0;
  while (taken < held_.size()) {
    Active* const place = free_place();
    const auto frame = place != nullptr ? held_frame(held_[taken]) : std::nullopt;
    const auto* request = frame ? std::get_if<RequestFrame>(&frame->body) : nullptr;
    if (request == nullptr) break;
    on_request(*request, *place);
    release_receive(held_[taken++]);
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken;
}

ServerSession::Active* ServerSession::free_place() noexcept {
  if (answered_in_turn_ >= server_options_.requests_per_turn) return nullptr;
  const auto free = std::find_if(active_.begin(), active_.end(),
                                 [](const Active& a) { return a.stage == Stage::kFree; });
  return free == active_.end() ? nullptr : &*free;
}

std::size_t ServerSession::unanswered() const noexcept {
  return held_.size() + static_cast<std::size_t>(
                            std::count_if(active_.begin(), active_.end(), [](const Active& a) {
                              return a.stage == Stage::kBody || a.stage == Stage::kReady;
                            }));
}

void ServerSession::on_request(const RequestFrame& frame, Active& a) noexcept {
  ++counters_.requests;
  ++answered_in_turn_;
  a.id = frame.id;
  a.sink = frame.sink;
  a.deadline = frame.deadline_us == 0 || frame.deadline_us > kDeadlineMaxUs
                   ? Instant::never()
                   : now() + Duration::us(static_cast<std::int64_t>(frame.deadline_us));
  a.place = BodyPlace::kNone;
  a.body_length = a.written = 0;
  a.writes_pending = 0;
  a.response.status = 200;
  a.response.headers.clear();
  a.response.body.reset();
  answer(a, frame);
  choose_place(a);
}

void ServerSession::answer(Active& a, const RequestFrame& frame) noexcept {
  const RequestHead& head = frame.head;
  if (!handler_.serves(head.scheme, head.authority)) return replace_by_error(a, kMisdirected);
  // RFC 9110 §9.1: a method that is not recognised or not implemented is 501.
  if (head.method != "GET" && head.method != "HEAD") return replace_by_error(a, kNotImplemented);
  if (frame.too_many_fields || head_bytes(head) > server_options_.head_bytes_max)
    return replace_by_error(a, kHeadTooLarge);
  if (!frame.inline_body.empty() || frame.source_count > 0)
    return replace_by_error(a, kNotImplemented);
  handler_.handle(head, a.response);
  if (a.response.status < 200 || a.response.status > 599) replace_by_error(a, kInternalError);
  if (head.method == "HEAD") a.response.body.reset();
}

// Small bodies inline, larger ones into the sink, and those that do not fit it not at all.
void ServerSession::choose_place(Active& a) noexcept {
  a.body_length = a.response.body ? a.response.body->size() : 0;
  a.stage = Stage::kReady;
  if (a.body_length == 0) {
    a.place = BodyPlace::kNone;
  } else if (a.sink && a.body_length > a.sink->length) {
    a.place = BodyPlace::kNotSent;
  } else if (a.body_length <= inline_room()) {
    a.place = BodyPlace::kInline;
  } else if (a.sink) {
    a.place = BodyPlace::kPlaced;
    a.stage = Stage::kBody;
  } else {
    a.place = BodyPlace::kNotSent;
  }
}

std::size_t ServerSession::inline_room() const noexcept {
  const std::size_t room = message_max() > kHeadBytes ? message_max() - kHeadBytes : 0;
  return std::min(room, inline_scratch_.size());
}

// No part of the Response has left yet, so it can still become an error.
void ServerSession::replace_by_error(Active& a, std::uint16_t status) noexcept {
  a.response.status = status;
  a.response.headers.clear();
  static_cast<void>(a.response.headers.add("content-length", "0"));
  // WRITEs of the body may still be reading it: then it stays until free_if_done().
  if (a.writes_pending == 0) a.response.body.reset();
  a.place = BodyPlace::kNone;
  a.body_length = 0;
  a.stage = Stage::kReady;
}

// The final frame goes out whatever is done so far: the client waits for it to reuse its sink.
void ServerSession::on_cancel(RequestId id) noexcept {
  ++counters_.cancels;
  for (Active& a : active_)
    if (a.id == id && (a.stage == Stage::kBody || a.stage == Stage::kReady))
      replace_by_error(a, kClientClosed);
}

void ServerSession::expire() noexcept {
  for (Active& a : active_)
    if ((a.stage == Stage::kBody || a.stage == Stage::kReady) && now() >= a.deadline) {
      a.deadline = Instant::never();
      replace_by_error(a, kGatewayTimeout);
    }
}

// ---- the turn ----

std::size_t ServerSession::on_turn() noexcept {
  if (state() != SessionState::kOpen) return 0;
  const std::size_t taken = take_held();
  answered_in_turn_ = 0;
  expire();
  const std::size_t written = write_bodies();
  return taken + written + send_responses();
}

// Requests take turns, a chunk each, as long as there is room and time in this turn.
std::size_t ServerSession::write_bodies() noexcept {
  std::size_t done = 0;
  std::uint32_t passed_by = 0;
  const auto n = static_cast<std::uint32_t>(active_.size());
  while (passed_by < n && done < server_options_.reads_per_turn && !ending()) {
    Active& a = active_[next_turn_];
    if (a.stage == Stage::kBody) {
      if (!write_next(a)) break;
      ++done;
      passed_by = 0;
    } else {
      ++passed_by;
    }
    next_turn_ = (next_turn_ + 1) % n;
  }
  return done;
}

// Posts the next WRITE of a body. @return false if there is no room now.
bool ServerSession::write_next(Active& a) noexcept {
  const auto slot =
      std::find_if(writes_.begin(), writes_.end(), [](const Write& w) { return !w.busy; });
  if (slot == writes_.end()) return false;
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kBodyChunkBytes, a.body_length - a.written));
  verbs::SendWr wr = work_request(verbs::WrOpcode::kRdmaWrite);
  wr.remote_address = a.sink->address + a.written;
  wr.rkey = a.sink->rkey;
  wr.sge_count = 1;
  wr.sges[0].length = bytes;
  if (!fill(a, *slot, wr.sges[0])) return false;
  if (a.stage != Stage::kBody) return true;  // its source failed
  const auto index = static_cast<std::uint32_t>(&*slot - writes_.data());
  if (!post_work(wr, Work::kWrite, index)) {
    if (slot->staged) staging_.give_back(slot->chunk);
    return false;
  }
  slot->busy = true;
  slot->request = static_cast<std::uint32_t>(&a - active_.data());
  ++a.writes_pending;
  a.written += bytes;
  counters_.body_bytes_placed += bytes;
  if (a.written == a.body_length) a.stage = Stage::kReady;
  return true;
}

// A client decides how long our chunks wait for its acknowledgements. So the second half of the pool is for
// sessions that hold none: a few slow clients cannot stop all others.
bool ServerSession::may_stage() const noexcept {
  const bool holds = std::any_of(writes_.begin(), writes_.end(),
                                 [](const Write& w) { return w.busy && w.staged; });
  return !holds || staging_.available() > staging_.capacity() / 2;
}

// Finds the bytes of the next WRITE: where they are, or read into a staging chunk.
bool ServerSession::fill(Active& a, Write& write, verbs::Sge& sge) noexcept {
  if (const auto there = a.response.body->registered()) {
    write.staged = false;
    sge.address = reinterpret_cast<std::uintptr_t>(there->address) + a.written;
    sge.lkey = there->lkey;
    return true;
  }
  if (!may_stage()) return false;
  const auto chunk = staging_.take();
  if (!chunk) return false;
  if (!a.response.body->read(a.written, chunk->bytes.first(sge.length))) {
    staging_.give_back(chunk->index);
    replace_by_error(a, kInternalError);
    return true;
  }
  write.staged = true;
  write.chunk = chunk->index;
  sge.address = reinterpret_cast<std::uintptr_t>(chunk->bytes.data());
  sge.lkey = staging_.lkey();
  return true;
}

std::size_t ServerSession::send_responses() noexcept {
  std::size_t sent = 0;
  for (Active& a : active_) {
    if (ending()) break;
    if (a.stage != Stage::kReady) continue;
    if (!send_response(a)) break;
    ++sent;
  }
  return sent;
}

// On the same QP behind the WRITEs, so it arrives after them; the sink dies with it (DESIGN D4).
bool ServerSession::send_response(Active& a) noexcept {
  auto bytes = encode_response(a);
  if (!bytes) {
    replace_by_error(a, kInternalError);
    bytes = encode_response(a);
    if (!bytes) {
      fail_local(bytes.error());
      return false;
    }
  }
  const auto slot = static_cast<std::uint32_t>(&a - active_.data());
  if (!post_message(slot, *bytes, a.sink ? &a.sink->rkey : nullptr, nullptr)) return false;
  a.stage = Stage::kSent;
  a.sent_done = false;
  ++counters_.responses;
  if (a.place == BodyPlace::kInline) counters_.body_bytes_inline += a.body_length;
  return true;
}

Result<std::size_t> ServerSession::encode_response(Active& a) noexcept {
  ResponseFrame frame;
  frame.id = a.id;
  frame.status = a.response.status;
  frame.headers = a.response.headers.fields();
  frame.place = a.place;
  frame.body_length = a.body_length;
  if (a.place == BodyPlace::kPlaced) frame.placed_bytes = a.body_length;
  if (a.place == BodyPlace::kInline) {
    const MutableBytes body(inline_scratch_.data(), static_cast<std::size_t>(a.body_length));
    if (!a.response.body->read(0, body)) return failure(Error::kIo);
    frame.inline_body = body;
  }
  return encode(frame, message_slot(static_cast<std::uint32_t>(&a - active_.data())));
}

// ---- completions ----

void ServerSession::on_work_done(Work work, std::uint32_t index) noexcept {
  if (work == Work::kMessage) {
    active_[index].sent_done = true;
    return free_if_done(active_[index]);
  }
  Write& w = writes_[index];
  if (w.staged) staging_.give_back(w.chunk);
  w.busy = false;
  Active& a = active_[w.request];
  --a.writes_pending;
  free_if_done(a);
}

void ServerSession::free_if_done(Active& a) noexcept {
  if (a.stage != Stage::kSent || !a.sent_done || a.writes_pending > 0) return;
  a.response.body.reset();
  a.stage = Stage::kFree;
}

Instant ServerSession::on_next_deadline() const noexcept {
  Instant next = Instant::never();
  for (const Active& a : active_)
    if (a.stage == Stage::kBody || a.stage == Stage::kReady) next = std::min(next, a.deadline);
  return next;
}

bool ServerSession::requests_in_flight() const noexcept {
  return !held_.empty() || std::any_of(active_.begin(), active_.end(),
                                       [](const Active& a) { return a.stage != Stage::kFree; });
}

// The QP is gone, and with it every use of bodies and chunks.
void ServerSession::on_ended() noexcept {
  for (Write& w : writes_) {
    if (w.busy && w.staged) staging_.give_back(w.chunk);
    w.busy = false;
  }
  held_.clear();
  for (Active& a : active_) {
    a.response.body.reset();
    a.stage = Stage::kFree;
  }
}

}  // namespace h4a::http
