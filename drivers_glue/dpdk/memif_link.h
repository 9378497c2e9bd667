// MemifLink: the connection of a memif port. The client connects when the server is there, and
// again after the server was restarted; bursts stay out of the driver whenever its memory may go
// away.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "drivers_glue/dpdk/ethdev_port.h"

namespace h4a::dpdk {

class MemifLink final : public DriverGuard {
 public:
  /// Starts the configured device `port_id`. A client whose server is not there yet is no error.
  [[nodiscard]] static Result<std::unique_ptr<MemifLink>> start(std::uint16_t port_id, bool server,
                                                                std::string& error);
  MemifLink(std::uint16_t port_id, bool server) noexcept;
  MemifLink(const MemifLink&) = delete;
  MemifLink& operator=(const MemifLink&) = delete;
  ~MemifLink() override;

  [[nodiscard]] bool enter() noexcept override;
  void leave() noexcept override;
  void enter_to_close() noexcept override;

 private:
  void check_link(std::uint64_t now) noexcept;
  void reconnect(std::uint64_t now) noexcept;

  std::uint16_t port_id_;
  bool server_;
  bool started_ = false;
  bool up_ = false;
  std::uint64_t cycles_per_ms_;
  std::uint64_t next_check_ = 0;
  std::uint64_t retry_at_ = 0;
};

/// @return kNotFound if the directory of `path` is missing.
[[nodiscard]] Result<void> check_socket_directory(const std::string& path, std::string& error);

/// Makes `path` free for a server: removes a socket that nobody listens on any more.
/// @return kExists if it is in use or is no socket, kAccess, kNotFound if its directory is missing.
[[nodiscard]] Result<void> prepare_socket_path(const std::string& path, std::string& error);

}  // namespace h4a::dpdk
