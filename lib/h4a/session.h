// Session: what both ends of an HTTP/4A session have in common (DESIGN §6, §7).
//
// It owns one RC QP, its completion queue, receive buffers and send slots, keeps the credit account,
// confirms the protected path and ends in one place. The client's and the server's half derive from it.
//
// Life: open() → the QPN and PSN go into the Offer or Answer → connect() with what the peer said →
// poll() until ended(). The session does no I/O, reads no clock, logs nothing; after open() it allocates
// nothing.
//
// A session does not live for ever: when the lifetime that both sides agreed on is over, or its keys are
// used up to the soft limit (drain()), it takes no further request, finishes those in flight, and closes.
//
// Credit: a SEND is posted only against a receive the peer has said it posted. Every frame carries the
// running total of receives its sender allowed; a Credit frame goes alone when half of them is owed. The
// last credit is kept for Credit frames, so that two full sides cannot wait for each other.
//
// Thread: the one that polls the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "h4a/frames.h"
#include "h4a/registered_buffer.h"
#include "verbs/device.h"

namespace h4a::http {

enum class SessionState : std::uint8_t {
  kIdle,        // constructed
  kBound,       // open(): the QP exists and has receives posted
  kConfirming,  // connect(): waiting for the first protected packet of the peer
  kOpen,
  kClosing,  // GoAway sent: waits until it has left
  kEnded,    // the QP is gone; nothing of the peer reaches our memory any more
};
[[nodiscard]] std::string_view to_string(SessionState s) noexcept;

/// Why a session ended.
enum class SessionError : std::uint8_t {
  kNone,
  kClosed,        // close() was called here
  kPeerClosed,    // GoAway
  kNotConfirmed,  // the protected path did not come up in time: fall back to HTTPS
  kTransport,     // the QP failed: transport_status() tells how
  kMalformed,     // the peer sent what is no frame: frame_error() tells why
  kProtocol,      // a frame that has no place there
  kPlacedShort,   // the peer claimed more body than it placed (DESIGN D6)
  kWrongWindow,   // the peer invalidated a window of another request
  kUnresponsive,  // the peer did not answer a Cancel
  kIdle,          // nothing asked for too long
  kExpired,       // its lifetime is over or its keys are used up: another session goes on
  kLocal,         // the device refused a call: local_error() tells which kind
};
[[nodiscard]] std::string_view to_string(SessionError e) noexcept;

struct SessionOptions {
  /// Receives kept posted, 8..4096, and bytes of each: a multiple of 64, kFrameBytesMin..kFrameBytesMax.
  std::uint32_t recv_depth = 64;
  std::uint32_t recv_bytes = 16384;
  /// Requests in flight, 1..256. At the client: at most; the server's Settings may allow fewer.
  std::uint32_t max_requests = 32;
  /// How long the protected path may take to come up (DESIGN §6.6).
  Duration confirm_timeout = Duration::s(1);
  /// Without progress for so long the session ends: a server sees no request, Cancel or completion, a
  /// client has no request in flight.
  Duration idle_timeout = Duration::s(60);
  /// While requests are in flight and the peer is silent, a Ping goes out so often: a dead peer is then
  /// found by the transport's retries.
  Duration keepalive = Duration::ms(500);
  /// How long the peer may take to answer a Cancel; then the session ends (DESIGN D4).
  Duration cancel_grace = Duration::s(2);
  /// How long requests in flight may take to finish once the session drains; then it ends without them.
  Duration drain_timeout = Duration::s(30);
  std::uint8_t ack_timeout = 14;  // see verbs::RtsAttributes
  std::uint8_t retry_count = 7;
};

/// What the Offer or Answer says of this side.
struct LocalEndpoint {
  Qpn qpn;
  Psn psn;  // of the first packet this side sends
  std::uint32_t recv_depth = 0;
  std::uint32_t recv_bytes = 0;
};

/// What the peer's Offer or Answer says, and how to get there.
struct PeerEndpoint {
  IpAddress local_address;
  IpAddress remote_address;
  Qpn qpn;
  Psn psn;  // of the first packet the peer sends
  std::uint16_t path_mtu = 1024;
  std::uint32_t recv_depth = 0;
  std::uint32_t recv_bytes = 0;
  AssociationId association;  // kClear for trials only
  Duration lifetime;          // from connect() until it drains; zero: for ever
  /// At the client: what may be asked for, as the Answer lists it. Empty: anything, for trials.
  std::vector<std::string> authorities;
};

struct SessionCounters {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t credit_stalls = 0;  // turns in which a frame waited for credit
  std::uint64_t requests = 0;
  std::uint64_t responses = 0;
  std::uint64_t body_bytes_placed = 0;
  std::uint64_t body_bytes_inline = 0;
  std::uint64_t cancels = 0;
  std::array<std::uint64_t, kFrameErrorCount> frame_errors{};  // by FrameError
};

class Session {
 public:
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session();

