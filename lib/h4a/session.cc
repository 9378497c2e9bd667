// The base of both halves of a session. See session.h.
#include "h4a/session.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace h4a::http {
namespace {

constexpr std::uint32_t kCompletionsAtOnce = 32;
constexpr std::uint32_t kCompletionBatches = 8;
constexpr Duration kCloseTimeout = Duration::ms(500);
// A peer's receive depth below this leaves nothing to work with once the last credit is set aside.
constexpr std::uint32_t kPeerDepthMin = 4;
constexpr std::uint32_t kPeerDepthMax = 65536;

// Reasons for which the peer is told: it broke a rule, or nothing is wrong at all.
constexpr bool says_go_away(SessionError e) noexcept {
  switch (e) {
    case SessionError::kClosed:
    case SessionError::kMalformed:
    case SessionError::kProtocol:
    case SessionError::kPlacedShort:
    case SessionError::kWrongWindow:
    case SessionError::kUnresponsive:
    case SessionError::kIdle:
    case SessionError::kExpired:
    case SessionError::kPeerClosed:
      return true;
    default:
      return false;
  }
}

constexpr GoAwayCode code_for(SessionError e) noexcept {
  switch (e) {
    case SessionError::kClosed:
    case SessionError::kIdle:
    case SessionError::kExpired:
    case SessionError::kPeerClosed:
      return GoAwayCode::kDone;
    default:
      return GoAwayCode::kProtocol;
  }
}

}  // namespace

// ---- construction and end ----

Session::Session(verbs::Device& device, verbs::PdId pd, Random& random,
                 const SessionOptions& options, bool client, std::uint32_t message_slots,
                 std::uint32_t work_max)
    : device_(device),
      pd_(pd),
      random_(random),
      options_(options),
      client_(client),
      message_slots_(message_slots),
      work_limit_(work_max + kControlSlots),
      encoder_(std::min<std::size_t>(options.recv_bytes, kFrameBytesMax)) {}

Session::~Session() {
  drop_resources();
}

bool Session::options_valid() const noexcept {
  const SessionOptions& o = options_;
  return o.recv_depth >= 8 && o.recv_depth <= 4096 && o.recv_bytes % 64 == 0 &&
         o.recv_bytes >= kFrameBytesMin && o.recv_bytes <= kFrameBytesMax && o.max_requests >= 1 &&
         o.max_requests <= 256;
}

Result<LocalEndpoint> Session::open() noexcept {
  if (state_ != SessionState::kIdle) return failure(Error::kInvalidState);
  if (!options_valid()) return failure(Error::kInvalidArgument);
  for (const auto step : {&Session::take_memory, &Session::create_queues, &Session::post_receives})
    if (const auto done = (this->*step)(); !done) return failure(done.error());
  if (const auto half = on_open(); !half) return failure(half.error());
  local_ = {*qpn_, Psn(random_.u32()), options_.recv_depth, options_.recv_bytes};
  state_ = SessionState::kBound;
  return local_;
}

Result<void> Session::take_memory() noexcept {
  const std::size_t size = options_.recv_bytes;
  auto receives = RegisteredBuffer::create(device_, pd_, size * options_.recv_depth,
                                           verbs::Access::kLocalWrite);
  if (!receives) return failure(receives.error());
  receives_ = std::move(*receives);
  auto slots = RegisteredBuffer::create(device_, pd_, size * (kControlSlots + message_slots_),
                                        verbs::Access::kNone);
  if (!slots) return failure(slots.error());
  slots_ = std::move(*slots);
  received_bytes_.assign(options_.recv_depth, 0);
  return {};
}

Result<void> Session::create_queues() noexcept {
  const auto cq = device_.create_cq(work_limit_ + options_.recv_depth);
  if (!cq) return failure(cq.error());
  cq_ = *cq;
  verbs::QpOptions qp;
  qp.pd = pd_;
  qp.send_cq = qp.recv_cq = *cq;
  qp.max_send_wr = work_limit_;
  qp.max_recv_wr = options_.recv_depth;
  const auto qpn = device_.create_qp(qp);
  if (!qpn) return failure(qpn.error());
  qpn_ = *qpn;
  verbs::InitAttributes init;
  init.access = client_ ? verbs::Access::kRemoteWrite : verbs::Access::kNone;
  return device_.to_init(*qpn, init);
}

