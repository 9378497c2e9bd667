// RpingPeer: one side of one connection that speaks the protocol of rdma-core's rping, over verbs.
//
// A message is an advertisement of 16 bytes: address, rkey and length of a buffer, big-endian. For
// each ping the client advertises a buffer with text; the server READs it and answers with a message
// of any content; the client advertises a sink; the server WRITEs the text into it, up to and with its
// terminating zero, and answers again. The client ends the connection.
//
// Nothing that the peer advertises can make us touch more than our own 64 KiB.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/time.h"
#include "verbs/cm.h"
#include "verbs/device.h"

namespace h4a::apps {

/// Sizes that rping takes. A server takes whatever its client uses.
inline constexpr std::uint32_t kRpingSizeMin = 26;
inline constexpr std::uint32_t kRpingSizeMax = 65535;

struct RpingTask {
  bool server = false;
  std::uint32_t count = 0;                     // client: pings; 0: until it is stopped
  std::uint32_t size = 64;                     // client: bytes of each
  bool validate = false;                       // client: compare what comes back
  std::function<void(std::string_view)> show;  // called with each ping's text, if set
};

struct RpingTimes {
  std::uint64_t pings = 0;
  Duration least, most, sum;
};

class RpingPeer {
 public:
  /// Makes a queue pair in INIT with its memory and receives. @param error one line, if nullptr.
  [[nodiscard]] static std::unique_ptr<RpingPeer> create(verbs::Device& device, RpingTask task,
                                                         std::string& error);
  ~RpingPeer();
  RpingPeer(const RpingPeer&) = delete;
  RpingPeer& operator=(const RpingPeer&) = delete;

  [[nodiscard]] verbs::CmQpParameters parameters() const noexcept;
  /// The connection is there: a client begins.
  void start(Instant now);
  /// Takes completions and goes on. @return true if there was anything.
  bool poll(Instant now);
  /// The connection has ended: whatever completes from now on is no error.
  void end() noexcept { ended_ = true; }

  /// A client that has done its pings, or either side after a failure.
  [[nodiscard]] bool done() const noexcept { return step_ == Step::kDone; }
  /// "" if nothing went wrong.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  [[nodiscard]] const RpingTimes& times() const noexcept { return times_; }

 private:
  /// What it waits for.
  enum class Step : std::uint8_t {
    kIdle,     // client: start()
    kSource,   // server: the advertisement of the text; client: that it was read
    kReading,  // server: its READ
    kSink,     // server: the advertisement of the sink; client: that it was written
    kWriting,  // server: its WRITE
    kDone,
  };
  static constexpr std::size_t kMessageSize = 16;
  static constexpr std::uint32_t kReceives = 4;
  static constexpr std::uint32_t kSends = 16;
  struct Memory {
    std::array<std::uint8_t, kRpingSizeMax + 1>
        text{};  // client: what is read; server: what it read
    std::array<std::uint8_t, kRpingSizeMax + 1> sink{};  // client: what is written
    std::array<std::array<std::uint8_t, kMessageSize>, kReceives> received{};
    std::array<std::array<std::uint8_t, kMessageSize>, kSends> sent{};
  };

  RpingPeer(verbs::Device& device, RpingTask task);
  [[nodiscard]] bool open(std::string& error);
  [[nodiscard]] bool post_receive(std::uint32_t slot) noexcept;
  void send_message(const std::uint8_t* buffer, std::uint32_t length);
  void post_rdma(verbs::WrOpcode opcode, std::uint32_t length);
  void begin_ping(Instant now);
  void end_ping(Instant now);
  void on_message(std::uint32_t slot, std::uint32_t length, Instant now);
  void on_server_message(Bytes message);
  void show_text(const std::uint8_t* text) const;
  [[nodiscard]] std::uint32_t text_length() const noexcept;
  void fail(std::string what);

  verbs::Device& device_;
  RpingTask task_;
  std::unique_ptr<Memory> memory_;
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::MemoryRegion region_;
  Qpn qpn_;
  Step step_ = Step::kIdle;
  bool ended_ = false;
  std::uint32_t sends_ = 0;
  // Server: what the client advertised last.
  std::uint64_t remote_address_ = 0;
  Rkey remote_rkey_;
  std::uint32_t remote_length_ = 0;
  Instant began_;
  RpingTimes times_;
  std::string error_;
};

}  // namespace h4a::apps
