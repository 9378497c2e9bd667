// BenchEnd: one end of the benchmark: a QP, its memory, and the counters that a row is made of.
//
// Data lands in a region of 64 MiB, message after message, so that it meets cold memory as it would in
// earnest; it comes from a buffer of one message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench.h"
#include "apps/esp_key_log.h"
#include "base/time.h"
#include "h4a/key_schedule.h"
#include "verbs/device.h"
#include "verbs/types.h"

namespace h4a::apps {

inline constexpr std::size_t kBenchRegionBytes = std::size_t{64} << 20;
inline constexpr unsigned kBenchQpsMax = 10000;
inline constexpr std::size_t kBenchMessageMax = std::size_t{8} << 20;

class Host;

/// What the ends tell each other (as a line of text, bench_json.h).
struct BenchContact {
  IpAddress ip;
  Qpn qpn;
  Psn psn;
  Spi spi;
  std::uint64_t address = 0;  // of the region
  Rkey rkey;
  std::uint16_t path_mtu = 0;
  bool clear = false;
  BenchOperation operation = BenchOperation::kWrite;
  bootstrap::PublicKey public_key{};
};

/// The stages of a turn, as stack::StageCycles counts them.
inline constexpr std::array<std::string_view, 9> kBenchStages{
    "port_receive", "classify",           "esp_open", "icrc_check",   "transport_receive",
    "timers",       "transport_transmit", "build",    "port_transmit"};
using BenchStages = std::array<std::uint64_t, kBenchStages.size()>;

/// What one end did during a row. Cycles are those of the turns of the loop that moved packets, less
/// the few in which the core was taken away (longer than half a millisecond), which drop out with their
/// packets.
struct BenchUsage {
  std::uint64_t busy_cycles = 0;
  BenchStages stages{};                 // of those: in each stage, in the order of kBenchStages
  std::uint64_t busy_packets = 0;       // frames received in those turns
  std::uint64_t packets = 0;            // frames received in all
  std::uint64_t interrupted_turns = 0;  // left out
  std::uint64_t retransmitted = 0;      // packets sent again
  double cycles_per_second = 0;
  DropCounters drops;
};

class BenchEnd {
 public:
  /// Makes the QP and registers the memory. @param error one line, if nullptr.
  [[nodiscard]] static std::unique_ptr<BenchEnd> create(Host& host, const BenchOptions& options,
                                                        std::string& error);
  BenchEnd(Host& host, const BenchOptions& options);
  BenchEnd(const BenchEnd&) = delete;
  BenchEnd& operator=(const BenchEnd&) = delete;

  [[nodiscard]] const BenchContact& contact() const noexcept { return own_; }
  /// Keys (X25519 over both lines, as they travelled), association, QP to RTS, receives.
  [[nodiscard]] bool connect(const std::string& own_line, const std::string& peer_line, bool client,
                             EspKeyLog& key_log, std::string& error);

  /// The other queue pairs of --qps, one to one with those of `peer` in this process; after connect()
  /// at both ends. They share the first one's association and path MTU.
  [[nodiscard]] bool connect_others(const BenchEnd& peer, std::string& error);

  /// One turn of this end's stack, counted.
  void poll(Instant now) noexcept;
  /// Starts a new count.
  void reset_usage() noexcept;
  [[nodiscard]] BenchUsage usage() const noexcept;

  /// As requester: posts messages of `size` while there is room and `more` are wanted; collects
  /// completions. @return messages completed since the last call.
  [[nodiscard]] std::uint64_t request(std::size_t size, std::uint64_t& to_post) noexcept;
  /// As target of SENDs: posts the receives that were used again.
  void refill_receives(std::size_t size) noexcept;
  [[nodiscard]] std::uint64_t in_flight() const noexcept { return in_flight_; }

  /// The first failed completion, or "".
  [[nodiscard]] const std::string& failure_text() const noexcept { return failure_; }

  /// Fills the buffer that data comes from / forgets what is in the region.
  void fill_source(std::uint8_t seed) noexcept;
  void clear_region() noexcept;
  /// True if a message of `size` that arrived is what fill_source(seed) wrote at the other end.
  [[nodiscard]] bool region_holds(std::size_t size, std::uint8_t seed) const noexcept;

 private:
  [[nodiscard]] bool make_objects(std::string& error);
  [[nodiscard]] bool make_others();
  [[nodiscard]] bool connect_qp(Qpn own, Qpn remote, std::string& error);
  void post_over_random(std::size_t size, std::uint64_t& to_post, std::size_t n) noexcept;
  [[nodiscard]] bool protect(const std::string& offer, const std::string& answer, bool client,
                             EspKeyLog& key_log, std::string& error);
  [[nodiscard]] bool install(const bootstrap::PseudoRandomKey& prk, bool client, bool inbound,
                             EspKeyLog& key_log);
  [[nodiscard]] verbs::SendWr next_request(std::size_t size) noexcept;
  [[nodiscard]] std::uint64_t next_offset(std::size_t size) noexcept;
  void note_failure(const verbs::Completion& completion);

  Host& host_;
  BenchOptions options_;
  std::unique_ptr<std::uint8_t[]> region_;
  std::unique_ptr<std::uint8_t[]> source_;
  verbs::MemoryRegion region_mr_;
  verbs::MemoryRegion source_mr_;
  verbs::PdId pd_;
  verbs::CqId send_cq_;
  verbs::CqId recv_cq_;
  std::vector<Qpn> qpns_;  // the first is that of `own_`
  AssociationId association_ = kClear;
  bootstrap::PrivateKey private_key_;
  BenchContact own_;
  BenchContact peer_;
  std::uint64_t offset_ = 0;     // where the next message lands
  std::uint64_t in_flight_ = 0;  // posted and not completed
  std::uint64_t receives_missing_ = 0;
  std::uint64_t arrived_at_ = 0;  // offset of the last message that came by SEND
  std::string failure_;

  double interrupted_cycles_;
  BenchUsage usage_;
  Instant reset_at_;
  std::uint64_t cycles_at_reset_ = 0;
  verbs::DeviceCounters at_reset_;
  DropCounters port_drops_at_reset_;
};

}  // namespace h4a::apps
