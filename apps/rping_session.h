// RpingSession: what `h4a rping` does on a stack, without the command line: it listens or connects,
// owns the peers, and tells when it is over. Driven by one call a turn, so that it runs in the
// simulator too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/rping_peer.h"
#include "base/time.h"
#include "verbs/cm.h"
#include "verbs/device.h"

namespace h4a::apps {

struct RpingOptions {
  RpingTask task;
  IpAddress address;  // client: the server's; server: unspecified for all of ours
  IpAddress source;   // client: unspecified for the one that fits
  std::uint16_t port = 7174;
  bool persistent = false;  // server: many connections, until stopped; otherwise one
};

class RpingSession {
 public:
  /// Connections that a persistent server has at a time; more are refused.
  static constexpr std::size_t kPeersMax = 64;

  /// Both outlive it.
  RpingSession(verbs::Device& device, verbs::ConnectionManager& cm, RpingOptions options)
      : device_(device), cm_(cm), options_(std::move(options)) {}
  ~RpingSession();
  RpingSession(const RpingSession&) = delete;
  RpingSession& operator=(const RpingSession&) = delete;

  /// Listens, or sends the request. @param error one line, if false.
  [[nodiscard]] bool start(std::string& error);
  /// One turn. @return true if something happened.
  bool poll(Instant now);
  /// Ends all connections; over() follows.
  void stop();

  [[nodiscard]] bool over() const noexcept { return over_; }
  /// The first thing that went wrong, or "".
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// Of all connections together, those that ended included.
  [[nodiscard]] RpingTimes times() const noexcept;
  [[nodiscard]] std::uint64_t connections() const noexcept { return connections_; }

 private:
  struct Entry {
    verbs::CmId id;
    std::unique_ptr<RpingPeer> peer;
    bool established = false;
    bool disconnecting = false;
  };
  void on_event(const verbs::CmEvent& e, Instant now);
  void on_request(const verbs::CmEvent& e);
  void finish(std::size_t index);
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  [[nodiscard]] static RpingTimes sum(RpingTimes a, const RpingTimes& b) noexcept;

  verbs::Device& device_;
  verbs::ConnectionManager& cm_;
  RpingOptions options_;
  verbs::CmListenerId listener_;
  std::vector<Entry> entries_;
  RpingTimes finished_;
  std::uint64_t connections_ = 0;
  bool stopping_ = false;
  bool over_ = false;
  std::string error_;
};

}  // namespace h4a::apps