Result<void> Session::post_receives() noexcept {
  for (std::uint32_t i = 0; i < options_.recv_depth; ++i) {
    verbs::RecvWr wr;
    wr.wr_id = i;
    wr.sge_count = 1;
    const MutableBytes slot = receive_slot(i);
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(slot.data()),
                  static_cast<std::uint32_t>(slot.size()), receives_.lkey()};
    if (const auto posted = device_.post_recv(*qpn_, {&wr, 1}); !posted) return posted;
  }
  allowed_by_us_ = told_ = options_.recv_depth;
  return {};
}

Result<void> Session::connect(const PeerEndpoint& peer, Instant now) noexcept {
  if (state_ != SessionState::kBound) return failure(Error::kInvalidState);
  if (peer.recv_depth < kPeerDepthMin || peer.recv_bytes < kFrameBytesMin)
    return failure(Error::kInvalidArgument);
  verbs::RtrAttributes rtr;
  rtr.local_address = peer.local_address;
  rtr.remote_address = peer.remote_address;
  rtr.remote_qpn = peer.qpn;
  rtr.rq_psn = peer.psn;
  rtr.path_mtu = peer.path_mtu;
  rtr.max_dest_rd_atomic = 1;
  rtr.association = peer.association;
  if (const auto done = device_.to_rtr(*qpn_, rtr); !done) return done;
  verbs::RtsAttributes rts;
  rts.sq_psn = local_.psn;
  rts.timeout = options_.ack_timeout;
  rts.retry_count = options_.retry_count;
  rts.rnr_retry = 6;  // credit makes RNR a fault of the peer: do not wait for ever
  rts.max_rd_atomic = 1;
  if (const auto done = device_.to_rts(*qpn_, rts); !done) return done;
  peer_ = peer;
  allowed_by_peer_ = std::min(peer.recv_depth, kPeerDepthMax);
  message_max_ = std::min(peer.recv_bytes, options_.recv_bytes) & ~std::uint32_t{7};
  now_ = last_heard_ = last_active_ = last_ping_ = now;
  confirm_deadline_ = now + options_.confirm_timeout;
  if (peer.lifetime > Duration()) expires_ = now + peer.lifetime;
  state_ = SessionState::kConfirming;
  nonce_ = random_.u64();
  if (client_) static_cast<void>(send_control(PingFrame{nonce_}));
  return {};
}

void Session::close(Instant now) noexcept {
  now_ = std::max(now_, now);
  // A server that heard nothing yet says nothing: the address is only what an Offer claims (DESIGN §6.7).
  const bool may_speak =
      state_ == SessionState::kOpen || (client_ && state_ == SessionState::kConfirming);
  if (may_speak)
    fail(SessionError::kClosed);
  else if (state_ != SessionState::kClosing)
    abort(SessionError::kClosed);
}

void Session::abort(SessionError why) noexcept {
  if (ended()) return;
  want_end(why);
  if (!in_poll_) end();
}

void Session::fail(SessionError why) noexcept {
  if (ending()) return;
  if (!says_go_away(why)) return want_end(why);
  close_with(why, code_for(why));
}

void Session::fail_local(Error why) noexcept {
  if (ending()) return;
  local_error_ = why;
  want_end(SessionError::kLocal);
}

void Session::want_end(SessionError why) noexcept {
  if (!end_wanted_ && error_ == SessionError::kNone) error_ = why;
  end_wanted_ = true;
}

// The QP goes first: after it no packet of the peer reaches any memory of the session (DESIGN D4).
void Session::end() noexcept {
  if (ended()) return;
  const bool was_open = qpn_.has_value();
  if (was_open) {
    static_cast<void>(device_.to_error(*qpn_));
    static_cast<void>(device_.destroy_qp(*qpn_));
    qpn_.reset();
  }
  state_ = SessionState::kEnded;
  if (was_open) on_ended();
  drop_resources();
}

void Session::drop_resources() noexcept {
  if (qpn_) static_cast<void>(device_.destroy_qp(*qpn_));
  if (cq_) static_cast<void>(device_.destroy_cq(*cq_));
  qpn_.reset();
  cq_.reset();
  receives_ = RegisteredBuffer();
  slots_ = RegisteredBuffer();
}

verbs::QpStatus Session::qp_status() const noexcept {
  if (!qpn_) return {};
  return device_.qp_status(*qpn_).value_or(verbs::QpStatus{});
}

// ---- one turn ----

