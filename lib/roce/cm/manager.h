// Manager: communication management as a pure machine: messages, calls and time in; messages and
// events out. Spec: IBA vol. 1 chapter 12; annex A11.
//
// It moves no queue pair and sends no packet: its owner (stack/cm_service.h) does. Everything is
// bounded: connections, listeners, their backlogs, waiting messages (when there is no room for one it
// is lost, as in the network, and the timers repeat it), events (bits in the connections).
//
// A peer is known by the addresses of its packets and by the association they came through (DESIGN
// D3); a message whose REQ or IP CM header names other addresses is dropped. Times and retry counts
// that a peer asks for are cut to what Options say.
//
// Thread: the owner of the stack. Memory is taken at construction only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/drop.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "net/cm_messages.h"
#include "roce/cm/connection.h"
#include "roce/cm/connection_table.h"
#include "verbs/cm.h"
#include "verbs/ring.h"

namespace h4a::roce::cm {

/// Times are codes: 4.096 µs × 2^code.
struct Options {
  std::size_t connection_max = 1024;  // those in time-wait included; 1..65536
  std::size_t listener_max = 64;
  std::uint64_t ca_guid = 0;        // of this host; 0: a random one
  std::uint8_t response_time = 17;  // 0.54 s: how soon we answer, and expect an answer
  std::uint8_t response_max = 18;   // 1.07 s: the longest that we wait because the peer asks for it
  std::uint8_t max_retries = 15;    // of each message
  std::uint8_t service_time = 21;   // 8.6 s: what an MRA of ours asks for
  std::uint8_t service_max = 24;    // 69 s: the longest that an MRA of the peer gets
  std::uint8_t packet_life = 13;    // 34 ms: how long a packet may travel
  std::uint8_t ack_delay = 12;      // 17 ms: how long our acknowledgement may take
  std::uint8_t ack_timeout_max = 22;  // 17 s: the longest that a peer makes our requester wait
};

/// A MAD to be sent.
struct Output {
  Peer peer;
  net::MadBytes mad;
};

/// What became of a message.
struct Received {
  Drop drop = Drop::kNone;
  /// If not 0: a REP came for this connection. Its queue pair is to be moved as settings() say, then
  /// ready() or refuse() is to be called.
  verbs::CmId replied;
};

class Manager {
 public:
  Manager(const Options& options, Random& random);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // ---- calls of the application; contracts as in verbs/cm.h ----
  [[nodiscard]] Result<verbs::CmListenerId> listen(const verbs::CmListenOptions& options) noexcept;
  [[nodiscard]] Result<void> stop_listening(verbs::CmListenerId id) noexcept;
  /// `options.path_mtu` is not 0. Addresses and the QP's state are the caller's to check.
  [[nodiscard]] Result<verbs::CmId> connect(const verbs::CmConnectOptions& options,
                                            Instant now) noexcept;
  /// How the queue pair of a connection has to be set up: of a passive one before accept(), with its
  /// own parameters; of an active one when a REP came (`own` is not looked at).
  [[nodiscard]] Result<QpSettings> settings(verbs::CmId id,
                                            const verbs::CmQpParameters& own) noexcept;
  /// Sends the REP, or the SIDR_REP.
  [[nodiscard]] Result<void> accept(verbs::CmId id, const verbs::CmAcceptOptions& options,
                                    Instant now) noexcept;
  [[nodiscard]] Result<void> reject(verbs::CmId id, Bytes private_data, Instant now) noexcept;
  [[nodiscard]] Result<void> disconnect(verbs::CmId id, Bytes private_data, Instant now) noexcept;
  [[nodiscard]] Result<void> destroy(verbs::CmId id, Instant now) noexcept;
  [[nodiscard]] bool poll_event(verbs::CmEvent& out) noexcept;

  // ---- the queue pair of an active connection ----
  /// It is in RTS: sends the RTU.
  void ready(verbs::CmId id) noexcept;
  /// It cannot be set up so: refuses the REP.
  void refuse(verbs::CmId id, Instant now) noexcept;

  // ---- messages and time ----
  /// @param max_path_mtu the largest that our port carries for this peer. @param mad any bytes.
  [[nodiscard]] Received receive(const Peer& from, Bytes mad, std::uint16_t max_path_mtu,
                                 Instant now) noexcept;
  [[nodiscard]] bool next_output(Output& out) noexcept { return outputs_.pop(out); }
  void run_timers(Instant now) noexcept;
  [[nodiscard]] Instant next_deadline() noexcept { return timers_.next(); }

  // ---- what is there ----
  [[nodiscard]] std::size_t connections() const noexcept { return table_.size(); }
  [[nodiscard]] Result<State> state(verbs::CmId id) noexcept;
  /// Connections of a listener that count against its backlog; 0 for an unknown one.
  [[nodiscard]] std::uint32_t half_open(verbs::CmListenerId id) noexcept {
    const Listener* l = find_listener(id);
    return l == nullptr ? 0 : l->half_open;
  }
  [[nodiscard]] const DropCounters& drops() const noexcept { return drops_; }

