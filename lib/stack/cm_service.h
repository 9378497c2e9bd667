// CmService: the connection manager of one device: QP 1 and its buffers around the pure machine in
// roce/cm. Spec: IBA vol. 1 chapters 12 and 13; annex A17.4.
//
// It speaks verbs alone. Each MAD goes out as one datagram to QP 1 of the peer, through the
// association of its connection; what came through an association stays with it, and so does the
// queue pair that is set up by it (DESIGN D3).
//
// Thread: that of the device. Memory is taken at creation; each MAD that is sent holds an address
// handle until it left.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/random.h"
#include "roce/cm/manager.h"
#include "verbs/cm.h"
#include "verbs/device.h"

namespace h4a::stack {

class CmService final : public verbs::ConnectionManager {
 public:
  /// Takes QP 1 of `device`, which outlives it, as does `random`.
  /// @return kExists if somebody has QP 1 already, kNoMemory.
  [[nodiscard]] static Result<std::unique_ptr<CmService>> create(
      verbs::Device& device, Random& random, const roce::cm::Options& options = {}) noexcept;
  ~CmService() override;
  CmService(const CmService&) = delete;
  CmService& operator=(const CmService&) = delete;

  /// One turn: to be called in each turn of the loop that polls the device. Bounded work.
  /// @return when it has to be called again at the latest.
  Instant poll(Instant now) noexcept;
  /// True while messages wait to be sent: the loop should go on at once.
  [[nodiscard]] bool busy() const noexcept { return sends_free_ < kSends; }

  // verbs::ConnectionManager. Time is that of the last poll().
  [[nodiscard]] Result<verbs::CmListenerId> listen(
      const verbs::CmListenOptions& options) noexcept override;
  [[nodiscard]] Result<void> stop_listening(verbs::CmListenerId listener) noexcept override;
  [[nodiscard]] Result<verbs::CmId> connect(
      const verbs::CmConnectOptions& options) noexcept override;
  [[nodiscard]] Result<void> accept(verbs::CmId id,
                                    const verbs::CmAcceptOptions& options) noexcept override;
  [[nodiscard]] Result<void> reject(verbs::CmId id, Bytes private_data) noexcept override;
  [[nodiscard]] Result<void> disconnect(verbs::CmId id, Bytes private_data) noexcept override;
  [[nodiscard]] Result<void> destroy(verbs::CmId id) noexcept override;
  [[nodiscard]] bool poll_event(verbs::CmEvent& out) noexcept override;

  /// Messages that went no further, by reason.
  [[nodiscard]] const DropCounters& drops() const noexcept { return manager_.drops(); }
  [[nodiscard]] const roce::cm::Manager& manager() const noexcept { return manager_; }

 private:
  static constexpr std::uint32_t kReceives = 128;
  static constexpr std::uint32_t kSends = 64;
  static constexpr std::size_t kReceiveBytes = verbs::kGrhBytes + net::kMadSize;
  struct Buffers {
    std::array<std::array<std::uint8_t, kReceiveBytes>, kReceives> receives;
    std::array<net::MadBytes, kSends> sends;
  };

  CmService(verbs::Device& device, Random& random, const roce::cm::Options& options);
  [[nodiscard]] Result<void> open() noexcept;
  [[nodiscard]] Result<void> post_receive(std::uint32_t slot) noexcept;
  void take_completions(Instant now) noexcept;
  void take_message(const verbs::Completion& c, Instant now) noexcept;
  void set_up_active(verbs::CmId id, Instant now) noexcept;
  void send_messages() noexcept;
  void send(const roce::cm::Output& output) noexcept;
  [[nodiscard]] Result<void> move_to_rts(const roce::cm::QpSettings& settings) noexcept;
  [[nodiscard]] const IpAddress* local_address_for(const IpAddress& remote) const noexcept;

  verbs::Device& device_;
  roce::cm::Manager manager_;
  std::unique_ptr<Buffers> buffers_;
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::MemoryRegion region_;
  Qpn qpn_;  // 0 until it is open
  Instant now_;
  std::array<verbs::AhId, kSends> handles_{};  // of the sends on their way
  std::array<std::uint32_t, kSends> free_sends_{};
  std::uint32_t sends_free_ = kSends;
};

}  // namespace h4a::stack
