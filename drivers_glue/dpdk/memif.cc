// memif: a link in shared memory between two processes. Copying, not zero-copy: the peer never sees
// our buffers, and it works without hugepages. Slots hold a whole jumbo frame (bsize; the driver's
// default of 2048 would spread frames over chains, which are never made here).
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "drivers_glue/dpdk/devices.h"
#include "drivers_glue/dpdk/memif_control.h"
#include "drivers_glue/dpdk/memif_link.h"

namespace h4a::dpdk {
namespace {

std::string device_arguments(const PortSpec& spec, const std::string& path, const MacAddress& mac) {
  std::string a = fmt::format("role={},socket={},socket-abstract=no,id={},bsize={},rsize={},mac={}",
                              spec.server ? "server" : "client", path, spec.id, kDataRoomBytes,
                              spec.ring_log2, to_string(mac));
  if (!spec.secret.empty()) a += ",secret=" + spec.secret;
  return a;
}

// The driver refuses relative paths: it looks for their directory in the wrong place.
Result<std::string> absolute_path(const std::string& path, std::string& error) {
  std::error_code failed;
  std::string whole = std::filesystem::absolute(path, failed).string();
  if (!failed && whole.size() < sizeof(sockaddr_un::sun_path)) return whole;
  error = fmt::format("memif:{}: the path {} is too long for a socket: choose a shorter one", path,
                      whole);
  return failure(Error::kMalformed);
}

Result<void> check_client_path(const std::string& path, std::string& error) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return check_socket_directory(path, error);  // server to come
  if (!S_ISSOCK(st.st_mode)) {
    error =
        fmt::format("memif:{}: this is not a socket: name the path of the server's socket", path);
    return failure(Error::kExists);
  }
  if (::access(path.c_str(), R_OK | W_OK) == 0) return {};
  error = fmt::format("memif:{}: no permission to connect: run as the server's user or root", path);
  return failure(Error::kAccess);
}

}  // namespace

PortResult open_memif(const PortSpec& spec, const PortOptions& options, std::string& error) {
  const auto path = absolute_path(spec.target, error);
  if (!path) return failure(path.error());
  const auto path_ok =
      spec.server ? prepare_socket_path(*path, error) : check_client_path(*path, error);
  if (!path_ok) return failure(path_ok.error());
  guard_control_socket();

  EthdevConfig config;
  config.mac = spec.mac ? *spec.mac : random_mac();
  const std::uint16_t mtu = wanted_mtu(spec, options);
  config.mtu = mtu != 0 ? mtu : 9000;
  auto pool = MbufPool::create(frame_count(spec, options), kDataRoomBytes, error);
  if (!pool) return failure(pool.error());
  config.pool = *std::move(pool);

  const auto port_id =
      add_device(next_device_name("net_memif"), device_arguments(spec, *path, config.mac), error);
  if (!port_id) {
    error = fmt::format("memif:{}: {}", spec.target, error);
    return failure(port_id.error());
  }
  config.port_id = *port_id;
  if (const auto r = set_up_queues(*port_id, *config.pool, {}, error); !r)
    return failure(r.error());
  auto link = MemifLink::start(*port_id, spec.server, error);
  if (!link) {
    remove_ethdev(*port_id);
    return failure(link.error());
  }
  config.guard = *std::move(link);
  return std::make_unique<EthdevPort>(std::move(config));
}

}  // namespace h4a::dpdk
