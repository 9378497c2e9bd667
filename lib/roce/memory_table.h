// MemoryTable: protection domains, memory regions, memory windows, and who may touch what.
// Spec: IBA vol. 1 §10.6 (memory management), §9.7.4.1.5 (R_Key validation), C9-88; DESIGN D3, D4,
// D6.
//
// Each remote key leads to one Grant. An access is executed only if the key lives and QP, PD,
// association, rights and bounds match. A Grant's generation changes whenever what it allows
// changes, so a multi-packet message keeps a reference and finds out with one compare that it has
// to ask again.
//
// A type 2 window belongs to the QP that bound it, a type 1 window to its PD. A fast region gets its
// range by a work request, under a random 24-bit number and a low byte that its owner varies.
//
// Keys are random; a dead key stays known to its window until the next bind, so that invalidating
// twice is told apart from a foreign key. Bind and invalidate allocate nothing; register and
// fresh_rkey may.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "base/result.h"
#include "roce/slot_table.h"
#include "verbs/types.h"

namespace h4a::roce {

/// What one rkey lets a peer do.
struct Grant {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  verbs::PdId pd;
  Qpn qpn;                    // the only QP that may use it; 0: any QP of `pd`
  AssociationId association;  // kClear: whichever the QP has
  verbs::Access access = verbs::Access::kNone;
  bool live = false;
  bool retired = false;  // WRITEs are acknowledged and discarded
  Rkey rkey;
  std::uint32_t generation = 0;
  /// Bytes from `address` that WRITEs placed without a hole (DESIGN D6).
  std::uint64_t contiguous_bytes = 0;
};

/// Who asks: a QP, its PD, and the association that the packet came through.
struct Accessor {
  Qpn qpn;
  verbs::PdId pd;
  AssociationId association;
};

enum class KeyVerdict : std::uint8_t {
  kAllowed,
  kRetired,  // a WRITE to acknowledge and discard
  kDenied,
};

/// A checked remote key, kept for the length of a message.
struct RemoteRef {
  Grant* grant = nullptr;
  Rkey rkey;
  std::uint32_t generation = 0;
  KeyVerdict verdict = KeyVerdict::kDenied;

  /// True if nothing that the verdict rests on has changed since.
  [[nodiscard]] bool fresh() const noexcept {
    return grant != nullptr && grant->generation == generation;
  }
};

struct Region {
  verbs::MrId id;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  verbs::PdId pd;
  verbs::Access access = verbs::Access::kNone;
  AssociationId association;
  Lkey lkey;
  std::uint32_t generation = 0;
  std::uint32_t bound_windows = 0;
  bool fast = false;  // from alloc_fast_region(); without memory while length is 0
  Grant grant;
};

struct Window {
  verbs::MwId id;
  verbs::PdId pd;
  verbs::WindowStatus::State state = verbs::WindowStatus::State::kFree;
  bool by_peer = false;
  bool type1 = false;
  Rkey reserved_rkey;  // from fresh_rkey(), for the next bind; 0 if none
  verbs::MrId region;
  Grant grant;
};

/// The region that a local key was last found in.
struct LocalRef {
  Lkey lkey;
  const Region* region = nullptr;
  std::uint32_t generation = 0;
};

class MemoryTable {
 public:
  MemoryTable(std::size_t pd_max, std::size_t mr_max, std::size_t mw_max, Random& random);

  // ---- control: contracts in verbs/device.h ----
  [[nodiscard]] Result<verbs::PdId> alloc_pd() noexcept;
  [[nodiscard]] Result<void> dealloc_pd(verbs::PdId pd) noexcept;
  /// A QP of `pd` comes or goes. @return kNotFound.
  [[nodiscard]] Result<void> hold_pd(verbs::PdId pd) noexcept;
  void drop_pd(verbs::PdId pd) noexcept;
  [[nodiscard]] Result<verbs::MemoryRegion> register_memory(verbs::PdId pd, void* address,
                                                            std::size_t length,
                                                            verbs::Access access,
                                                            AssociationId association) noexcept;
  [[nodiscard]] Result<void> deregister_memory(verbs::MrId region) noexcept;
  [[nodiscard]] Result<verbs::MemoryRegion> alloc_fast_region(verbs::PdId pd,
                                                              AssociationId association) noexcept;
  [[nodiscard]] Result<verbs::MemoryWindow> alloc_window(verbs::PdId pd,
                                                         bool type1 = false) noexcept;
  [[nodiscard]] Result<void> dealloc_window(verbs::MwId window) noexcept;
  /// @param type1 which type the window must be of; kInvalidArgument otherwise.
  [[nodiscard]] Result<Rkey> fresh_rkey(verbs::MwId window, bool type1 = false) noexcept;
  [[nodiscard]] Result<void> retire_window(verbs::MwId window) noexcept;
  [[nodiscard]] Result<verbs::WindowStatus> window_status(verbs::MwId window) const noexcept;

