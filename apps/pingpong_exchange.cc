#include "apps/pingpong_exchange.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace h4a::apps {
namespace {

constexpr Duration kConnectFor = Duration::s(5);
constexpr std::string_view kDone("done", 5);  // with its NUL

/// The hex number in front of the next colon, which goes too.
std::optional<std::uint32_t> take_field(std::string_view& text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos) return std::nullopt;
  std::uint32_t value = 0;
  const char* const end = text.data() + colon;
  const auto [stop, code] = std::from_chars(text.data(), end, value, 16);
  if (code != std::errc() || stop != end) return std::nullopt;
  text.remove_prefix(colon + 1);
  return value;
}

std::optional<IpAddress> parse_gid(std::string_view hex) {
  std::array<std::uint8_t, IpAddress::kSize> bytes{};
  if (hex.size() != 2 * bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const p = hex.data() + 2 * i;
    const auto [stop, code] = std::from_chars(p, p + 2, bytes[i], 16);
    if (code != std::errc() || stop != p + 2) return std::nullopt;
  }
  return IpAddress::load_v6(bytes.data());
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// @param host nullptr: this host's own addresses, IPv6 (which takes IPv4 too) first.
AddressList resolve(const char* host, std::uint16_t port, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (host == nullptr ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (code != 0) error = ::gai_strerror(code);
  return {code == 0 ? found : nullptr, &::freeaddrinfo};
}

int open_socket(const addrinfo& a) {
  return ::socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a.ai_protocol);
}

bool bind_and_listen(int fd, const addrinfo& a) {
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (a.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  return ::bind(fd, a.ai_addr, a.ai_addrlen) == 0 && ::listen(fd, 1) == 0;
}

}  // namespace

std::array<char, kPingpongMessageSize> to_message(const PingpongContact& c) {
  std::string text = fmt::format("{:04x}:{:06x}:{:06x}:", 0, c.qpn.value(), c.psn.value());
  for (const std::uint8_t byte : c.gid.bytes()) text += fmt::format("{:02x}", byte);
  std::array<char, kPingpongMessageSize> message{};
  std::memcpy(message.data(), text.data(), kPingpongMessageSize - 1);
  return message;
}

std::optional<PingpongContact> parse_message(std::string_view message) {
  message = message.substr(0, message.find('\0'));
  const auto lid = take_field(message);
  const auto qpn = take_field(message);
  const auto psn = take_field(message);
  const auto gid = parse_gid(message);
  if (!lid || !qpn || !psn || !gid || *qpn > Psn::kMask || *psn > Psn::kMask) return std::nullopt;
  return PingpongContact{Qpn(*qpn), Psn(*psn), *gid};
}

PingpongChannel::~PingpongChannel() {
  close_fd();
}

void PingpongChannel::close_fd() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool PingpongChannel::fail(std::string text) {
  if (error_.empty()) error_ = std::move(text);
  return false;
}

bool PingpongChannel::wait(short events) {
  for (;;) {
    pollfd p{fd_, events, 0};
    if (::poll(&p, 1, 0) > 0) return true;
    if (!idle_((events & POLLIN) != 0 ? fd_ : -1))
      return fail("stopped while waiting for the peer");
  }
}

bool PingpongChannel::listen(std::uint16_t port) {
  std::string why;
  const AddressList list = resolve(nullptr, port, why);
  // The IPv6 wildcard serves both families; where there is no IPv6 the other one does.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      if (a->ai_family != family) continue;
      fd_ = open_socket(*a);
      if (fd_ >= 0 && bind_and_listen(fd_, *a)) return true;
      why = std::strerror(errno);
      close_fd();
    }
  }
  return fail(fmt::format("cannot listen on TCP port {}: {}", port, why));
}

bool PingpongChannel::accept() {
  if (!wait(POLLIN)) return false;
  const int client = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  const int code = errno;
  close_fd();
  fd_ = client;
  return client >= 0 || fail(fmt::format("no client: {}", std::strerror(code)));
}

bool PingpongChannel::connect(const std::string& host, std::uint16_t port) {
  std::string why;
  const AddressList list = resolve(host.c_str(), port, why);
  if (!list) return fail(fmt::format("{}: {}", host, why));
  const Instant deadline = steady_now() + kConnectFor;
  do {
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      fd_ = open_socket(*a);
      int code = 0;
      socklen_t size = sizeof(code);
      if (fd_ >= 0 && ::connect(fd_, a->ai_addr, a->ai_addrlen) != 0) {
        code = errno;
        if (code == EINPROGRESS) {
          if (!wait(POLLOUT)) return false;
          ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
        }
      }
      if (fd_ >= 0 && code == 0) return true;
      why = std::strerror(code);
      close_fd();
    }
    if (!idle_(-1)) return fail("stopped while connecting");
  } while (steady_now() < deadline);
  return fail(fmt::format("no ping-pong server on {} port {}: {}", host, port, why));
}

bool PingpongChannel::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait(POLLOUT)) return false;
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return fail("the peer closed the connection during the exchange");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool PingpongChannel::read_all(char* to, std::size_t n) {
  while (n > 0) {
    if (!wait(POLLIN)) return false;
    const ssize_t got = ::recv(fd_, to, n, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return fail("the peer closed the connection during the exchange");
    to += got;
    n -= static_cast<std::size_t>(got);
  }
  return true;
}

bool PingpongChannel::send(const PingpongContact& own) {
  const auto message = to_message(own);
  return write_all({message.data(), message.size()});
}

std::optional<PingpongContact> PingpongChannel::receive() {
  std::array<char, kPingpongMessageSize> message;
  if (!read_all(message.data(), message.size())) return std::nullopt;
  const auto contact = parse_message({message.data(), message.size()});
  if (!contact)
    static_cast<void>(fail("the other end does not speak the exchange of ibv_rc_pingpong"));
  return contact;
}

bool PingpongChannel::send_done() {
  return write_all(kDone);
}

bool PingpongChannel::receive_done() {
  std::array<char, kDone.size()> word;
  if (!read_all(word.data(), word.size())) return false;
  return std::string_view(word.data(), word.size()) == kDone || fail("the client did not say done");
}

}  // namespace h4a::apps
