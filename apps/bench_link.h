// BenchLink: the side channel of a benchmark between two processes, lines of text over TCP or a Unix
// socket, as perftest has one. What travels here is not secret: keys are agreed on by X25519.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace h4a::apps {

class BenchLink {
 public:
  static constexpr std::size_t kLineMax = 65536;

  /// Waits for the one client. `address`: "ADDR:PORT", "[ADDR]:PORT" or a path with a slash.
  /// @param error one line, if nullptr.
  [[nodiscard]] static std::unique_ptr<BenchLink> listen(const std::string& address,
                                                         std::string& error);
  /// Connects; tries again for five seconds while nobody listens.
  [[nodiscard]] static std::unique_ptr<BenchLink> connect(const std::string& address,
                                                          std::string& error);
  explicit BenchLink(int fd) noexcept : fd_(fd) {}
  BenchLink(const BenchLink&) = delete;
  BenchLink& operator=(const BenchLink&) = delete;
  ~BenchLink();

  [[nodiscard]] bool send(const std::string& line) noexcept;
  /// The next line if it is there; never waits.
  [[nodiscard]] std::optional<std::string> try_receive();
  /// The next line; nothing if none came within `timeout_s` or the other end is gone.
  [[nodiscard]] std::optional<std::string> receive(int timeout_s = 10);
  /// The other end closed the channel, or sent more than a line may hold.
  [[nodiscard]] bool closed() const noexcept { return closed_; }

 private:
  int fd_;
  bool closed_ = false;
  std::string buffer_;
};

}  // namespace h4a::apps
