// Nothing allocates inside poll_once (DESIGN D10): the test counts operator new while two stacks carry
// protected and clear traffic over a cable that moves frames without copying them.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "stack/stack.h"

#include "test/test_support.h"

namespace {
bool g_counting = false;
std::size_t g_allocations = 0;

// Ends the test where memory is exhausted, so that throwing and other forms can share it.
void* counted(std::size_t n, std::size_t alignment) {
  if (g_counting) ++g_allocations;
  if (void* p = std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment))
    return p;
  std::abort();
}
}  // namespace

// Every form, so that none is answered by another allocator.
[[gnu::noinline]] void* operator new(std::size_t n) {
  return counted(n, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t n) {
  return counted(n, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a) {
  return counted(n, std::size_t(a));
}
[[gnu::noinline]] void* operator new[](std::size_t n, std::align_val_t a) {
  return counted(n, std::size_t(a));
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return counted(n, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return counted(n, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a,
                                     const std::nothrow_t&) noexcept {
  return counted(n, std::size_t(a));
}
[[gnu::noinline]] void* operator new[](std::size_t n, std::align_val_t a,
                                       const std::nothrow_t&) noexcept {
  return counted(n, std::size_t(a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace h4a::stack {
namespace {

constexpr std::size_t kMessage = 20'000;
constexpr std::uint32_t kDepth = 16;

/// Two ports with one pool; a frame sent by one is received by the other.
class Cable {
 public:
  explicit Cable(std::size_t frames) : pool_(frames) {}
  packet::Port& end(std::size_t i) noexcept { return ends_[i]; }

 private:
  class End final : public packet::Port {
   public:
    End(Cable& cable, std::size_t index) : cable_(cable), index_(index) {}
    std::size_t receive(std::span<packet::Frame*> out) noexcept override {
      std::size_t n = 0;
      for (; n < out.size() && count_ > 0; ++n, --count_) {
        out[n] = queue_[begin_];
        begin_ = (begin_ + 1) % queue_.size();
        out[n]->set_data(out[n]->begin(), out[n]->size());
      }
      return n;
    }
    std::size_t transmit(std::span<packet::Frame* const> frames) noexcept override {
      End& to = cable_.ends_[1 - index_];
      std::size_t n = 0;
      for (; n < frames.size() && to.count_ < to.queue_.size(); ++n)
        to.queue_[(to.begin_ + to.count_++) % to.queue_.size()] = frames[n];
      return n;
    }
    packet::FramePool& pool() noexcept override { return cable_.pool_; }
    MacAddress mac() const noexcept override {
      return MacAddress({2, 0, 0, 0, 0, static_cast<std::uint8_t>(index_)});
    }
    std::uint16_t mtu() const noexcept override { return 9000; }
    const packet::PortCounters& counters() const noexcept override { return counters_; }

   private:
    Cable& cable_;
    std::size_t index_;
    std::array<packet::Frame*, 512> queue_{};
    std::size_t begin_ = 0;
    std::size_t count_ = 0;
    packet::PortCounters counters_;
  };

  packet::HeapFramePool pool_;
  End ends_[2] = {End(*this, 0), End(*this, 1)};
};

struct Side {
  std::unique_ptr<Stack> stack;
  verbs::PdId pd;
  verbs::CqId cq;
  Qpn qpn;
  AssociationId association;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(2 * kMessage);
  verbs::MemoryRegion region;
};

struct Two {
  Cable cable{2048};
  SeededRandom random{5};
  Side sides[2];
  Instant now = Instant::from_ns(1'000'000'000);

  explicit Two(bool with_esp) {
    for (std::size_t i = 0; i < 2; ++i) open(i);
    if (with_esp) install_keys();
    for (std::size_t i = 0; i < 2; ++i) connect(i);
  }
  [[nodiscard]] static IpAddress address(std::size_t i) {
    return IpAddress::v4(10, 0, 0, static_cast<std::uint8_t>(i + 1));
  }
  void open(std::size_t i) {
    Side& s = sides[i];
    StackOptions options;
    options.addresses = {{address(i), 24}};
    s.stack = std::make_unique<Stack>(cable.end(i), options, random);
    s.pd = *s.stack->alloc_pd();
    s.cq = *s.stack->create_cq(4 * kDepth);
    using verbs::Access;
    s.region = *s.stack->register_memory(
        s.pd, s.memory.data(), s.memory.size(),
        Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead, kClear);
    verbs::QpOptions o;
    o.pd = s.pd;
    o.send_cq = o.recv_cq = s.cq;
    o.max_send_wr = o.max_recv_wr = kDepth;
    s.qpn = *s.stack->create_qp(o);
    assert_ok(s.stack->to_init(s.qpn, {.access = Access::kRemoteWrite | Access::kRemoteRead}));
  }
  void install_keys() {
    Spi spi[2];
    for (std::size_t i = 0; i < 2; ++i) {
      sides[i].association = *sides[i].stack->create_association({address(i), address(1 - i)});
      spi[i] = *sides[i].stack->allocate_spi();
    }
    for (std::size_t to = 0; to < 2; ++to) {
      Secret<kEspKeyMaterialMax> key;
      random.fill(key.resize(20));
      for (std::size_t i = 0; i < 2; ++i) {
        verbs::SaOptions sa;
        sa.direction = i == to ? verbs::SaDirection::kInbound : verbs::SaDirection::kOutbound;
        sa.spi = spi[to];
        sa.key = key.duplicate();
        assert_ok(sides[i].stack->install_sa(sides[i].association, std::move(sa)));
      }
    }
  }
  void connect(std::size_t i) {
    verbs::RtrAttributes rtr;
    rtr.local_address = address(i);
    rtr.remote_address = address(1 - i);
    rtr.remote_qpn = sides[1 - i].qpn;
    rtr.association = sides[i].association;
    assert_ok(sides[i].stack->to_rtr(sides[i].qpn, rtr));
    assert_ok(sides[i].stack->to_rts(sides[i].qpn, {}));
  }
  void post(verbs::WrOpcode opcode) {
    Side& a = sides[0];
    const Side& b = sides[1];
    verbs::SendWr wr;
    wr.opcode = opcode;
    wr.sge_count = 1;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(a.memory.data()), kMessage, a.region.lkey};
    wr.remote_address = reinterpret_cast<std::uintptr_t>(b.memory.data()) + kMessage;
    wr.rkey = b.region.rkey;
    assert_ok(a.stack->post_send(a.qpn, {&wr, 1}));
    if (opcode != verbs::WrOpcode::kSend) return;
    verbs::RecvWr recv;
    recv.sge_count = 1;
    recv.sges[0] = {reinterpret_cast<std::uintptr_t>(b.memory.data()), kMessage, b.region.lkey};
    assert_ok(b.stack->post_recv(b.qpn, {&recv, 1}));
  }
  /// Runs turns, counting what they allocate. @return completions at side 0.
  std::size_t run(int turns) {
    std::size_t completions = 0;
    for (int t = 0; t < turns; ++t) {
      now = now + Duration::us(10);
      g_counting = true;
      for (Side& s : sides) (void)s.stack->poll_once(now);
      g_counting = false;
      verbs::Completion c;
      while (sides[0].stack->poll_cq(sides[0].cq, {&c, 1}) == 1) {
        assert_int_equal(c.status, verbs::CompletionStatus::kSuccess);
        ++completions;
      }
      while (sides[1].stack->poll_cq(sides[1].cq, {&c, 1}) == 1) {
      }
    }
    return completions;
  }
};

void carries_without_allocating(bool with_esp) {
  Two two(with_esp);
  std::size_t posted = 0, completed = 0;
  g_allocations = 0;
  for (int round = 0; round < 20; ++round) {
    for (const auto opcode :
         {verbs::WrOpcode::kSend, verbs::WrOpcode::kRdmaWrite, verbs::WrOpcode::kRdmaRead}) {
      two.post(opcode);
      ++posted;
    }
    completed += two.run(60);
  }
  assert_int_equal(completed, posted);
  assert_int_equal(g_allocations, 0);
}

void clear_traffic_allocates_nothing(void**) {
  carries_without_allocating(false);
}
void protected_traffic_allocates_nothing(void**) {
  carries_without_allocating(true);
}

void the_counter_counts(void**) {
  g_allocations = 0;
  g_counting = true;
  std::vector<int> v(10);
  g_counting = false;
  assert_int_equal(g_allocations, 1);
  assert_int_equal(v.size(), 10);
}

}  // namespace
}  // namespace h4a::stack

int main() {
  using namespace h4a::stack;
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_counter_counts),
      cmocka_unit_test(clear_traffic_allocates_nothing),
      cmocka_unit_test(protected_traffic_allocates_nothing),
  };
  return cmocka_run_group_tests_name("allocation", tests, nullptr, nullptr);
}
