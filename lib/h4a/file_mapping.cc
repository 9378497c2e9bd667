// Mapped files, and a guard for the moment when somebody cuts one short: reading a page behind the
// new end raises SIGBUS, which would end the process. The guard's handler looks the address up in a
// table of our mappings, puts a page of zeros there, marks the mapping as torn, and the read goes
// on. The reader asks intact() before the octets count (a Response that was torn is never sent as
// complete).
//
// A signal handler is process-wide, hence the one table here that is not handed down from main.
// Addresses outside of it go to the handler that was there before. The handler takes no lock and
// allocates nothing.
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "h4a/file_source.h"

namespace h4a {
namespace {

constexpr std::size_t kSlots = 4096;  // mappings at a time
constexpr std::uintptr_t kReserved = 1;

struct Slot {
  std::atomic<std::uintptr_t> begin{0};  // 0: free; kReserved: being filled
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> torn{false};
};

std::array<Slot, kSlots> slots;
struct sigaction previous = {};
std::uintptr_t page_bytes = 4096;

Slot* slot_of(std::uintptr_t address) noexcept {
  for (Slot& s : slots) {
    const std::uintptr_t begin = s.begin.load(std::memory_order_acquire);
    if (begin > kReserved && address >= begin && address < s.end.load(std::memory_order_relaxed))
      return &s;
  }
  return nullptr;
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    ::sigaction(SIGBUS, &previous, nullptr);  // the access is repeated, and now ends the process
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) noexcept {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Slot* slot = slot_of(address);
  void* page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
  if (slot != nullptr && ::mmap(page, page_bytes, PROT_READ,
                                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
    slot->torn.store(true, std::memory_order_release);
  } else {
    pass_on(signal, info, context);
  }
  errno = saved;
}

void install_guard() noexcept {
  static const bool kInstalled = [] {
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return ::sigaction(SIGBUS, &action, &previous) == 0;
  }();
  static_cast<void>(kInstalled);
}

/// @return its index, or kSlots if all are taken.
std::size_t take_slot() noexcept {
  for (std::size_t i = 0; i < kSlots; ++i) {
    std::uintptr_t free = 0;
    if (slots[i].begin.compare_exchange_strong(free, kReserved)) return i;
  }
  return kSlots;
}

}  // namespace

Result<FileMapping> File::map() const noexcept {
  if (size_ == 0) return failure(Error::kInvalidState);
  if (size_ > std::numeric_limits<std::size_t>::max() / 2) return failure(Error::kNoMemory);
  install_guard();
  const std::size_t slot = take_slot();
  if (slot == kSlots) return failure(Error::kNoMemory);
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_.get(), 0);
  if (p == MAP_FAILED) {
    slots[slot].begin.store(0);
    return failure(errno == ENOMEM ? Error::kNoMemory : Error::kIo);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(p);
  slots[slot].torn.store(false);
  slots[slot].end.store(begin + size_);
  slots[slot].begin.store(begin, std::memory_order_release);
  return FileMapping(static_cast<const std::uint8_t*>(p), size_, slot);
}

FileMapping::FileMapping(FileMapping&& o) noexcept
    : address_(std::exchange(o.address_, nullptr)), size_(o.size_), slot_(o.slot_) {}

FileMapping::~FileMapping() {
  if (address_ == nullptr) return;
  ::munmap(const_cast<std::uint8_t*>(address_), size_);
  slots[slot_].begin.store(0, std::memory_order_release);
}

bool FileMapping::intact() const noexcept {
  return !slots[slot_].torn.load(std::memory_order_acquire);
}

}  // namespace h4a