std::size_t Session::poll(Instant now) noexcept {
  if (state_ < SessionState::kConfirming || ended()) return 0;
  in_poll_ = true;
  now_ = std::max(now_, now);
  std::size_t work = take_completions();
  if (!ending()) run_timers();
  if (!ending()) work += on_turn();
  if (!ending()) mind_drain();
  return_credit();
  send_waiting();
  in_poll_ = false;
  if (state_ == SessionState::kClosing && (control_idle() || now_ >= close_deadline_))
    end_wanted_ = true;
  if (end_wanted_) end();
  return work;
}

std::size_t Session::take_completions() noexcept {
  std::array<verbs::Completion, kCompletionsAtOnce> batch;
  std::size_t total = 0;
  for (std::uint32_t i = 0; i < kCompletionBatches && !end_wanted_; ++i) {
    const std::size_t n = device_.poll_cq(*cq_, batch);
    for (std::size_t k = 0; k < n && !end_wanted_; ++k) complete(batch[k]);
    total += n;
    if (n < batch.size()) break;
  }
  return total;
}

void Session::complete(const verbs::Completion& c) noexcept {
  const auto work = static_cast<Work>(c.wr_id >> 32);
  const auto index = static_cast<std::uint32_t>(c.wr_id);
  if (work != Work::kReceive) --work_used_;
  if (c.status != verbs::CompletionStatus::kSuccess) return complete_failed(c);
  switch (work) {
    case Work::kReceive:
      return complete_receive(c, index);
    case Work::kControl:
      control_[index].use = ControlSlot::Use::kFree;
      return;
    default:
      break;
  }
  if (ending()) return;
  if (!client_) touch();
  on_work_done(work, index);
}

// The first failure tells; those after it are flushed. Before the path is confirmed it means that the
// path does not work.
void Session::complete_failed(const verbs::Completion& c) noexcept {
  if (status_ == verbs::CompletionStatus::kSuccess) status_ = c.status;
  want_end(state_ == SessionState::kConfirming ? SessionError::kNotConfirmed
                                               : SessionError::kTransport);
}

void Session::complete_receive(const verbs::Completion& c, std::uint32_t receive) noexcept {
  if (state_ == SessionState::kClosing) return;  // deaf: nothing is delivered any more
  received_bytes_[receive] = std::min(c.byte_len, options_.recv_bytes);
  const auto frame = decode_frame(receive_slot(receive).first(received_bytes_[receive]), scratch_);
  if (!frame) {
    frame_error_ = frame.error();
    ++counters_.frame_errors[static_cast<std::size_t>(frame.error())];
    return fail(SessionError::kMalformed);
  }
  ++counters_.frames_received;
  last_heard_ = now_;
  if (!take_credit(frame->credit)) return fail(SessionError::kProtocol);
  if (!client_ && state_ == SessionState::kConfirming) confirmed();
  if (c.has_invalidate && !std::holds_alternative<ResponseFrame>(frame->body))
    return fail(SessionError::kWrongWindow);
  if (handle_own(frame->body) || on_frame(*frame, c, receive) == Buffer::kDone)
    release_receive(receive);
}

void Session::release_receive(std::uint32_t receive) noexcept {
  if (ending()) return;
  verbs::RecvWr wr;
  wr.wr_id = receive;
  wr.sge_count = 1;
  const MutableBytes slot = receive_slot(receive);
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(slot.data()),
                static_cast<std::uint32_t>(slot.size()), receives_.lkey()};
  if (const auto posted = device_.post_recv(*qpn_, {&wr, 1}); !posted)
    return fail_local(posted.error());
  ++allowed_by_us_;
}

// ---- frames of the session itself ----

bool Session::handle_own(const FrameBody& body) noexcept {
  if (const auto* ping = std::get_if<PingFrame>(&body)) return on_ping(*ping), true;
  if (const auto* pong = std::get_if<PongFrame>(&body)) return on_pong(*pong), true;
  if (std::holds_alternative<CreditFrame>(body)) return true;
  if (const auto* settings = std::get_if<SettingsFrame>(&body)) {
    peer_settings_ = *settings;
    return true;
  }
  if (const auto* bye = std::get_if<GoAwayFrame>(&body)) {
    on_go_away(*bye);
    return true;
  }
  // Known kinds that this version does not serve.
  if (std::holds_alternative<DataFrame>(body) || std::holds_alternative<TrailersFrame>(body) ||
      std::holds_alternative<RekeyFrame>(body)) {
    close_with(SessionError::kProtocol, GoAwayCode::kUnsupported);
    return true;
  }
  return false;
}

