#include "apps/host.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include "base/time.h"
#include "drivers_glue/dpdk/eal.h"
#include "drivers_glue/dpdk/port.h"
#include "net/ether.h"

namespace h4a::apps {
namespace {

constexpr Duration kSpin = Duration::us(100);
constexpr Duration kTimedSleepMax = Duration::us(200);
constexpr Duration kDescriptorSleepMax = Duration::ms(10);

bool parse_addresses(const HostArguments& arguments, const MacAddress& mac,
                     stack::StackOptions& options, std::string& error) {
  for (const std::string& text : arguments.ips) {
    if (text == "link-local") {
      options.addresses.push_back({net::link_local_address(mac), 64});
      continue;
    }
    const auto ip = IpInterface::parse(text);
    if (!ip) {
      error =
          fmt::format("--ip {}: not an address with a prefix; write it like 10.99.0.1/24", text);
      return false;
    }
    if (ip->address.is_multicast() || ip->address.is_unspecified()) {
      error = fmt::format("--ip {}: not a unicast address", text);
      return false;
    }
    options.addresses.push_back(*ip);
  }
  for (const std::string& text : arguments.gateways) {
    const auto ip = IpAddress::parse(text);
    const bool on_link =
        ip && std::any_of(options.addresses.begin(), options.addresses.end(),
                          [&](const auto& i) { return i.address.same_prefix(*ip, i.prefix_bits); });
    if (!on_link) {
      error = fmt::format("--gateway {}: not an address inside one of the --ip networks", text);
      return false;
    }
    options.gateways.push_back(*ip);
  }
  return true;
}

}  // namespace

std::unique_ptr<Host> Host::open(const HostArguments& arguments, std::string& error) {
  std::unique_ptr<Host> host(new Host);
  dpdk::EalOptions eal;
  eal.hugepages = !arguments.no_hugepages;
  eal.pci = arguments.port.starts_with("pci:");
  if (!dpdk::start_eal(eal, error)) return nullptr;
  dpdk::PortOptions port_options;
  port_options.mtu = arguments.mtu;
  auto port = dpdk::open_port(arguments.port, port_options, error);
  if (!port) {
    error = fmt::format("--port: {}", error);
    return nullptr;
  }
  host->port_ = std::move(*port);
  host->top_ = host->port_.get();
  host->busy_poll_ = arguments.busy_poll;
  if (!host->open_capture(arguments, error) || !host->open_stack(arguments, error)) return nullptr;
  return host;
}

bool Host::open_capture(const HostArguments& arguments, std::string& error) {
  if (!arguments.pcap.empty()) {
    auto writer = net::PcapngWriter::create(arguments.pcap);
    if (!writer) {
      error = fmt::format("--pcap {}: cannot create it: {}", arguments.pcap, std::strerror(errno));
      return false;
    }
    capture_ = std::move(*writer);
    tap_ = std::make_unique<packet::PcapTap>(*top_, *capture_, wall_now_ns);
    top_ = tap_.get();
  }
  packet::FaultOptions faults;
  faults.seed = arguments.fault_seed;
  faults.receive = {arguments.loss, arguments.duplicate, arguments.reorder, arguments.corrupt};
  faults.transmit = faults.receive;
  if (arguments.loss + arguments.duplicate + arguments.reorder + arguments.corrupt > 0) {
    faults_ = std::make_unique<packet::FaultInjector>(*top_, faults);
    top_ = faults_.get();
  }
  return true;
}

bool Host::open_stack(const HostArguments& arguments, std::string& error) {
  stack::StackOptions options;
  options.engine.qp_max = std::max(options.engine.qp_max, arguments.qp_max);
  if (!parse_addresses(arguments, top_->mac(), options, error)) return false;
  stack_ = std::make_unique<stack::Stack>(*top_, options, random_);
  const bool v6 = !options.addresses.front().address.is_v4();
  if (stack_->max_path_mtu(true, v6) == 0) {
    error =
        fmt::format("--port {}: its MTU of {} is too small for RoCEv2 inside ESP; use 576 or more",
                    arguments.port, top_->mtu());
    return false;
  }
  return true;
}

Host::~Host() = default;

void Host::wait(bool worked, Instant wake_at, int wake_fd) noexcept {
  const Instant now = steady_now();
  if (worked || last_work_ == Instant{}) last_work_ = now;
  if (busy_poll_ || now - last_work_ < kSpin || wake_at <= now) return;
  const int port_fd = top_->wait_fd();
  const Duration most = port_fd >= 0 ? kDescriptorSleepMax : kTimedSleepMax;
  const Duration span = wake_at.is_never() ? most : std::min(most, wake_at - now);
  const timespec timeout{.tv_sec = 0, .tv_nsec = static_cast<long>(span.count_ns())};
  pollfd fds[2] = {{port_fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
  ppoll(fds, 2, &timeout, nullptr);  // negative descriptors are ignored
}

bool Host::finish_capture() noexcept {
  return !capture_ || capture_->finish().has_value();
}

}  // namespace h4a::apps
