#include "apps/bench_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/time.h"

namespace h4a::apps {
namespace {

constexpr int kConnectTries = 50;
constexpr int kConnectPauseUs = 100'000;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

bool resolve_path(const std::string& path, SocketAddress& out, std::string& error) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  if (path.size() >= sizeof(un.sun_path)) {
    error = fmt::format("{}: longer than a socket path can be", path);
    return false;
  }
  std::memcpy(un.sun_path, path.data(), path.size());
  std::memcpy(&out.storage, &un, sizeof(un));
  out.size = sizeof(un);
  return true;
}

bool resolve(const std::string& address, SocketAddress& out, std::string& error) {
  if (address.find('/') != std::string::npos) return resolve_path(address, out, error);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    error = fmt::format("{}: write it as ADDR:PORT, or the path of a Unix socket", address);
    return false;
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (code != 0) {
    error = fmt::format("{}: {}", address, ::gai_strerror(code));
    return false;
  }
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return true;
}

}  // namespace

std::unique_ptr<BenchLink> BenchLink::listen(const std::string& address, std::string& error) {
  SocketAddress at;
  if (!resolve(address, at, error)) return nullptr;
  const int fd = ::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int client = -1;
  if (::bind(fd, at.get(), at.size) == 0 && ::listen(fd, 1) == 0) {
    client = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (at.storage.ss_family == AF_UNIX) ::unlink(address.c_str());
  }
  if (client < 0) error = fmt::format("--listen {}: {}", address, std::strerror(errno));
  if (fd >= 0) ::close(fd);
  return client < 0 ? nullptr : std::make_unique<BenchLink>(client);
}

std::unique_ptr<BenchLink> BenchLink::connect(const std::string& address, std::string& error) {
  SocketAddress at;
  if (!resolve(address, at, error)) return nullptr;
  for (int i = 0; i < kConnectTries; ++i, ::usleep(kConnectPauseUs)) {
    const int fd = ::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, at.get(), at.size) == 0) return std::make_unique<BenchLink>(fd);
    error = fmt::format("--connect {}: {}: does the server run with --listen?", address,
                        std::strerror(errno));
    if (fd >= 0) ::close(fd);
  }
  return nullptr;
}

BenchLink::~BenchLink() {
  ::close(fd_);
}

bool BenchLink::send(const std::string& line) noexcept {
  const std::string text = line + '\n';
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::string> BenchLink::try_receive() {
  char chunk[4096];
  std::size_t end = buffer_.find('\n');
  if (end == std::string::npos && !closed_) {
    const ssize_t n = ::recv(fd_, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n > 0) buffer_.append(chunk, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) closed_ = true;
    end = buffer_.find('\n');
    if (end == std::string::npos && buffer_.size() > kLineMax) closed_ = true;
  }
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::optional<std::string> BenchLink::receive(int timeout_s) {
  const Instant deadline = steady_now() + Duration::s(timeout_s);
  while (!closed_ && steady_now() < deadline) {
    if (auto line = try_receive()) return line;
    pollfd p{fd_, POLLIN, 0};
    ::poll(&p, 1, 100);
  }
  return std::nullopt;
}

}  // namespace h4a::apps
