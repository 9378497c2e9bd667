#include "drivers_glue/dpdk/interface.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace h4a::dpdk {
namespace {

/// A socket for interface ioctls, closed at the end of the scope.
class ControlSocket {
 public:
  ControlSocket() noexcept : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool control(unsigned long request, ifreq& r) const noexcept {
    return ::ioctl(fd_, request, &r) == 0;
  }

 private:
  int fd_;
};

ifreq request_for(const std::string& name) noexcept {
  ifreq r{};
  std::memcpy(r.ifr_name, name.data(), std::min(name.size(), sizeof(r.ifr_name) - 1));
  return r;
}

bool is_socket_of(int fd, int domain) noexcept {
  int found = 0;
  socklen_t size = sizeof(found);
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &found, &size) == 0 && found == domain;
}

}  // namespace

Result<Interface> query_interface(const std::string& name) noexcept {
  const ControlSocket socket;
  Interface out;
  ifreq r = request_for(name);
  if (!socket.control(SIOCGIFINDEX, r)) return failure(Error::kNotFound);
  out.index = r.ifr_ifindex;
  if (!socket.control(SIOCGIFFLAGS, r)) return failure(Error::kNotFound);
  out.up = (r.ifr_flags & IFF_UP) != 0;
  out.loopback = (r.ifr_flags & IFF_LOOPBACK) != 0;
  if (!socket.control(SIOCGIFMTU, r)) return failure(Error::kNotFound);
  out.mtu = static_cast<unsigned>(r.ifr_mtu);
  if (!socket.control(SIOCGIFHWADDR, r)) return failure(Error::kNotFound);
  std::uint8_t mac[MacAddress::kSize];
  std::memcpy(mac, r.ifr_hwaddr.sa_data, sizeof(mac));
  out.mac = MacAddress::load(mac);
  return out;
}

Result<void> set_interface_mtu(const std::string& name, unsigned mtu) noexcept {
  const ControlSocket socket;
  ifreq r = request_for(name);
  r.ifr_mtu = static_cast<int>(mtu);
  if (!socket.control(SIOCSIFMTU, r)) return failure(Error::kIo);
  return {};
}

bool has_capability(unsigned capability) noexcept {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1U) != 0;
}

std::vector<int> sockets_of(int domain) {
  std::vector<int> found;
  DIR* dir = ::opendir("/proc/self/fd");
  if (dir == nullptr) return found;
  while (const dirent* entry = ::readdir(dir)) {
    const int fd = std::atoi(entry->d_name);
    if (is_socket_of(fd, domain)) found.push_back(fd);
  }
  ::closedir(dir);
  return found;
}

int new_socket(int domain, const std::vector<int>& before) {
  for (const int fd : sockets_of(domain))
    if (std::find(before.begin(), before.end(), fd) == before.end()) return fd;
  return -1;
}

}  // namespace h4a::dpdk
