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
#include <vector>

#include "h4a/server_session.h"

namespace h4a::http {

class Server {
 public:
  struct Options {
    ServerOptions session;
    std::uint32_t sessions_max = 64;
    /// Chunks of kBodyChunkBytes that all sessions share.
    std::uint32_t staging_chunks = 64;
  };
  /// Sums over all sessions, those that ended included.
  struct Counters {
    std::uint64_t sessions = 0;
    std::uint64_t refused = 0;  // open() beyond sessions_max
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
  /// @param settled told once, when the session is half open no longer: confirmed, or ended.
  /// @return kFull at sessions_max, kInvalidState before start(), what Session::open() answers.
  [[nodiscard]] Result<ServerSession*> open(std::function<void()> settled = {}) noexcept;
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
  Counters past_;
};

}  // namespace h4a::http
