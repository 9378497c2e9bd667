// Starts the EAL with arguments that leave no trace, and keeps its log.
//
// Hugepages: --in-memory. Ordinary memory: --no-huge with --no-shconf (DPDK 22.11 refuses
// --in-memory there). The runtime directory that the EAL insists on lives in a fresh temporary
// directory, removed as soon as the start is over: nothing opens it later, since there are no
// secondary processes and no telemetry socket. IOVA is the virtual address, except for PCI, where
// the bus decides.
#include "drivers_glue/dpdk/eal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <mutex>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

namespace h4a::dpdk {
namespace {

constexpr std::size_t kLogLinesMax = 4;

enum class State { kNotStarted, kRunning, kFailed };

/// The process's EAL. DPDK keeps it in globals of its own; this mirrors what it cannot tell.
struct Environment {
  std::mutex mutex;
  State state = State::kNotStarted;
  bool pci = false;
  bool verbose = false;
  std::mutex log_mutex;
  std::vector<std::string> log;
};

Environment& environment() noexcept {
  static Environment e;
  return e;
}

/// "EAL: Cannot do this\n" → "Cannot do this".
std::string_view message_of(std::string_view line) noexcept {
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  const std::size_t colon = line.find(": ");
  return colon == std::string_view::npos ? line : line.substr(colon + 2);
}

/// The stream that DPDK logs to: keeps the last lines, and prints them if asked to.
ssize_t on_log(void*, const char* text, std::size_t size) {
  Environment& e = environment();
  if (e.verbose) std::fwrite(text, 1, size, stderr);
  if (rte_log_cur_msg_loglevel() > static_cast<int>(RTE_LOG_WARNING))
    return static_cast<ssize_t>(size);
  const std::string_view message = message_of({text, size});
  // net_memif says this on each start without shared files, and it is as wanted.
  if (message.starts_with("Failed to register mp action")) return static_cast<ssize_t>(size);
  const std::lock_guard lock(e.log_mutex);
  if (e.log.size() == kLogLinesMax) e.log.erase(e.log.begin());
  e.log.emplace_back(message);
  return static_cast<ssize_t>(size);
}

bool open_log() {
  cookie_io_functions_t functions{};
  functions.write = on_log;
  std::FILE* stream = fopencookie(nullptr, "w", functions);
  if (stream == nullptr) return false;
  std::setvbuf(stream, nullptr, _IOLBF, 512);
  return rte_openlog_stream(stream) == 0;
}

/// Bytes of free hugepages, all sizes together.
std::size_t free_hugepage_bytes() {
  std::size_t sum = 0;
  std::error_code ignored;
  for (const auto& dir : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ignored)) {
    std::size_t kilobytes = 0;
    std::size_t pages = 0;
    if (std::sscanf(dir.path().filename().c_str(), "hugepages-%zukB", &kilobytes) != 1) continue;
    std::ifstream(dir.path() / "free_hugepages") >> pages;
    sum += kilobytes * 1024 * pages;
  }
  return sum;
}

/// The CPUs this process may run on, as "0@(0,1,5)": one lcore that floats over them.
std::string lcore_map(const cpu_set_t& cpus) {
  std::string list;
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &cpus)) list += (list.empty() ? "" : ",") + std::to_string(i);
  return "0@(" + list + ")";
}