 private:
  struct Listener {
    verbs::CmListenerId id;
    std::uint64_t service_id = 0;
    verbs::CmListenOptions options;
    std::uint32_t half_open = 0;
  };
  static constexpr std::uint32_t kOutputsMax = 256;
  /// How long the end of a connection is remembered: twice the longest that a packet or a repeated
  /// request may be on its way.
  static constexpr Duration kTimeWait = Duration::s(4);

  // receive.cc: one handler a message
  [[nodiscard]] Drop on_req(const Peer& from, const net::CmMad& mad, const net::CmReq& req,
                            std::uint16_t max_path_mtu, Instant now) noexcept;
  [[nodiscard]] Drop on_repeated_req(Connection& c) noexcept;
  [[nodiscard]] Drop on_rep(const Peer& from, const net::CmMad& mad, const net::CmRep& rep,
                            Received& result, Instant now) noexcept;
  [[nodiscard]] Drop on_rtu(const Peer& from, const net::CmRtu& rtu) noexcept;
  [[nodiscard]] Drop on_rej(const Peer& from, const net::CmRej& rej, Instant now) noexcept;
  [[nodiscard]] Drop on_mra(const Peer& from, const net::CmMra& mra, Instant now) noexcept;
  [[nodiscard]] Drop on_dreq(const Peer& from, const net::CmMad& mad, const net::CmDreq& dreq,
                             Instant now) noexcept;
  [[nodiscard]] Drop on_drep(const Peer& from, const net::CmDrep& drep, Instant now) noexcept;
  [[nodiscard]] Drop on_lap(const Peer& from, const net::CmMad& mad,
                            const net::CmLap& lap) noexcept;
  [[nodiscard]] Drop on_sidr_req(const Peer& from, const net::CmMad& mad,
                                 const net::CmSidrReq& req) noexcept;
  [[nodiscard]] Drop on_sidr_rep(const Peer& from, const net::CmSidrRep& rep) noexcept;
  [[nodiscard]] Connection& take_request(const Peer& from, const net::CmMad& mad,
                                         const net::CmReq& req, Listener& listener) noexcept;
  void end_stale(Connection& c, Instant now) noexcept;
  [[nodiscard]] std::uint8_t limit_ack_timeout(std::uint8_t code) const noexcept;
  [[nodiscard]] bool may_open(const Listener& listener, const Peer& from) noexcept;
  [[nodiscard]] Listener* find_listener(std::uint64_t service_id, const IpAddress& local) noexcept;
  [[nodiscard]] Listener* find_listener(verbs::CmListenerId id) noexcept;
  /// The connection with both IDs, if the message came from its peer.
  [[nodiscard]] Connection* match(const Peer& from, std::uint32_t ours, std::uint32_t theirs,
                                  Drop& reason) noexcept;

  // messages.cc
  void send(Connection& c, const net::CmMessage& message) noexcept;
  void send_again(Connection& c) noexcept { push(c.peer, c.last); }
  void answer(const Peer& to, std::uint64_t transaction_id, const net::CmMessage& message) noexcept;
  void push(const Peer& to, const net::MadBytes& mad) noexcept;
  void send_req(Connection& c, const verbs::CmConnectOptions& options) noexcept;
  void send_sidr_req(Connection& c, const verbs::CmConnectOptions& options) noexcept;
  void send_rep(Connection& c, const verbs::CmAcceptOptions& options) noexcept;
  void send_dreq(Connection& c, Bytes private_data) noexcept;
  void send_rej(Connection& c, net::CmMessageKind message, net::CmRejectReason reason,
                Bytes private_data = {}) noexcept;
  void send_sidr_rep(Connection& c, net::CmSidrStatus status, std::uint32_t qkey,
                     Bytes private_data) noexcept;

  // manager.cc: transitions
  /// Waits for the answer to what was sent last.
  void wait_for_answer(Connection& c, State state, Instant now) noexcept;
  void raise(Connection& c, Pending event) noexcept;
  void enter_established(Connection& c) noexcept;
  void enter_time_wait(Connection& c, Instant now) noexcept;
  void enter_sidr_done(Connection& c, Instant now) noexcept;
  /// Nothing happens any more; goes back to the table if nobody owns it.
  void close(Connection& c) noexcept;
  void enter_half_open(Connection& c, Listener& listener) noexcept;
  void leave_half_open(Connection& c) noexcept;
  /// Half-open connections from this address, and from those that fall into the same of 256 classes.
  [[nodiscard]] std::uint32_t& source_count(const IpAddress& source) noexcept {
    const std::uint64_t h = (std::hash<IpAddress>{}(source) ^ source_seed_) * 0x9e37'79b9'7f4a'7c15;
    return half_open_by_source_[h >> 56];
  }
  void on_timer(Connection& c, Instant now) noexcept;
  void give_up(Connection& c, Instant now) noexcept;

  Options options_;
  Random& random_;
  ConnectionTable table_;
  TimerHeap timers_;
  std::vector<Listener> listeners_;
  std::uint32_t next_listener_ = 1;
  verbs::Ring<Output> outputs_;
  boost::intrusive::list<Connection> eventful_;
  std::array<std::uint32_t, 256> half_open_by_source_{};
  std::uint64_t source_seed_;
  DropCounters drops_;
};

}  // namespace h4a::roce::cm
