// The memory table against a slow model: which bytes a peer may touch through which key.
#include "roce/memory_table.h"

#include <algorithm>
#include <set>
#include <vector>

#include "test/test_support.h"

namespace h4a::roce {
namespace {

using verbs::Access;
using verbs::SendWr;

constexpr std::uint64_t kBase = 0x7000'0000;
constexpr Access kRights =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kWindowBind;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

void bounds_do_not_overflow(void**) {
  SeededRandom random(3);
  MemoryTable t(1, 4, 1, random);
  const auto pd = t.alloc_pd().value();
  const std::uint64_t top = ~std::uint64_t{0};
  // Up to the last address but one: a region must not wrap.
  const auto high = t.register_memory(pd, pointer(top - 99), 99, kRights, kClear).value();
  assert_error(t.register_memory(pd, pointer(top - 99), 101, kRights, kClear),
               Error::kInvalidArgument);
  const Accessor who{Qpn(5), pd, kClear};
  const struct {
    std::uint64_t address;
    std::uint64_t length;
    bool ok;
  } cases[] = {
      {top - 99, 99, true},
      {top - 99, 100, false},
      {top - 1, 1, true},
      {top - 1, 2, false},
      {top, 1, false},
      {top - 100, 1, false},
      {top - 50, top, false},
      {0, 1, false},
      {top - 99, top, false},
      {top - 50, 49, true},
      {top - 50, 0xffff'ffff, false},
  };
  for (const auto& c : cases) {
    RemoteRef ref;
    const bool ok = t.open(ref, who, high.rkey, c.address, c.length, Access::kRemoteRead) ==
                    KeyVerdict::kAllowed;
    assert_int_equal(ok, c.ok);
    LocalRef local;
    assert_int_equal(t.local(local, pd, high.lkey, c.address, c.length, Access::kNone) != nullptr,
                     c.ok);
  }
}

void keys_are_random_and_distinct(void**) {
  SeededRandom random(4);
  MemoryTable t(1, 500, 500, random);
  const auto pd = t.alloc_pd().value();
  std::set<std::uint32_t> keys;
  std::size_t neighbours = 0;
  std::uint32_t last = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const auto r = t.register_memory(pd, pointer(kBase + i * 64), 64, kRights, kClear).value();
    assert_true(r.rkey != Rkey(0) && keys.insert(r.rkey.value()).second);
    neighbours += r.rkey.value() - last < 1000 ? 1U : 0U;
    last = r.rkey.value();
    const Rkey w = t.fresh_rkey(t.alloc_window(pd)->id).value();
    assert_true(w != Rkey(0) && keys.insert(w.value()).second);
  }
  assert_true(neighbours < 5);
}

void a_reference_goes_stale_when_anything_changes(void**) {
  SeededRandom random(5);
  MemoryTable t(1, 1, 1, random);
  const auto pd = t.alloc_pd().value();
  const auto region = t.register_memory(pd, pointer(kBase), 4096, kRights, kClear).value();
  const auto window = t.alloc_window(pd).value();
  const Accessor who{Qpn(5), pd, kClear};
  SendWr bind;
  bind.window = window.id;
  bind.region = region.id;
  bind.bind_address = kBase;
  bind.bind_length = 100;
  bind.bind_access = Access::kRemoteWrite;
  bind.rkey = t.fresh_rkey(window.id).value();
  assert_ok(t.bind(bind, who));
  RemoteRef ref;
  const auto open = [&] { return t.open(ref, who, bind.rkey, kBase, 100, Access::kRemoteWrite); };
  assert_eq(open(), KeyVerdict::kAllowed);
  assert_true(ref.fresh());
  assert_ok(t.retire_window(window.id));
  assert_false(ref.fresh());
  assert_eq(open(), KeyVerdict::kRetired);
  assert_ok(t.invalidate(bind.rkey, who, false));
  assert_false(ref.fresh());
  assert_eq(open(), KeyVerdict::kDenied);
  assert_error(t.invalidate(bind.rkey, {Qpn(6), who.pd, who.association}, false), Error::kNotFound);
  assert_ok(t.dealloc_window(window.id));
  RemoteRef other;
  assert_eq(t.open(other, who, region.rkey, kBase, 1, Access::kRemoteRead), KeyVerdict::kAllowed);
  assert_ok(t.deregister_memory(region.id));
  assert_false(other.fresh());
}

/// One window of the model: what is bound, to whom, and how.
struct Model {
  verbs::MwId id;
  Rkey reserved;
  Rkey key;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Qpn qpn;
  AssociationId association;
  Access access = Access::kNone;
  bool live = false;
  bool retired = false;
};

KeyVerdict expected(const std::vector<Model>& windows, const Accessor& who, Rkey key,
                    std::uint64_t address, std::uint64_t length, Access wanted) {
  for (const Model& m : windows) {
    if (!m.live || m.key != key) continue;
    const bool ok = m.qpn == who.qpn &&
                    (m.association == kClear || m.association == who.association) &&
                    allows(m.access, wanted) && address >= m.address &&
                    address + length <= m.address + m.length;
    if (!ok) return KeyVerdict::kDenied;
    return m.retired && wanted == Access::kRemoteWrite ? KeyVerdict::kRetired
                                                       : KeyVerdict::kAllowed;
  }
  return KeyVerdict::kDenied;
}

void agrees_with_a_slow_model(void**) {
  SeededRandom random(6);
  MemoryTable t(1, 1, 8, random);
  const auto pd = t.alloc_pd().value();
  const auto region = t.register_memory(pd, pointer(kBase), 4096, kRights, kClear).value();
  std::vector<Model> windows(8);
  std::vector<Rkey> keys{region.rkey};
  for (Model& m : windows) m.id = t.alloc_window(pd)->id;
  const auto someone = [&] {
    return Accessor{Qpn(static_cast<std::uint32_t>(5 + random.below(2))), pd,
                    AssociationId(static_cast<std::uint32_t>(random.below(2)))};
  };
  for (int step = 0; step < 20000; ++step) {
    Model& m = windows[random.below(windows.size())];
    switch (random.below(6)) {
      case 0:
        keys.push_back(m.reserved = t.fresh_rkey(m.id).value());
        break;
      case 1: {
        const Accessor who = someone();
        SendWr w;
        w.window = m.id;
        w.region = region.id;
        w.bind_address = kBase + random.below(4096);
        w.bind_length = 1 + random.below(4096);
        w.bind_access = random.below(2) == 0 ? Access::kRemoteWrite : Access::kRemoteRead;
        w.rkey = m.reserved;
        const bool ok =
            !m.live && m.reserved != Rkey() && w.bind_address + w.bind_length <= kBase + 4096;
        assert_int_equal(t.bind(w, who).has_value(), ok);
        if (ok)
          m = {m.id,    Rkey(),          w.rkey,        w.bind_address, w.bind_length,
               who.qpn, who.association, w.bind_access, true,           false};
        break;
      }
      case 2:
        if (t.retire_window(m.id)) m.retired = true;
        break;
      case 3: {
        const Accessor who = someone();
        const bool ok = m.key != Rkey() && m.qpn == who.qpn;
        assert_int_equal(t.can_invalidate(m.key, who), ok && m.live);
        assert_int_equal(t.invalidate(m.key, who, true).has_value(), ok);
        if (ok) m.live = false;
        break;
      }
      default: {
        const Accessor who = someone();
        const Rkey key = random.below(2) == 0 ? m.key : keys[random.below(keys.size())];
        if (key == region.rkey) break;
        const std::uint64_t address = kBase + random.below(4096);
        const std::uint64_t length = 1 + random.below(2000);
        const Access wanted = random.below(2) == 0 ? Access::kRemoteWrite : Access::kRemoteRead;
        RemoteRef ref;
        assert_eq(t.open(ref, who, key, address, length, wanted),
                  expected(windows, who, key, address, length, wanted));
      }
    }
  }
}

void coverage_is_a_high_water_mark(void**) {
  Grant g;
  g.address = 1000;
  g.length = 100;
  const struct {
    std::uint64_t address;
    std::uint64_t length;
    std::uint64_t covered;
  } steps[] = {{1010, 10, 0},  {1000, 10, 10}, {1010, 10, 20}, {1000, 5, 20},
               {1015, 10, 25}, {1026, 4, 25},  {1025, 75, 100}};
  for (const auto& s : steps) {
    note_coverage(g, s.address, s.length);
    assert_true(g.contiguous_bytes == s.covered);
  }
}

void stale_handles_find_nothing(void**) {
  SeededRandom random(8);
  MemoryTable t(2, 2, 2, random);
  const auto pd = t.alloc_pd().value();
  const auto window = t.alloc_window(pd).value();
  assert_ok(t.dealloc_window(window.id));
  const auto again = t.alloc_window(pd).value();
  assert_true(again.id != window.id);
  assert_error(t.window_status(window.id), Error::kNotFound);
  assert_error(t.dealloc_window(window.id), Error::kNotFound);
  assert_ok(t.window_status(again.id));
  assert_error(t.dealloc_pd(verbs::PdId()), Error::kNotFound);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(bounds_do_not_overflow),
      cmocka_unit_test(keys_are_random_and_distinct),
      cmocka_unit_test(a_reference_goes_stale_when_anything_changes),
      cmocka_unit_test(agrees_with_a_slow_model),
      cmocka_unit_test(coverage_is_a_high_water_mark),
      cmocka_unit_test(stale_handles_find_nothing),
  };
  return cmocka_run_group_tests_name("memory_table", tests, nullptr, nullptr);
}
