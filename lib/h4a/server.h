// Server: the sessions of one listening program: a bounded set, polled together, sharing one staging pool.
//
// For each Offer that is accepted: open() a session, put local() into the Answer, connect() it at once,
// since the client's first packet follows the Answer.
//
// Thread: the one that polls the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "h4a/server_session.h"

namespace h4a::http {

class Server {
 public:
  struct Options {
    ServerOptions session;
    std::uint32_t sessions_max = 64;
    /// Of them, by one client, as open() is told who that is.
    std::uint32_t sessions_per_client = 16;
    /// Chunks of kBodyChunkBytes that all sessions share.
    std::uint32_t staging_chunks = 64;
    /// Of them, read from files in one poll(), all sessions together: what a cold disk can stall one turn
    /// by. 1..; sessions take turns.
    std::uint32_t reads_per_turn = 8;
  };
  /// Sums over all sessions, those that ended included.
  struct Counters {
    std::uint64_t sessions = 0;
    std::uint64_t refused = 0;  // open() beyond sessions_max or sessions_per_client
    std::uint64_t requests = 0;
    std::uint64_t responses = 0;
    std::uint64_t body_bytes = 0;  // placed and inline
  };
  /// Told once for each session, before it goes: for example to destroy its association.
  using Ended = std::function<void(const ServerSession&)>;

  /// All references must outlive the server.
  Server(verbs::Device& device, verbs::PdId pd, Random& random, Handler& handler,
         const Options& options, Ended ended = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Takes the staging memory. @return what the device answers.
  [[nodiscard]] Result<void> start() noexcept;
  /// A new session, opened; the server keeps it. connect() it in the same turn: one that is not connected
  /// at the next poll() is dropped.
  /// @param client who asks for it: equal texts are one client; empty: nobody in particular, not limited.
  /// @param settled told once, when the session is half open no longer: confirmed, or ended.
  /// @return kFull at sessions_max, kBusy at sessions_per_client, kInvalidState before start(), what
  /// Session::open() answers.
  [[nodiscard]] Result<ServerSession*> open(std::string client = {},
                                            std::function<void()> settled = {}) noexcept;
  /// What the device's poll_events() gives: a session whose SA reached its soft limit drains, one whose SA
  /// is used up ends. Other events are not for the server.
  void on_event(const verbs::AsyncEvent& event) noexcept;
  /// Polls every session and drops those that ended. @return things done.
  std::size_t poll(Instant now) noexcept;
  [[nodiscard]] Instant next_deadline() const noexcept;
  /// Says GoAway to all; poll() until empty() to let it leave.
  void close(Instant now) noexcept;
  [[nodiscard]] bool empty() const noexcept { return sessions_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return sessions_.size(); }
  [[nodiscard]] Counters counters() const noexcept;

 private:
  struct Entry {
    std::unique_ptr<ServerSession> session;
    std::string client;
    std::function<void()> settled;
  };
  static void add(Counters& sum, const ServerSession& s) noexcept;

  verbs::Device& device_;
  verbs::PdId pd_;
  Random& random_;
  Handler& handler_;
  Options options_;
  Ended ended_;
  std::optional<StagingPool> staging_;
  std::vector<Entry> sessions_;
  std::size_t first_ = 0;  // whose turn it is to be polled first
  Counters past_;
};

}  // namespace h4a::http