  /// Takes all memory, creates the QP and posts the receives.
  /// @return kInvalidState if called before; kInvalidArgument for options out of range; what the device
  /// answers. After an error the session is of no use.
  [[nodiscard]] Result<LocalEndpoint> open() noexcept;
  /// Brings the QP to RTS; the client's side also sends the Ping that confirms the path.
  /// @return kInvalidState unless kBound; kInvalidArgument for a peer whose numbers are out of range.
  [[nodiscard]] Result<void> connect(const PeerEndpoint& peer, Instant now) noexcept;
  /// Takes completions, answers, sends what may be sent, minds deadlines. Bounded work.
  /// @return how many things were done; 0 when idle.
  std::size_t poll(Instant now) noexcept;
  /// When poll() has to be called although nothing arrived.
  [[nodiscard]] Instant next_deadline() const noexcept;
  /// Says GoAway and ends as soon as it has left; a server that was never spoken to ends at once, without.
  /// Requests in flight complete with kSessionFailed.
  void close(Instant now) noexcept;
  /// Lets it end in an orderly way, from the next poll() on: a server says up to which request it answers, a
  /// client submits nothing more (what was not sent completes with kRefused); what is in flight finishes,
  /// then the session closes. For SA soft limits and the like; the lifetime does it by itself.
  void drain() noexcept { drain_wanted_ = true; }
  /// Ends at once: when this returns, no buffer is reachable and every request is completed.
  void abort(SessionError why = SessionError::kClosed) noexcept;

  [[nodiscard]] SessionState state() const noexcept { return state_; }
  [[nodiscard]] bool ended() const noexcept { return state_ == SessionState::kEnded; }
  /// No further request is taken.
  [[nodiscard]] bool draining() const noexcept { return drain_wanted_; }
  /// It ended, or is about to, for no fault of either side: what is still wanted may be asked for in another.
  [[nodiscard]] bool may_be_renewed() const noexcept {
    return (error_ == SessionError::kNone && drain_wanted_) || error_ == SessionError::kExpired ||
           (error_ == SessionError::kPeerClosed && go_away_.code == GoAwayCode::kDraining);
  }
  [[nodiscard]] SessionError error() const noexcept { return error_; }
  /// With kTransport: the status of the work request that failed.
  [[nodiscard]] verbs::CompletionStatus transport_status() const noexcept { return status_; }
  /// With kMalformed.
  [[nodiscard]] FrameError frame_error() const noexcept { return frame_error_; }
  /// With kLocal.
  [[nodiscard]] Error local_error() const noexcept { return local_error_; }
  /// With kPeerClosed.
  [[nodiscard]] GoAwayCode go_away_code() const noexcept { return go_away_.code; }
  [[nodiscard]] const SessionCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const LocalEndpoint& local() const noexcept { return local_; }
  [[nodiscard]] const PeerEndpoint& peer() const noexcept { return peer_; }
  [[nodiscard]] verbs::Device& device() const noexcept { return device_; }
  [[nodiscard]] verbs::PdId pd() const noexcept { return pd_; }
  /// Of the QP; zeros after the end.
  [[nodiscard]] verbs::QpStatus qp_status() const noexcept;

 protected:
  /// What becomes of a receive buffer after its frame was looked at.
  enum class Buffer : std::uint8_t { kDone, kHeld };
  /// Work requests by who waits for them; the number beside it is the owner's.
  enum class Work : std::uint8_t { kReceive, kControl, kMessage, kBind, kInvalidate, kWrite };
  static constexpr std::uint32_t kControlSlots = 8;

