#include "drivers_glue/dpdk/test_ports.h"

#include <cstdlib>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

namespace h4a::dpdk::test {
namespace {

constexpr std::size_t kAddresses = 12;

std::size_t pattern_begin(unsigned vlan_tags) {
  return kAddresses + 4 * vlan_tags + 2;
}

std::uint8_t pattern(std::size_t i, std::uint8_t seed) {
  return static_cast<std::uint8_t>(i * 31 + seed);
}

}  // namespace

packet::Frame* make_frame(packet::Port& port, std::size_t size, std::uint8_t seed,
                          unsigned vlan_tags) {
  packet::Frame* f = port.pool().allocate_one();
  if (f == nullptr) return nullptr;
  std::uint8_t* p = f->append(size);
  MacAddress::broadcast().store(p);
  port.mac().store(p + 6);
  std::size_t at = kAddresses;
  for (unsigned i = 0; i < vlan_tags; ++i, at += 4)
    store_be<4>(p + at, (i + 1 < vlan_tags ? 0x88a8'0000U : 0x8100'0000U) | (100 + i));
  store_be<2>(p + at, kTestEthertype);
  for (std::size_t i = pattern_begin(vlan_tags); i < size; ++i) p[i] = pattern(i, seed);
  return f;
}

bool matches(const packet::Frame& frame, std::size_t size, std::uint8_t seed, unsigned vlan_tags) {
  if (frame.size() != size) return false;
  const std::uint8_t* p = frame.data();
  if (load_be16(p + pattern_begin(vlan_tags) - 2) != kTestEthertype) return false;
  for (std::size_t i = pattern_begin(vlan_tags); i < size; ++i)
    if (p[i] != pattern(i, seed)) return false;
  return true;
}

bool eventually(const std::function<bool()>& done, int timeout_ms) {
  const Instant deadline = steady_now() + Duration::ms(timeout_ms);
  while (steady_now() < deadline) {
    if (done()) return true;
    ::usleep(200);
  }
  return done();
}

bool send_one(packet::Port& port, packet::Frame* frame) {
  if (frame == nullptr) return false;
  // Receiving is what drives a port's connection; what comes in meanwhile is not of interest.
  if (eventually([&] { return port.transmit({&frame, 1}) == 1; })) return true;
  port.pool().release_one(frame);
  return false;
}

packet::Frame* receive_one(packet::Port& port, int timeout_ms) {
  packet::Frame* found = nullptr;
  const bool ok = eventually(
      [&] {
        packet::Frame* f = nullptr;
        if (port.receive({&f, 1}) == 0) return false;
        const std::uint8_t* p = f->data() + kAddresses;
        while (p + 6 <= f->data() + f->size() && (load_be16(p) == 0x8100 || load_be16(p) == 0x88a8))
          p += 4;
        if (load_be16(p) == kTestEthertype) found = f;
        if (found == nullptr) port.pool().release_one(f);
        return found != nullptr;
      },
      timeout_ms);
  return ok ? found : nullptr;
}

pid_t spawn(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int code = body();
    ::_exit(code);
  }
  return pid;
}

int wait_for(pid_t pid, int timeout_ms) {
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, timeout_ms)) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace h4a::dpdk::test
