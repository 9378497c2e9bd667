// PingpongEnd: one end of a ping-pong over any device: a queue pair, its buffers, and the game: whoever
// has received and whose last message is out sends the next one. Same rules as rdma-core's examples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/pingpong_exchange.h"
#include "base/random.h"
#include "base/result.h"
#include "verbs/device.h"
#include "verbs/types.h"

namespace h4a::apps {

struct PingpongOptions {
  verbs::QpType type = verbs::QpType::kRc;
  bool client = false;     // it sends first
  std::uint32_t size = 0;  // bytes of a message; UD: at most the MTU
  std::uint32_t iterations = 1000;
  std::uint32_t receives = 500;  // posted at a time
  std::uint16_t path_mtu = 1024;
  std::uint8_t priority = 0;
  std::size_t gid_index = 0;  // which of the device's addresses
  bool validate = false;
};

class PingpongEnd {
 public:
  /// The queue pair is in INIT with its receives posted. @param error one line, if nullptr.
  [[nodiscard]] static std::unique_ptr<PingpongEnd> create(verbs::Device& device, Random& random,
                                                           const PingpongOptions& options,
                                                           std::string& error);
  PingpongEnd(verbs::Device& device, const PingpongOptions& options);
  PingpongEnd(const PingpongEnd&) = delete;
  PingpongEnd& operator=(const PingpongEnd&) = delete;

  [[nodiscard]] const PingpongContact& local() const noexcept { return local_; }
  /// To RTS. @return false with error() set.
  [[nodiscard]] bool connect(const PingpongContact& remote);
  /// The first message, if this is the client.
  [[nodiscard]] bool serve();

  /// Takes completions and sends what is due. @return how many completions came.
  std::size_t poll();
  [[nodiscard]] bool done() const noexcept {
    return sent_ >= options_.iterations && received_ >= options_.iterations;
  }
  [[nodiscard]] std::uint32_t received() const noexcept { return received_; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }

  /// With `validate`, after done(): the server looks at the marks that a client leaves at the start of
  /// each page, the client at every byte that came back. @return false with error() set.
  [[nodiscard]] bool validate();

 private:
  [[nodiscard]] bool make_objects(Random& random, std::string& error);
  [[nodiscard]] bool connect_address(const PingpongContact& remote);
  [[nodiscard]] bool post_receives();
  [[nodiscard]] bool post_send();
  void handle(const verbs::Completion& c);
  [[nodiscard]] bool fail(std::string text);
  /// Where a message begins in a buffer: behind the GRH of a datagram.
  [[nodiscard]] std::size_t offset() const noexcept;

  verbs::Device& device_;
  PingpongOptions options_;
  // A server sends back what it received, out of the same buffer.
  std::vector<std::uint8_t> receive_buffer_;
  std::vector<std::uint8_t> send_buffer_;
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::MemoryRegion receive_region_;
  verbs::MemoryRegion send_region_;
  Qpn qpn_;
  verbs::AhId ah_;
  PingpongContact local_;
  PingpongContact remote_;
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
  std::uint32_t receives_posted_ = 0;
  bool send_pending_ = false;
  bool receive_pending_ = true;
  std::string error_;
};

}  // namespace h4a::apps
