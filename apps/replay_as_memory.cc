#include "apps/replay_as_memory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace h4a::apps {
namespace {

using verbs::Access;

constexpr std::uint64_t kRangeMax = std::uint64_t{1} << 36;
constexpr Access kAll = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                        Access::kRemoteAtomic | Access::kWindowBind;

}  // namespace

SparseMemory::~SparseMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

bool SparseMemory::map(std::uint64_t size) {
  if (size > kRangeMax) return false;
  void* p = ::mmap(nullptr, std::max<std::uint64_t>(size, 1), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  bytes_ = {static_cast<std::uint8_t*>(p), std::max<std::size_t>(size, 1)};
  return true;
}

bool HostMemory::create(roce::Engine& engine, verbs::PdId pd, const Facts& facts) {
  return std::all_of(facts.memory.begin(), facts.memory.end(),
                     [&](const auto& entry) { return add(engine, pd, entry.first, entry.second); });
}

bool HostMemory::add(roce::Engine& engine, verbs::PdId pd, std::uint32_t key,
                     const ReachedMemory& reached) {
  Range range;
  range.begin = reached.begin;
  const std::uint64_t size = reached.end - reached.begin;
  if (!range.memory.map(size) || !range.known.map(size)) return false;
  const MutableBytes bytes = range.memory.bytes();
  // A window's own region must not be reached by a key of its own.
  const Access rights = reached.window ? Access::kLocalWrite | Access::kWindowBind : kAll;
  const auto region = engine.register_memory(pd, bytes.data(), bytes.size(), rights, kClear);
  if (!region) return false;
  range.rkey = region->rkey;
  if (reached.window && !bind(engine, pd, *region, range)) return false;
  ranges_.emplace(key, std::move(range));
  return true;
}

bool HostMemory::bind(roce::Engine& engine, verbs::PdId pd, const verbs::MemoryRegion& region,
                      Range& range) {
  const auto window = engine.alloc_window(pd);
  if (!window) return false;
  const auto key = engine.fresh_rkey(window->id);
  if (!key) return false;
  verbs::SendWr wr;
  wr.opcode = verbs::WrOpcode::kBindWindow;
  wr.rkey = range.rkey = *key;
  wr.window = window->id;
  wr.region = region.id;
  wr.bind_address = reinterpret_cast<std::uintptr_t>(range.memory.bytes().data());
  wr.bind_length = range.memory.bytes().size();
  wr.bind_access = Access::kRemoteWrite | Access::kRemoteRead;
  binds_.push_back(wr);
  return true;
}

Rkey HostMemory::key(Rkey recorded) const noexcept {
  const auto it = ranges_.find(recorded.value());
  return it == ranges_.end() ? Rkey{} : it->second.rkey;
}

std::uint64_t HostMemory::address(Rkey recorded, std::uint64_t recorded_address) const noexcept {
  const auto it = ranges_.find(recorded.value());
  if (it == ranges_.end()) return recorded_address;
  const auto base = reinterpret_cast<std::uintptr_t>(it->second.memory.bytes().data());
  return base + (recorded_address - it->second.begin);
}

HostMemory::Range* HostMemory::find(Rkey recorded, std::uint64_t address,
                                    std::uint64_t length) noexcept {
  const auto it = ranges_.find(recorded.value());
  if (it == ranges_.end()) return nullptr;
  const std::uint64_t size = it->second.memory.bytes().size();
  const std::uint64_t offset = address - it->second.begin;
  return offset <= size && length <= size - offset ? &it->second : nullptr;
}

std::uint64_t HostMemory::reveal(Rkey recorded, std::uint64_t recorded_address, Bytes content,
                                 bool overwrite) {
  Range* range = find(recorded, recorded_address, content.size());
  if (range == nullptr) return 0;
  const std::size_t offset = recorded_address - range->begin;
  const MutableBytes memory = range->memory.bytes().subspan(offset, content.size());
  const MutableBytes known = range->known.bytes().subspan(offset, content.size());
  std::uint64_t changed = 0;
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (known[i] != 0 && memory[i] != content[i]) ++changed;
    if (known[i] == 0 || overwrite) memory[i] = content[i];
    known[i] = 1;
  }
  return changed;
}

void HostMemory::note_written(Rkey recorded, std::uint64_t recorded_address, std::uint64_t length) {
  Range* range = find(recorded, recorded_address, length);
  if (range == nullptr) return;
  std::memset(range->known.bytes().data() + (recorded_address - range->begin), 1, length);
}

}  // namespace h4a::apps