  /// @param message_slots send slots beside those for control frames.
  /// @param work_max work requests the half needs in the send queue beside control frames.
  Session(verbs::Device& device, verbs::PdId pd, Random& random, const SessionOptions& options,
          bool client, std::uint32_t message_slots, std::uint32_t work_max);

  // ---- what a half adds ----
  /// Once, at the end of open().
  [[nodiscard]] virtual Result<void> on_open() noexcept = 0;
  /// A frame that is not the base's own. kHeld: release_receive() follows.
  virtual Buffer on_frame(const Frame& frame, const verbs::Completion& completion,
                          std::uint32_t receive) noexcept = 0;
  /// A work request of the half has completed successfully.
  virtual void on_work_done(Work work, std::uint32_t index) noexcept = 0;
  /// In each poll of a live session, after completions. @return things done.
  virtual std::size_t on_turn() noexcept = 0;
  [[nodiscard]] virtual Instant on_next_deadline() const noexcept = 0;
  [[nodiscard]] virtual bool requests_in_flight() const noexcept = 0;
  /// The largest request id that was or may have been processed, for GoAway.
  [[nodiscard]] virtual RequestId last_processed() const noexcept { return {}; }
  /// When the session begins to drain, and again when the peer says that it does.
  virtual void on_drain() noexcept {}
  /// Nothing is left to finish.
  [[nodiscard]] virtual bool drained() const noexcept { return !requests_in_flight(); }
  /// The QP is destroyed: windows go, requests complete, buffers are released. Once.
  virtual void on_ended() noexcept = 0;

  // ---- what a half uses ----
  /// Ends the session. Protocol reasons say GoAway first; meanwhile nothing is delivered. Takes effect
  /// at the end of the running poll(), so that no callback is surprised.
  void fail(SessionError why) noexcept;
  void fail_local(Error why) noexcept;
  /// True once nothing more may be delivered.
  [[nodiscard]] bool ending() const noexcept {
    return end_wanted_ || state_ == SessionState::kClosing || state_ == SessionState::kEnded;
  }
  /// Bytes of the largest message both sides can take.
  [[nodiscard]] std::size_t message_max() const noexcept { return message_max_; }
  [[nodiscard]] MutableBytes message_slot(std::uint32_t slot) noexcept;
  [[nodiscard]] Result<std::size_t> encode(const FrameBody& body, MutableBytes out) noexcept;
  /// Posts `before` (a bind, Work::kBind) if any and then the message in `slot` (Work::kMessage), as one
  /// batch; the index of both is `slot`.
  /// @param invalidate the peer's key that the SEND invalidates, if any.
  /// @return false, and nothing is posted, if there is no credit, no room in the send queue, or the
  /// session is ending.
  [[nodiscard]] bool post_message(std::uint32_t slot, std::size_t bytes, const Rkey* invalidate,
                                  const verbs::SendWr* before) noexcept;
  /// Posts one work request of the half. @return false if there is no room or the session is ending.
  [[nodiscard]] bool post_work(verbs::SendWr wr, Work work, std::uint32_t index) noexcept;
  /// Sends a small frame; it waits in a bounded queue for credit.
  /// @return false if the queue is full: try again later.
  bool send_control(const FrameBody& body) noexcept;
  void release_receive(std::uint32_t receive) noexcept;
  /// Decodes a held receive buffer again. @return nullopt if the peer's frame does not decode, which
  /// cannot be since it did before.
  [[nodiscard]] std::optional<Frame> held_frame(std::uint32_t receive) noexcept;
  [[nodiscard]] Instant now() const noexcept { return now_; }
  /// Keeps the idle timeout away.
  void touch() noexcept { last_active_ = now_; }
  [[nodiscard]] static verbs::SendWr work_request(verbs::WrOpcode opcode) noexcept;

  verbs::Device& device_;
  verbs::PdId pd_;
  Random& random_;
  SessionOptions options_;
  SessionCounters counters_;
  SettingsFrame peer_settings_;
  /// The peer said GoAway, and still answers requests up to go_away_last_id().
  [[nodiscard]] bool peer_drains() const noexcept { return go_away_.code == GoAwayCode::kDraining; }
  /// Requests above it were not processed by a peer that said GoAway.
  [[nodiscard]] RequestId go_away_last_id() const noexcept { return go_away_.last_id; }

