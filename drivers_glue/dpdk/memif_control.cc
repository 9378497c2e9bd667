#include "drivers_glue/dpdk/memif_control.h"

#include <cerrno>
#include <csignal>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

bool is_seqpacket(int fd) noexcept {
  int type = 0;
  socklen_t size = sizeof(type);
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

std::size_t size_of(const msghdr& message) noexcept {
  std::size_t size = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) size += message.msg_iov[i].iov_len;
  return size;
}

}  // namespace

extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = ::syscall(SYS_sendmsg, fd, message, flags);
  if (sent >= 0) return sent;
  const int error = errno;
  const bool gone = error == EPIPE || error == ECONNRESET;
  if (gone && is_seqpacket(fd)) return static_cast<ssize_t>(size_of(*message));
  errno = error;
  return sent;
}

void h4a::dpdk::guard_control_socket() noexcept {
  struct sigaction current {};
  if (::sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
}
