// Ports on interfaces of the kernel: AF_PACKET, AF_XDP, TAP.
//
// net_af_packet: a slot must hold a jumbo frame (its default of 2048 bytes loses them), slots must
// lie without gaps (the driver computes their place as a multiple of the slot), so a block holds a
// whole number of both slots and pages: 4 × 9216 = 9 × 4096.
#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <rte_ethdev.h>
#include <sys/socket.h>

#include "drivers_glue/dpdk/devices.h"
#include "drivers_glue/dpdk/interface.h"

namespace h4a::dpdk {
namespace {

constexpr std::size_t kSlotBytes = 9216;
constexpr std::size_t kBlockBytes = 36864;
constexpr std::size_t kSlots = 512;
static_assert(kBlockBytes % kSlotBytes == 0 && kBlockBytes % 4096 == 0);
static_assert(kSlots % (kBlockBytes / kSlotBytes) == 0);

tl::unexpected<Error> no_permission(const PortSpec& spec, std::string_view prefix,
                                    std::string_view capability, std::string& error) {
  error =
      fmt::format("{}{}: not permitted: run as root, or give the program {} (setcap {}+ep FILE)",
                  prefix, spec.target, capability, capability);
  return failure(Error::kAccess);
}

/// The interface, if it is there and up.
Result<Interface> usable_interface(const PortSpec& spec, std::string_view prefix,
                                   std::string& error) {
  const auto interface = query_interface(spec.target);
  if (!interface) {
    error =
        fmt::format("{}{}: there is no such interface: `ip link` lists them", prefix, spec.target);
    return failure(Error::kNotFound);
  }
  if (!interface->up) {
    error = fmt::format("{}{}: the interface is down: `ip link set {} up`", prefix, spec.target,
                        spec.target);
    return failure(Error::kInvalidState);
  }
  return interface;
}

/// The MTU a port on `interface` has. One that is larger than ours is used up to our limit.
Result<std::uint16_t> choose_mtu(const PortSpec& spec, const PortOptions& options,
                                 const Interface& interface, unsigned limit,
                                 std::string_view prefix, std::string& error) {
  const unsigned wanted = wanted_mtu(spec, options);
  if (wanted > interface.mtu) {
    error = fmt::format("{}{}: mtu={} is more than the interface's {}: `ip link set {} mtu {}`",
                        prefix, spec.target, wanted, interface.mtu, spec.target, wanted);
    return failure(Error::kInvalidArgument);
  }
  if (wanted > limit) {
    error = fmt::format("{}{}: mtu={} is more than the {} possible here", prefix, spec.target,
                        wanted, limit);
    return failure(Error::kInvalidArgument);
  }
  return static_cast<std::uint16_t>(wanted != 0 ? wanted : std::min(interface.mtu, limit));
}

/// Keeps libbpf and libxdp, which net_af_xdp brings along, from writing on stderr.
class QuietBpf {
 public:
  QuietBpf() noexcept
      : bpf_(silence("libbpf.so.1", "libbpf_set_print")),
        xdp_(silence("libxdp.so.1", "libxdp_set_print")) {}
  QuietBpf(const QuietBpf&) = delete;
  QuietBpf& operator=(const QuietBpf&) = delete;
  ~QuietBpf() {
    if (bpf_ != nullptr) ::dlclose(bpf_);
    if (xdp_ != nullptr) ::dlclose(xdp_);
  }

 private:
  /// @return the library, if it is loaded.
  static void* silence(const char* library, const char* function) noexcept {
    using SetPrint = void* (*)(void*);  // takes and returns a print function; null prints nothing
    void* handle = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    if (const auto set = reinterpret_cast<SetPrint>(::dlsym(handle, function))) set(nullptr);
    return handle;
  }

