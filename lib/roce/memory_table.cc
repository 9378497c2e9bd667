#include "roce/memory_table.h"

namespace h4a::roce {
namespace {

using verbs::Access;
using State = verbs::WindowStatus::State;

/// The low bits of a fast region's key are its owner's to vary.
constexpr unsigned kKeyVariantBits = 8;

constexpr Access kRemoteRights = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

bool any_of(Access held, Access rights) noexcept {
  return (static_cast<unsigned>(held) & static_cast<unsigned>(rights)) != 0;
}

/// [address, +length) lies in [base, +size). No sum can overflow.
bool inside(std::uint64_t base, std::uint64_t size, std::uint64_t address,
            std::uint64_t length) noexcept {
  if (address < base) return false;
  const std::uint64_t offset = address - base;
  return offset <= size && length <= size - offset;
}

/// Remote write and atomics need local write. Spec: IBA vol. 1 §10.6.3.1.
bool rights_make_sense(Access access) noexcept {
  return !any_of(access, Access::kRemoteWrite | Access::kRemoteAtomic) ||
         allows(access, Access::kLocalWrite);
}

/// D3: QP, PD, association, rights and bounds, all of them.
bool permits(const Grant& g, const Accessor& who, std::uint64_t address, std::uint64_t length,
             Access wanted) noexcept {
  return g.live && g.pd == who.pd && (g.qpn == Qpn() || g.qpn == who.qpn) &&
         (g.association == kClear || g.association == who.association) &&
         allows(g.access, wanted) && inside(g.address, g.length, address, length);
}

bool is_bound(const Window& w) noexcept {
  return w.state == State::kValid || w.state == State::kRetired;
}

}  // namespace

MemoryTable::MemoryTable(std::size_t pd_max, std::size_t mr_max, std::size_t mw_max, Random& random)
    : random_(random), pds_(pd_max), regions_(mr_max), windows_(mw_max) {
  rkeys_.reserve(mr_max + 2 * mw_max);
  lkeys_.reserve(mr_max);
  fast_bases_.reserve(mr_max);
}

// ---- protection domains ----

Result<verbs::PdId> MemoryTable::alloc_pd() noexcept {
  verbs::PdId id;
  Pd* pd = pds_.allocate(id);
  if (pd == nullptr) return failure(Error::kNoMemory);
  pd->users = 0;
  return id;
}

Result<void> MemoryTable::dealloc_pd(verbs::PdId id) noexcept {
  const Pd* pd = pds_.find(id);
  if (pd == nullptr) return failure(Error::kNotFound);
  if (pd->users > 0) return failure(Error::kBusy);
  pds_.release(id);
  return {};
}

Result<void> MemoryTable::hold_pd(verbs::PdId id) noexcept {
  Pd* pd = pds_.find(id);
  if (pd == nullptr) return failure(Error::kNotFound);
  ++pd->users;
  return {};
}

void MemoryTable::drop_pd(verbs::PdId id) noexcept {
  --pds_.find(id)->users;
}

// ---- regions ----

Result<verbs::MemoryRegion> MemoryTable::register_memory(verbs::PdId pd, void* address,
                                                         std::size_t length, Access access,
                                                         AssociationId association) noexcept {
  const auto first = reinterpret_cast<std::uint64_t>(address);
  if (address == nullptr || length == 0 || first + length < first || !rights_make_sense(access))
    return failure(Error::kInvalidArgument);
  if (const auto held = hold_pd(pd); !held) return failure(held.error());
  verbs::MrId id;
  Region* r = regions_.allocate(id);
  if (r == nullptr) {
    drop_pd(pd);
    return failure(Error::kNoMemory);
  }
  r->id = id;
  r->address = first;
  r->length = length;
  r->pd = pd;
  r->access = access;
  r->association = association;
  r->lkey = random_lkey();
  r->bound_windows = 0;
  r->fast = false;
  lkeys_.emplace(r->lkey.value(), r);
  Grant& g = r->grant;
  const std::uint32_t generation = g.generation + 1;
  g = {first, length, pd,         Qpn(), association, access, any_of(access, kRemoteRights),
       false, Rkey(), generation, 0};
  if (g.live) {
    g.rkey = random_rkey();
    rkeys_.emplace(g.rkey.value(), KeyOwner{&g, nullptr, r});
  }
  return verbs::MemoryRegion{id, r->lkey, g.rkey};
}

Result<void> MemoryTable::deregister_memory(verbs::MrId id) noexcept {
  Region* r = regions_.find(id);
  if (r == nullptr) return failure(Error::kNotFound);
  if (r->bound_windows > 0) return failure(Error::kBusy);
  lkeys_.erase(r->lkey.value());
  if (r->grant.rkey != Rkey()) rkeys_.erase(r->grant.rkey.value());
  if (r->fast) fast_bases_.erase(r->lkey.value() >> kKeyVariantBits);
  r->grant.live = false;
  ++r->grant.generation;
  ++r->generation;
  drop_pd(r->pd);
  regions_.release(id);
  return {};
}

// ---- fast regions ----

Result<verbs::MemoryRegion> MemoryTable::alloc_fast_region(verbs::PdId pd,
                                                           AssociationId association) noexcept {
  if (const auto held = hold_pd(pd); !held) return failure(held.error());
  verbs::MrId id;
  Region* r = regions_.allocate(id);
  if (r == nullptr) {
    drop_pd(pd);
    return failure(Error::kNoMemory);
  }
  const std::uint32_t generation = r->generation;
  const std::uint32_t grant_generation = r->grant.generation + 1;
  *r = Region{};
  r->id = id;
  r->pd = pd;
  r->association = association;
  r->fast = true;
  r->generation = generation;
  r->grant.generation = grant_generation;
  const std::uint32_t base = random_key_base();
  fast_bases_.emplace(base, r);
  r->lkey = Lkey(base << kKeyVariantBits);
  return verbs::MemoryRegion{id, r->lkey, Rkey(r->lkey.value())};
}

Result<void> MemoryTable::fast_register(const verbs::SendWr& wr, const Accessor& who) noexcept {
  Region* r = regions_.find(wr.region);
  const std::uint32_t key = wr.rkey.value();
  if (r == nullptr || !r->fast || r->length > 0) return failure(Error::kInvalidArgument);
  if (r->pd != who.pd) return failure(Error::kAccess);
  if (key >> kKeyVariantBits != r->lkey.value() >> kKeyVariantBits || wr.bind_address == 0 ||
      wr.bind_length == 0 || wr.bind_address + wr.bind_length < wr.bind_address)
    return failure(Error::kInvalidArgument);
  if (!rights_make_sense(wr.bind_access)) return failure(Error::kAccess);
  if (r->grant.rkey != Rkey()) rkeys_.erase(r->grant.rkey.value());
  r->address = wr.bind_address;
  r->length = wr.bind_length;
  r->access = wr.bind_access;
  r->lkey = Lkey(key);
  ++r->generation;
  lkeys_.emplace(key, r);
  const std::uint32_t generation = r->grant.generation + 1;
  r->grant = {r->address,
              r->length,
              r->pd,
              Qpn(),
              r->association,
              r->access,
              any_of(r->access, kRemoteRights),
              false,
              wr.rkey,
              generation,
              0};
  rkeys_.emplace(key, KeyOwner{&r->grant, nullptr, r});
  return {};
}

/// The key stays known, so that invalidating it twice is told apart from a foreign key.
void MemoryTable::empty(Region& r) noexcept {
  lkeys_.erase(r.lkey.value());
  r.length = 0;
  ++r.generation;
  r.grant.live = false;
  ++r.grant.generation;
}

// ---- windows ----

Result<verbs::MemoryWindow> MemoryTable::alloc_window(verbs::PdId pd, bool type1) noexcept {
  if (const auto held = hold_pd(pd); !held) return failure(held.error());
  verbs::MwId id;
  Window* w = windows_.allocate(id);
  if (w == nullptr) {
    drop_pd(pd);
    return failure(Error::kNoMemory);
  }
  const std::uint32_t generation = w->grant.generation + 1;
  *w = Window{};
  w->id = id;
  w->pd = pd;
  w->type1 = type1;
  w->grant.generation = generation;
  return verbs::MemoryWindow{id};
}

Result<void> MemoryTable::dealloc_window(verbs::MwId id) noexcept {
  Window* w = windows_.find(id);
  if (w == nullptr) return failure(Error::kNotFound);
  if (is_bound(*w)) kill(*w, false);
  if (w->grant.rkey != Rkey()) rkeys_.erase(w->grant.rkey.value());
  if (w->reserved_rkey != Rkey()) rkeys_.erase(w->reserved_rkey.value());
  drop_pd(w->pd);
  windows_.release(id);
  return {};
}

Result<Rkey> MemoryTable::fresh_rkey(verbs::MwId id, bool type1) noexcept {
  Window* w = windows_.find(id);
  if (w == nullptr) return failure(Error::kNotFound);
  if (w->type1 != type1) return failure(Error::kInvalidArgument);
  if (w->reserved_rkey != Rkey()) rkeys_.erase(w->reserved_rkey.value());
  w->reserved_rkey = random_rkey();
  rkeys_.emplace(w->reserved_rkey.value(), KeyOwner{&w->grant, w, nullptr});
  return w->reserved_rkey;
}

Result<void> MemoryTable::retire_window(verbs::MwId id) noexcept {
  Window* w = windows_.find(id);
  if (w == nullptr) return failure(Error::kNotFound);
  if (!is_bound(*w)) return failure(Error::kInvalidState);
  w->state = State::kRetired;
  w->grant.retired = true;
  ++w->grant.generation;
  return {};
}

Result<verbs::WindowStatus> MemoryTable::window_status(verbs::MwId id) const noexcept {
  const Window* w = windows_.find(id);
  if (w == nullptr) return failure(Error::kNotFound);
  return verbs::WindowStatus{w->state, w->grant.rkey, w->grant.contiguous_bytes, w->by_peer};
}

// ---- bind and invalidate ----

Result<const Region*> MemoryTable::bindable(const verbs::SendWr& wr, const Window& window,
                                            const Accessor& who) const noexcept {
  const Region* region = regions_.find(wr.region);
  if (region == nullptr || (is_bound(window) && !window.type1))
    return failure(Error::kInvalidArgument);
  if (wr.rkey == Rkey() || wr.rkey != window.reserved_rkey) return failure(Error::kInvalidArgument);
  if (window.pd != who.pd || region->pd != who.pd) return failure(Error::kAccess);
  if (region->association != kClear && region->association != who.association)
    return failure(Error::kAccess);
  if (!allows(region->access, Access::kWindowBind) || !allows(kRemoteRights, wr.bind_access) ||
      !rights_make_sense(region->access | wr.bind_access))
    return failure(Error::kAccess);
  if (window.type1 && wr.bind_length == 0) return region;
  if (wr.bind_length == 0 ||
      !inside(region->address, region->length, wr.bind_address, wr.bind_length))
    return failure(Error::kInvalidArgument);
  return region;
}

Result<void> MemoryTable::bind(const verbs::SendWr& wr, const Accessor& who) noexcept {
  Window* w = windows_.find(wr.window);
  if (w == nullptr) return failure(Error::kInvalidArgument);
  const auto region = bindable(wr, *w, who);
  if (!region) return failure(region.error());
  if (is_bound(*w)) kill(*w, false);
  if (w->grant.rkey != Rkey()) rkeys_.erase(w->grant.rkey.value());
  const std::uint32_t generation = w->grant.generation + 1;
  // A type 1 window serves its PD, through whichever association its region is meant for.
  w->grant = {wr.bind_address,
              wr.bind_length,
              who.pd,
              w->type1 ? Qpn() : who.qpn,
              w->type1 ? (*region)->association : who.association,
              wr.bind_access,
              true,
              false,
              wr.rkey,
              generation,
              0};
  w->reserved_rkey = Rkey();
  if (wr.bind_length == 0) {  // unbound
    w->grant.live = false;
    w->state = State::kInvalidated;
    return {};
  }
  w->state = State::kValid;
  w->by_peer = false;
  w->region = wr.region;
  ++regions_.find(wr.region)->bound_windows;
  return {};
}

void MemoryTable::kill(Window& w, bool by_peer) noexcept {
  w.grant.live = false;
  ++w.grant.generation;
  w.state = State::kInvalidated;
  w.by_peer = by_peer;
  --regions_.find(w.region)->bound_windows;
}

/// A type 2 window of the QP that asks. That of type 1 is not invalidated but bound anew.
Window* MemoryTable::find_window(Rkey rkey, const Accessor& who) noexcept {
  const auto it = rkeys_.find(rkey.value());
  if (it == rkeys_.end() || it->second.window == nullptr) return nullptr;
  Window* w = it->second.window;
  return w->grant.rkey == rkey && !w->type1 && w->grant.qpn == who.qpn ? w : nullptr;
}

Region* MemoryTable::find_fast_region(Rkey rkey, const Accessor& who) noexcept {
  const auto it = rkeys_.find(rkey.value());
  Region* r = it == rkeys_.end() ? nullptr : it->second.region;
  if (r == nullptr || !r->fast || r->pd != who.pd) return nullptr;
  return r->association == kClear || r->association == who.association ? r : nullptr;
}

bool MemoryTable::can_invalidate(Rkey rkey, const Accessor& who) noexcept {
  if (const Window* w = find_window(rkey, who)) return is_bound(*w);
  const Region* r = find_fast_region(rkey, who);
  return r != nullptr && r->grant.live && r->bound_windows == 0;
}

Result<void> MemoryTable::invalidate(Rkey rkey, const Accessor& who, bool by_peer) noexcept {
  if (Window* w = find_window(rkey, who)) {
    if (is_bound(*w)) kill(*w, by_peer);
    return {};
  }
  Region* r = find_fast_region(rkey, who);
  if (r == nullptr) return failure(Error::kNotFound);
  if (r->bound_windows > 0) return failure(Error::kBusy);
  if (r->length > 0) empty(*r);
  return {};
}

void MemoryTable::invalidate_all(Qpn qpn) noexcept {
  windows_.for_each([&](Window& w) {
    if (is_bound(w) && w.grant.qpn == qpn) kill(w, false);
  });
}

// ---- packets ----

Grant* MemoryTable::find(Rkey rkey) noexcept {
  const auto it = rkeys_.find(rkey.value());
  if (it == rkeys_.end()) return nullptr;
  // A key that is only reserved leads to a grant that has another.
  return it->second.grant->rkey == rkey ? it->second.grant : nullptr;
}

KeyVerdict MemoryTable::open(RemoteRef& ref, const Accessor& who, Rkey rkey, std::uint64_t address,
                             std::uint64_t length, Access wanted) noexcept {
  ref = {find(rkey), rkey, 0, KeyVerdict::kDenied};
  if (ref.grant == nullptr) return ref.verdict;
  ref.generation = ref.grant->generation;
  if (!permits(*ref.grant, who, address, length, wanted)) return ref.verdict;
  // Retired: READs go on, WRITEs are discarded, atomics cannot be answered without being executed.
  const bool changes = any_of(wanted, Access::kRemoteWrite | Access::kRemoteAtomic);
  if (!ref.grant->retired || !changes)
    ref.verdict = KeyVerdict::kAllowed;
  else if (wanted == Access::kRemoteWrite)
    ref.verdict = KeyVerdict::kRetired;
  return ref.verdict;
}

std::uint8_t* MemoryTable::local(LocalRef& ref, verbs::PdId pd, Lkey lkey, std::uint64_t address,
                                 std::uint64_t length, Access wanted) noexcept {
  if (ref.region == nullptr || ref.lkey != lkey || ref.region->generation != ref.generation) {
    const auto it = lkeys_.find(lkey.value());
    if (it == lkeys_.end()) return nullptr;
    ref = {lkey, it->second, it->second->generation};
  }
  const Region& r = *ref.region;
  if (r.pd != pd || !allows(r.access, wanted) || !inside(r.address, r.length, address, length))
    return nullptr;
  return reinterpret_cast<std::uint8_t*>(address);
}

// ---- keys ----

bool MemoryTable::is_free(std::uint32_t key) const noexcept {
  return key != 0 && !rkeys_.contains(key) && !lkeys_.contains(key) &&
         !fast_bases_.contains(key >> kKeyVariantBits);
}

Rkey MemoryTable::random_rkey() noexcept {
  for (;;) {
    const std::uint32_t key = random_.u32();
    if (is_free(key)) return Rkey(key);
  }
}

Lkey MemoryTable::random_lkey() noexcept {
  for (;;) {
    const std::uint32_t key = random_.u32();
    if (is_free(key)) return Lkey(key);
  }
}

std::uint32_t MemoryTable::random_key_base() noexcept {
  for (;;) {
    const std::uint32_t base = random_.u32() >> kKeyVariantBits;
    bool free = base != 0;
    for (std::uint32_t variant = 0; variant < 1U << kKeyVariantBits && free; ++variant)
      free = is_free(base << kKeyVariantBits | variant);
    if (free) return base;
  }
}

}  // namespace h4a::roce
