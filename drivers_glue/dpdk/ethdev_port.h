// EthdevPort: a packet::Port over any started DPDK ethdev, one receive and one transmit queue.
//
// Bursts go straight to the driver; frames are the driver's buffers. What a driver would cut, chain
// or get stuck on never reaches it or the stack: frames longer than the MTU are dropped and counted
// in both directions. The MTU counts layer 3 only; up to two VLAN tags come on top.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "drivers_glue/dpdk/mbuf_pool.h"
#include "packet/port.h"

struct rte_device;

namespace h4a::dpdk {

/// What a driver needs around bursts, for those that need something (memif: its connection).
class DriverGuard {
 public:
  virtual ~DriverGuard() = default;
  /// Before a burst. False: the driver must not be entered now; the burst moves nothing.
  [[nodiscard]] virtual bool enter() noexcept = 0;
  /// After the burst.
  virtual void leave() noexcept = 0;
  /// As enter(), but waits until it may: for stop and close.
  virtual void enter_to_close() noexcept = 0;
};

struct EthdevConfig {
  std::uint16_t port_id = 0;
  std::shared_ptr<MbufPool> pool;
  MacAddress mac;
  std::uint16_t mtu = 1500;
  /// A descriptor of the driver to sleep on, or -1. Stays the driver's.
  int wait_fd = -1;
  /// Kept until the device is gone; null for most drivers.
  std::unique_ptr<DriverGuard> guard;
  /// Called when the device is gone.
  std::function<void()> on_closed;
};

class EthdevPort final : public packet::Port {
 public:
  explicit EthdevPort(EthdevConfig config) noexcept;
  EthdevPort(const EthdevPort&) = delete;
  EthdevPort& operator=(const EthdevPort&) = delete;
  /// Stops the device, closes it and takes it out of the EAL.
  ~EthdevPort() override;

  [[nodiscard]] std::size_t receive(std::span<packet::Frame*> out) noexcept override;
  /// `frames` must come from pool().
  [[nodiscard]] std::size_t transmit(std::span<packet::Frame* const> frames) noexcept override;
  [[nodiscard]] packet::FramePool& pool() noexcept override { return *config_.pool; }
  [[nodiscard]] MacAddress mac() const noexcept override { return config_.mac; }
  [[nodiscard]] std::uint16_t mtu() const noexcept override { return config_.mtu; }
  [[nodiscard]] const packet::PortCounters& counters() const noexcept override { return counters_; }
  [[nodiscard]] int wait_fd() const noexcept override { return config_.wait_fd; }

 private:
  [[nodiscard]] bool fits(const packet::Frame& frame) const noexcept;
  [[nodiscard]] std::size_t send_run(std::span<packet::Frame* const> frames) noexcept;
  void discard(packet::Frame* frame, Drop reason) noexcept;

  EthdevConfig config_;
  packet::PortCounters counters_;
  bool thread_registered_ = false;
};

/// Stops, closes and removes the device behind `port_id`.
void remove_ethdev(std::uint16_t port_id) noexcept;

}  // namespace h4a::dpdk