  void* bpf_;
  void* xdp_;
};

/// Makes, configures and starts the device; fills `config.port_id`.
Result<void> bring_up(std::string_view driver, const std::string& arguments, EthdevConfig& config,
                      const QueueSetup& setup, std::string& error) {
  const auto port_id = add_device(next_device_name(driver), arguments, error);
  if (!port_id) return failure(port_id.error());
  config.port_id = *port_id;
  if (const auto r = set_up_queues(*port_id, *config.pool, setup, error); !r) return r;
  return start_device(*port_id, error);
}

}  // namespace

PortResult open_af_packet(const PortSpec& spec, const PortOptions& options, std::string& error) {
  constexpr std::string_view kPrefix = "af_packet:";
  const auto interface = usable_interface(spec, kPrefix, error);
  if (!interface) return failure(interface.error());
  if (!has_capability(CAP_NET_RAW)) return no_permission(spec, kPrefix, "cap_net_raw", error);
  const auto mtu = choose_mtu(spec, options, *interface, kMtuMax, kPrefix, error);
  if (!mtu) return failure(mtu.error());

  EthdevConfig config;
  config.mac = spec.mac ? *spec.mac : interface->mac;
  config.mtu = *mtu;
  auto pool = MbufPool::create(frame_count(spec, options), kDataRoomBytes, error);
  if (!pool) return failure(pool.error());
  config.pool = *std::move(pool);
  const std::string arguments = fmt::format("iface={},blocksz={},framesz={},framecnt={}",
                                            spec.target, kBlockBytes, kSlotBytes, kSlots);
  const std::vector<int> before = sockets_of(AF_PACKET);
  if (const auto r = bring_up("net_af_packet", arguments, config, {}, error); !r) {
    error = fmt::format("{}{}: {}", kPrefix, spec.target, error);
    return failure(r.error());
  }
  config.wait_fd = new_socket(AF_PACKET, before);
  return std::make_unique<EthdevPort>(std::move(config));
}

/// AF_XDP: a frame with all its headers must fit a page, and the kernel keeps 256 bytes of it.
PortResult open_af_xdp(const PortSpec& spec, const PortOptions& options, std::string& error) {
  constexpr std::string_view kPrefix = "af_xdp:";
  constexpr std::size_t kPageBytes = 4096;
  constexpr std::size_t kKernelHeadroomBytes = 256;  // XDP_PACKET_HEADROOM
  constexpr std::size_t kLinkBytes = 22;             // Ethernet with two tags
  const auto interface = usable_interface(spec, kPrefix, error);
  if (!interface) return failure(interface.error());
  if (!has_capability(CAP_NET_RAW) || !has_capability(CAP_NET_ADMIN))
    return no_permission(spec, kPrefix, "cap_net_raw,cap_net_admin,cap_bpf", error);
  // DPDK spreads elements over memory channels: an odd number of cache lines stays as it is.
  const std::size_t data_room = kPageBytes - 64 - mbuf_overhead_bytes();
  const std::size_t limit = data_room - kKernelHeadroomBytes - kLinkBytes;
  const auto mtu =
      choose_mtu(spec, options, *interface, static_cast<unsigned>(limit), kPrefix, error);
  if (!mtu) return failure(mtu.error());

  EthdevConfig config;
  config.mac = spec.mac ? *spec.mac : interface->mac;
  config.mtu = *mtu;
  // The driver keeps a ring full of frames with the kernel; the pool must outlast it.
  auto pool =
      MbufPool::create(std::max<std::size_t>(frame_count(spec, options), 8192), data_room, error);
  if (!pool) return failure(pool.error());
  config.pool = *std::move(pool);
  const std::string arguments =
      fmt::format("iface={},start_queue={},queue_count=1", spec.target, spec.queue);
  const QueueSetup queues{.descriptors = 2048};
  const std::vector<int> before = sockets_of(AF_XDP);
  const QuietBpf quiet;
  if (const auto r = bring_up("net_af_xdp", arguments, config, queues, error); !r) {
    error = fmt::format("{}{}: {}; af_packet:{} works without AF_XDP", kPrefix, spec.target, error,
                        spec.target);
    return failure(r.error());
  }
  config.wait_fd = new_socket(AF_XDP, before);
  return std::make_unique<EthdevPort>(std::move(config));
}

/// The kernel's end of the TAP has the MAC address that the driver reports; ours is another.
/// net_tap lets no frame above 1500 bytes and a tag out, whatever the interface's MTU.
PortResult open_tap(const PortSpec& spec, const PortOptions& options, std::string& error) {
  constexpr std::string_view kPrefix = "tap:";
  constexpr std::uint16_t kTapMtuMax = 1500;
  if (query_interface(spec.target)) {
    error =
        fmt::format("tap:{}: an interface of this name exists: choose another name", spec.target);
    return failure(Error::kExists);
  }
  if (!has_capability(CAP_NET_ADMIN)) return no_permission(spec, kPrefix, "cap_net_admin", error);
  const std::uint16_t mtu = wanted_mtu(spec, options);
  if (mtu > kTapMtuMax) {
    error = fmt::format(
        "tap:{}: mtu={} is more than the {} that DPDK's driver carries: for jumbo frames "
        "use a veth pair and af_packet:",
        spec.target, mtu, kTapMtuMax);
    return failure(Error::kInvalidArgument);
  }

  EthdevConfig config;
  config.mac = spec.mac ? *spec.mac : random_mac();
  config.mtu = mtu != 0 ? mtu : kTapMtuMax;
  auto pool = MbufPool::create(frame_count(spec, options), kDataRoomBytes, error);
  if (!pool) return failure(pool.error());
  config.pool = *std::move(pool);
  const QueueSetup queues{.descriptors = 512, .rx_interrupt = true};
  if (const auto r = bring_up("net_tap", "iface=" + spec.target, config, queues, error); !r) {
    error = fmt::format("tap:{}: {}", spec.target, error);
    return failure(r.error());
  }
  if (!set_interface_mtu(spec.target, config.mtu)) {
    remove_ethdev(config.port_id);
    error = fmt::format("tap:{}: the kernel does not take mtu={}", spec.target, config.mtu);
    return failure(Error::kIo);
  }
  config.wait_fd = rte_eth_dev_rx_intr_ctl_q_get_fd(config.port_id, 0);
  return std::make_unique<EthdevPort>(std::move(config));
}

}  // namespace h4a::dpdk