 private:
  struct ControlSlot {
    enum class Use : std::uint8_t { kFree, kWaiting, kPosted };
    Use use = Use::kFree;
    std::uint32_t bytes = 0;
  };

  [[nodiscard]] bool options_valid() const noexcept;
  [[nodiscard]] Result<void> take_memory() noexcept;
  [[nodiscard]] Result<void> create_queues() noexcept;
  [[nodiscard]] Result<void> post_receives() noexcept;
  [[nodiscard]] MutableBytes receive_slot(std::uint32_t receive) noexcept;
  [[nodiscard]] MutableBytes control_slot(std::uint32_t slot) noexcept;
  [[nodiscard]] std::size_t take_completions() noexcept;
  void complete(const verbs::Completion& c) noexcept;
  void complete_failed(const verbs::Completion& c) noexcept;
  void complete_receive(const verbs::Completion& c, std::uint32_t receive) noexcept;
  [[nodiscard]] bool take_credit(std::uint64_t credit) noexcept;
  [[nodiscard]] bool handle_own(const FrameBody& body) noexcept;
  void on_ping(const PingFrame& ping) noexcept;
  void on_pong(const PongFrame& pong) noexcept;
  void confirmed() noexcept;
  void run_timers() noexcept;
  [[nodiscard]] std::optional<std::uint32_t> take_control_slot() noexcept;
  void send_waiting() noexcept;
  void return_credit() noexcept;
  void close_with(SessionError why, GoAwayCode code) noexcept;
  void on_go_away(const GoAwayFrame& bye) noexcept;
  void mind_drain() noexcept;
  [[nodiscard]] bool control_idle() const noexcept;
  [[nodiscard]] bool post_control(std::uint32_t slot, bool last_credit) noexcept;
  [[nodiscard]] bool post_batch(std::span<verbs::SendWr> wrs, MutableBytes message,
                                bool last_credit) noexcept;
  void want_end(SessionError why) noexcept;
  void end() noexcept;
  void drop_resources() noexcept;

  bool client_;
  std::uint32_t message_slots_;
  std::uint32_t work_limit_;
  std::uint32_t work_used_ = 0;
  SessionState state_ = SessionState::kIdle;
  bool in_poll_ = false;
  bool end_wanted_ = false;
  bool drain_wanted_ = false;
  bool drain_news_ = false;
  bool drain_told_ = false;  // server: GoAway is on its way
  SessionError error_ = SessionError::kNone;
  verbs::CompletionStatus status_ = verbs::CompletionStatus::kSuccess;
  FrameError frame_error_ = FrameError::kTooShort;
  Error local_error_ = Error::kInvalidState;
  GoAwayFrame go_away_;
  LocalEndpoint local_;
  PeerEndpoint peer_;

  RegisteredBuffer receives_;  // recv_depth × recv_bytes
  RegisteredBuffer slots_;     // (kControlSlots + message_slots) × recv_bytes
  std::vector<std::uint32_t> received_bytes_;
  std::optional<verbs::CqId> cq_;
  std::optional<Qpn> qpn_;
  std::size_t message_max_ = 0;
  FrameEncoder encoder_;
  HeaderScratch scratch_;

  std::array<ControlSlot, kControlSlots> control_;
  std::array<std::uint32_t, kControlSlots> waiting_{};  // slots that wait for credit; a ring
  std::uint32_t waiting_head_ = 0;
  std::uint32_t waiting_count_ = 0;

  std::uint64_t allowed_by_peer_ = 0;  // SENDs we may have made since the beginning
  std::uint64_t sent_ = 0;
  std::uint64_t allowed_by_us_ = 0;
  std::uint64_t told_ = 0;  // of allowed_by_us_

  Instant now_;
  Instant confirm_deadline_ = Instant::never();
  Instant close_deadline_ = Instant::never();
  Instant expires_ = Instant::never();
  Instant drain_deadline_ = Instant::never();
  Instant last_heard_;
  Instant last_active_;
  Instant last_ping_;
  std::uint64_t nonce_ = 0;
};

/// What an event of the device means to a session: its SA's soft limit lets it drain, the hard limit ends
/// it, since nothing leaves through that SA any more (DESIGN §6.5). Others are not about it.
void handle_sa_event(Session& session, const verbs::AsyncEvent& event) noexcept;

}  // namespace h4a::http
