// What ping-pong programs tell each other over TCP before the first RDMA packet: the exchange of
// ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong (rdma-core 44).
//
// Each side sends one message of 52 bytes: LID, QPN and first PSN in hex digits, and the 32 hex digits of
// the GID, with colons in between and a NUL behind. The client speaks first. The server answers when its
// queue pair can receive, and the client, once it has the answer, says "done" with a NUL and closes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/ids.h"
#include "base/serial.h"
#include "base/time.h"

namespace h4a::apps {

/// One side of a ping-pong. RoCE has no LIDs: they are zero.
struct PingpongContact {
  Qpn qpn;
  Psn psn;
  IpAddress gid;

  friend bool operator==(const PingpongContact&, const PingpongContact&) = default;
};

inline constexpr std::size_t kPingpongMessageSize = 52;
[[nodiscard]] std::array<char, kPingpongMessageSize> to_message(const PingpongContact& c);
/// @return nothing unless it has the form above; the LID may be anything.
[[nodiscard]] std::optional<PingpongContact> parse_message(std::string_view message);

/// A TCP connection for the exchange. Calls wait, but let `idle` run meanwhile: it is given a descriptor
/// to wake up for, and returns false to give up.
class PingpongChannel {
 public:
  using Idle = std::function<bool(int fd)>;

  explicit PingpongChannel(Idle idle) : idle_(std::move(idle)) {}
  ~PingpongChannel();
  PingpongChannel(const PingpongChannel&) = delete;
  PingpongChannel& operator=(const PingpongChannel&) = delete;

  /// Listens on all addresses of this host. @return false with error() set.
  [[nodiscard]] bool listen(std::uint16_t port);
  /// Waits for the one client.
  [[nodiscard]] bool accept();
  /// Tries again for five seconds while nobody listens.
  [[nodiscard]] bool connect(const std::string& host, std::uint16_t port);

  [[nodiscard]] bool send(const PingpongContact& own);
  [[nodiscard]] std::optional<PingpongContact> receive();
  /// The client's last word / waiting for it.
  [[nodiscard]] bool send_done();
  [[nodiscard]] bool receive_done();

  /// One line, "" if all is well.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }

 private:
  [[nodiscard]] bool fail(std::string text);
  [[nodiscard]] bool wait(short events);
  [[nodiscard]] bool write_all(std::string_view bytes);
  [[nodiscard]] bool read_all(char* to, std::size_t n);
  void close_fd() noexcept;

  Idle idle_;
  int fd_ = -1;
  std::string error_;
};

}  // namespace h4a::apps
