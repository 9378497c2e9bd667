#include "drivers_glue/dpdk/memif_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "drivers_glue/dpdk/eal.h"
#include "drivers_glue/dpdk/interrupt_gate.h"

namespace h4a::dpdk {
namespace {

constexpr std::uint64_t kCheckMs = 1;
constexpr std::uint64_t kRetryMs = 20;
/// How long a handshake may take before the client begins anew.
constexpr std::uint64_t kHandshakeMs = 1000;

}  // namespace

Result<std::unique_ptr<MemifLink>> MemifLink::start(std::uint16_t port_id, bool server,
                                                    std::string& error) {
  if (const auto added = InterruptGate::instance().add_port(error); !added)
    return failure(added.error());
  auto link = std::make_unique<MemifLink>(port_id, server);
  if (server) {
    if (rte_eth_dev_start(port_id) != 0) {
      error = "memif server does not start: " + last_log();
      return failure(Error::kIo);
    }
    link->started_ = true;
  }
  return link;
}

MemifLink::MemifLink(std::uint16_t port_id, bool server) noexcept
    : port_id_(port_id), server_(server), cycles_per_ms_(rte_get_tsc_hz() / 1000) {}

MemifLink::~MemifLink() {
  if (up_) InterruptGate::instance().link_changed(false);
  InterruptGate::instance().remove_port();
}

bool MemifLink::enter() noexcept {
  if (!InterruptGate::instance().enter()) return false;
  const std::uint64_t now = rte_get_tsc_cycles();
  if (now >= next_check_) check_link(now);
  if (up_) return true;
  InterruptGate::instance().leave();
  return false;
}

void MemifLink::leave() noexcept {
  InterruptGate::instance().leave();
}

void MemifLink::enter_to_close() noexcept {
  while (!InterruptGate::instance().enter()) ::sched_yield();
}

void MemifLink::check_link(std::uint64_t now) noexcept {
  next_check_ = now + kCheckMs * cycles_per_ms_;
  rte_eth_link link{};
  const bool up = started_ && rte_eth_link_get_nowait(port_id_, &link) == 0 &&
                  link.link_status == RTE_ETH_LINK_UP;
  if (up != up_) {
    up_ = up;
    InterruptGate::instance().link_changed(up);
    if (!up) retry_at_ = now;
  }
  if (!up && !server_ && now >= retry_at_) reconnect(now);
}

void MemifLink::reconnect(std::uint64_t now) noexcept {
  if (started_) rte_eth_dev_stop(port_id_);
  started_ = rte_eth_dev_start(port_id_) == 0;
  retry_at_ = now + (started_ ? kHandshakeMs : kRetryMs) * cycles_per_ms_;
}

Result<void> check_socket_directory(const std::string& path, std::string& error) {
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  if (::access(parent.c_str(), F_OK) == 0) return {};
  error =
      fmt::format("memif:{}: the directory {} does not exist: create it", path, parent.string());
  return failure(Error::kNotFound);
}

Result<void> prepare_socket_path(const std::string& path, std::string& error) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) {
    if (const auto directory = check_socket_directory(path, error); !directory) return directory;
    const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
    if (::access(parent.c_str(), W_OK) == 0) return {};
    error = fmt::format("memif:{}: no permission to create a socket there", path);
    return failure(Error::kAccess);
  }
  if (!S_ISSOCK(st.st_mode)) {
    error = fmt::format("memif:{}: the path exists and is not a socket: choose another", path);
    return failure(Error::kExists);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool stale = connected != 0 && errno == ECONNREFUSED;
  if (fd >= 0) ::close(fd);
  if (stale && ::unlink(path.c_str()) == 0) return {};
  error = stale
              ? fmt::format("memif:{}: a dead server's socket is there and cannot be removed", path)
              : fmt::format(
                    "memif:{}: another process is the server on this path: stop it, choose "
                    "another path, or be its client (leave out role=server)",
                    path);
  return failure(stale ? Error::kAccess : Error::kExists);
}

}  // namespace h4a::dpdk