  // ---- work requests of a QP ----
  /// kBindWindow: gives the window its range, rights and reserved key, for `who` alone; a type 1
  /// window for the PD, and with length 0 none at all. Spec: IBA vol. 1 §10.6.7.2.3.
  /// @return kAccess or kInvalidArgument; the window is as before then.
  [[nodiscard]] Result<void> bind(const verbs::SendWr& wr, const Accessor& who) noexcept;
  /// kFastRegister: gives a fast region without memory a range, rights and its next key.
  /// Spec: IBA vol. 1 §10.6.3.4 (fast register).
  /// @return kAccess or kInvalidArgument; the region is as before then.
  [[nodiscard]] Result<void> fast_register(const verbs::SendWr& wr, const Accessor& who) noexcept;
  /// Kills the key of a type 2 window that `who` owns, or of a fast region of its PD; again for a key
  /// that is dead already is no error. @return kNotFound if it is neither; kBusy if windows are bound
  /// to the region.
  [[nodiscard]] Result<void> invalidate(Rkey rkey, const Accessor& who, bool by_peer) noexcept;
  /// True if invalidate() would kill something that lives.
  [[nodiscard]] bool can_invalidate(Rkey rkey, const Accessor& who) noexcept;
  /// Kills the keys of every window of a QP that is reset or destroyed.
  void invalidate_all(Qpn qpn) noexcept;

  // ---- packets ----
  /// Checks a remote access of [address, +length), length > 0, and remembers it in `ref`.
  KeyVerdict open(RemoteRef& ref, const Accessor& who, Rkey rkey, std::uint64_t address,
                  std::uint64_t length, verbs::Access wanted) noexcept;
  /// The memory at `address` for `length` bytes, if `lkey` covers it in `pd` with the rights
  /// `wanted`; nullptr otherwise. `length` > 0.
  [[nodiscard]] std::uint8_t* local(LocalRef& ref, verbs::PdId pd, Lkey lkey, std::uint64_t address,
                                    std::uint64_t length, verbs::Access wanted) noexcept;

 private:
  struct Pd {
    std::uint32_t users = 0;
  };
  [[nodiscard]] Grant* find(Rkey rkey) noexcept;
  [[nodiscard]] Window* find_window(Rkey rkey, const Accessor& who) noexcept;
  [[nodiscard]] Region* find_fast_region(Rkey rkey, const Accessor& who) noexcept;
  void empty(Region& region) noexcept;
  /// Not in use, and no variant of a fast region's key.
  [[nodiscard]] bool is_free(std::uint32_t key) const noexcept;
  [[nodiscard]] std::uint32_t random_key_base() noexcept;
  [[nodiscard]] Rkey random_rkey() noexcept;
  [[nodiscard]] Lkey random_lkey() noexcept;
  [[nodiscard]] Result<const Region*> bindable(const verbs::SendWr& wr, const Window& window,
                                               const Accessor& who) const noexcept;
  void kill(Window& window, bool by_peer) noexcept;

  /// Where a remote key leads: a region, or a window that has it or reserved it.
  struct KeyOwner {
    Grant* grant;
    Window* window;
    Region* region;
  };

  Random& random_;
  SlotTable<Pd, verbs::PdId> pds_;
  SlotTable<Region, verbs::MrId> regions_;
  SlotTable<Window, verbs::MwId> windows_;
  boost::unordered_flat_map<std::uint32_t, KeyOwner> rkeys_;
  boost::unordered_flat_map<std::uint32_t, Region*> lkeys_;
  boost::unordered_flat_map<std::uint32_t, Region*>
      fast_bases_;  // by the upper 24 bits of its keys
};

/// Notes that a WRITE placed `length` bytes at `address` through `grant` (DESIGN D6).
inline void note_coverage(Grant& grant, std::uint64_t address, std::uint64_t length) noexcept {
  const std::uint64_t offset = address - grant.address;
  if (offset <= grant.contiguous_bytes && offset + length > grant.contiguous_bytes)
    grant.contiguous_bytes = offset + length;
}

}  // namespace h4a::roce