/// A private place for the EAL's runtime directory, removed on destruction.
class RuntimeDirectory {
 public:
  RuntimeDirectory() {
    const char* old = ::getenv("RUNTIME_DIRECTORY");
    if (old != nullptr) old_ = old;
    had_ = old != nullptr;
    char path[] = "/tmp/h4a-eal-XXXXXX";
    if (::mkdtemp(path) == nullptr) return;
    path_ = path;
    ::setenv("RUNTIME_DIRECTORY", path, 1);
  }
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;
  ~RuntimeDirectory() {
    if (path_.empty()) return;
    if (had_)
      ::setenv("RUNTIME_DIRECTORY", old_.c_str(), 1);
    else
      ::unsetenv("RUNTIME_DIRECTORY");
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
  std::string old_;
  bool had_ = false;
};

std::vector<std::string> arguments(const EalOptions& options, const cpu_set_t& cpus) {
  std::vector<std::string> a{"h4a",           "--lcores",
                             lcore_map(cpus), "--no-telemetry",
                             "--file-prefix", "h4a" + std::to_string(::getpid())};
  const std::size_t needed = options.memory_mb << 20;
  if (options.hugepages && free_hugepage_bytes() >= needed) {
    a.emplace_back("--in-memory");
  } else {
    a.insert(a.end(), {"--no-huge", "--no-shconf", "-m", std::to_string(options.memory_mb)});
  }
  if (options.pci) {
    // Nothing is probed at start: ports attach the devices they are asked for.
    a.insert(a.end(), {"-a", "ffff:ff:1f.7"});
  } else {
    a.insert(a.end(), {"--no-pci", "--iova-mode=va"});
  }
  return a;
}

tl::unexpected<Error> start_failure(int code, const EalOptions& options, std::string& error) {
  const std::string log = last_log();
  error =
      fmt::format("DPDK did not start: {}{}{}", rte_strerror(code), log.empty() ? "" : ": ", log);
  if (code == EACCES || code == EPERM) {
    error += "; run as root, or without PCI devices";
    return failure(Error::kAccess);
  }
  if (code == ENOMEM) {
    error += fmt::format("; {} MB are needed, free memory or hugepages", options.memory_mb);
    return failure(Error::kNoMemory);
  }
  return failure(Error::kIo);
}

}  // namespace

Result<void> start_eal(const EalOptions& options, std::string& error) {
  Environment& e = environment();
  const std::lock_guard lock(e.mutex);
  if (e.state == State::kRunning) return {};
  if (e.state == State::kFailed) {
    error = "DPDK did not start, and cannot be started a second time in one process";
    return failure(Error::kInvalidState);
  }
  e.verbose = options.verbose || ::getenv("H4A_DPDK_LOG") != nullptr;
  e.pci = options.pci;
  if (!open_log()) {
    error = "DPDK did not start: no memory for its log";
    return failure(Error::kNoMemory);
  }

  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const bool have_affinity = ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
  if (!have_affinity) CPU_SET(0, &cpus);
  std::vector<std::string> args = arguments(options, cpus);
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);

  int result = 0;
  {
    const RuntimeDirectory directory;
    result = rte_eal_init(static_cast<int>(args.size()), argv.data());
  }
  if (have_affinity) ::sched_setaffinity(0, sizeof(cpus), &cpus);
  e.state = result < 0 ? State::kFailed : State::kRunning;
  if (result < 0) return start_failure(rte_errno, options, error);
  return {};
}

bool eal_running() noexcept {
  return environment().state == State::kRunning;
}

bool eal_has_pci() noexcept {
  return eal_running() && environment().pci;
}

void clear_log() noexcept {
  Environment& e = environment();
  const std::lock_guard lock(e.log_mutex);
  e.log.clear();
}

std::string last_log() {
  Environment& e = environment();
  const std::lock_guard lock(e.log_mutex);
  std::string joined;
  for (const std::string& line : e.log) joined += (joined.empty() ? "" : "; ") + line;
  return joined;
}

void register_thread() noexcept {
  struct Registration {
    bool tried = false;
    bool registered = false;
    ~Registration() {
      if (registered) rte_thread_unregister();
    }
  };
  thread_local Registration r;
  if (r.tried) return;
  r.tried = true;
  // Without a free lcore id the thread works too, with a shared instead of a cached pool.
  if (rte_lcore_id() == LCORE_ID_ANY) r.registered = rte_thread_register() == 0;
}

}  // namespace h4a::dpdk