// A server that drains says so first and goodbye later; the first of both tells what becomes of requests.
void Session::on_go_away(const GoAwayFrame& bye) noexcept {
  if (!peer_drains()) {
    go_away_ = bye;
    go_away_.text = {};  // borrowed
    drain_news_ = true;  // also if we drain already, for reasons of our own
  }
  if (client_ && bye.code == GoAwayCode::kDraining)
    drain();
  else
    want_end(SessionError::kPeerClosed);
}

void Session::on_ping(const PingFrame& ping) noexcept {
  // No free slot means that Pongs wait already: a flood of Pings gets fewer answers.
  static_cast<void>(send_control(PongFrame{ping.nonce}));
}

void Session::on_pong(const PongFrame& pong) noexcept {
  if (client_ && state_ == SessionState::kConfirming && pong.nonce == nonce_) confirmed();
}

void Session::confirmed() noexcept {
  state_ = SessionState::kOpen;
  confirm_deadline_ = Instant::never();
  touch();
  if (!client_)
    send_control(
        SettingsFrame{options_.max_requests, options_.recv_bytes,
                      static_cast<std::uint32_t>(options_.idle_timeout.count_ns() / 1'000'000)});
}

// From here on the session is deaf, and ends when the GoAway has left or kCloseTimeout has passed.
void Session::close_with(SessionError why, GoAwayCode code) noexcept {
  error_ = why;
  state_ = SessionState::kClosing;
  close_deadline_ = now_ + kCloseTimeout;
  for (ControlSlot& slot : control_)
    if (slot.use == ControlSlot::Use::kWaiting) slot.use = ControlSlot::Use::kFree;
  waiting_count_ = 0;
  const auto slot = take_control_slot();
  if (!slot) return;
  const auto bytes =
      encode(GoAwayFrame{last_processed(), code, to_string(why)}, control_slot(*slot));
  control_[*slot].bytes = static_cast<std::uint32_t>(bytes.value_or(0));
  if (!bytes || !post_control(*slot, true)) control_[*slot].use = ControlSlot::Use::kFree;
}

// ---- the orderly end ----

void Session::mind_drain() noexcept {
  if (!drain_wanted_ || state_ != SessionState::kOpen) return;
  if (drain_deadline_.is_never()) {
    drain_deadline_ = now_ + options_.drain_timeout;
    drain_news_ = true;
  }
  if (std::exchange(drain_news_, false)) on_drain();
  if (!client_ && !drain_told_)
    drain_told_ = send_control(GoAwayFrame{last_processed(), GoAwayCode::kDraining, {}});
  const bool finished = drained() && (client_ || drain_told_);
  if (finished || now_ >= drain_deadline_)
    fail(peer_drains() ? SessionError::kPeerClosed : SessionError::kExpired);
}

// ---- time ----

void Session::run_timers() noexcept {
  if (now_ >= confirm_deadline_) return want_end(SessionError::kNotConfirmed);
  if (state_ != SessionState::kOpen) return;
  if (now_ >= expires_) drain();
  const bool in_flight = requests_in_flight();
  if (client_ && in_flight) touch();
  if (now_ - last_active_ >= options_.idle_timeout) return fail(SessionError::kIdle);
  if (client_ && in_flight && now_ - std::max(last_heard_, last_ping_) >= options_.keepalive) {
    last_ping_ = now_;
    static_cast<void>(send_control(PingFrame{random_.u64()}));
  }
}

Instant Session::next_deadline() const noexcept {
  if (state_ < SessionState::kConfirming || ended()) return Instant::never();
  Instant next = std::min(confirm_deadline_, close_deadline_);
  if (state_ == SessionState::kClosing) return next;
  next = std::min(next, on_next_deadline());
  if (state_ != SessionState::kOpen) return next;
  next = std::min(next, drain_wanted_ ? drain_deadline_ : expires_);
  next = std::min(next, last_active_ + options_.idle_timeout);
  if (client_ && requests_in_flight())
    next = std::min(next, std::max(last_heard_, last_ping_) + options_.keepalive);
  return next;
}

void handle_sa_event(Session& session, const verbs::AsyncEvent& event) noexcept {
  if (event.association == kClear || event.association != session.peer().association) return;
  if (event.type == verbs::AsyncEvent::Type::kSaSoftLimit) session.drain();
  if (event.type == verbs::AsyncEvent::Type::kSaHardLimit) session.abort(SessionError::kExpired);
}

}  // namespace h4a::http
