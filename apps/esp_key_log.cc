#include "apps/esp_key_log.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace h4a::apps {

bool EspKeyLog::open(const std::string& path, std::string& error) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::fchmod(fd, 0600) != 0) {
    error = fmt::format("--esp-keys {}: cannot create it: {}", path, std::strerror(errno));
    if (fd >= 0) ::close(fd);
    return false;
  }
  file_.reset(::fdopen(fd, "w"));
  fmt::print(file_.get(),
             "# Wireshark ESP SA table (Preferences > Protocols > ESP). Keep it secret.\n");
  std::fflush(file_.get());
  return true;
}

void EspKeyLog::add(const IpAddress& source, const IpAddress& destination, Spi spi, EspSuite,
                    Bytes key, bool esn) {
  if (!file_) return;
  if (esn) fmt::print(file_.get(), "# h4a: esn=1 hi=0\n");
  fmt::print(file_.get(),
             "\"{}\",\"{}\",\"{}\",\"0x{:08x}\",\"AES-GCM with 16 octet ICV [RFC4106]\","
             "\"0x{:02x}\",\"NULL\",\"\"\n",
             source.is_v4() ? "IPv4" : "IPv6", to_string(source), to_string(destination),
             spi.value(), fmt::join(key, ""));
  std::fflush(file_.get());
}

}  // namespace h4a::apps
