// ring: ports in one process, and what every EthdevPort does: pools, oversize, partial bursts,
// reopening.
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "drivers_glue/dpdk/eal.h"
#include "drivers_glue/dpdk/port.h"
#include "drivers_glue/dpdk/test_ports.h"

#include "test/test_support.h"

using namespace h4a;
using namespace h4a::dpdk;
using namespace h4a::dpdk::test;

namespace {

struct Ends {
  std::unique_ptr<packet::Port> a;
  std::unique_ptr<packet::Port> b;
};

PortOptions small() {
  PortOptions o;
  o.frames = 512;
  o.ring_descriptors = 128;
  return o;
}

int set_up(void** state) {
  std::string error;
  EalOptions options;
  options.hugepages = ::getenv("H4A_TEST_HUGEPAGES") != nullptr;
  if (!start_eal(options, error)) {
    print_error("%s\n", error.c_str());
    return -1;
  }
  auto pair = open_ring_pair(small(), error);
  if (!pair) {
    print_error("%s\n", error.c_str());
    return -1;
  }
  *state = new Ends{std::move(pair->first), std::move(pair->second)};
  return 0;
}

int tear_down(void** state) {
  delete static_cast<Ends*>(*state);
  return 0;
}

void test_round_trip(void** state) {
  auto& e = *static_cast<Ends*>(*state);
  const std::size_t all = e.a->pool().available();
  for (const std::size_t size :
       {std::size_t{14}, std::size_t{60}, std::size_t{1514}, std::size_t{9014}}) {
    packet::Frame* sent = make_frame(*e.a, size, 7);
    const std::uint8_t* bytes = sent->data();
    assert_true(send_one(*e.a, sent));
    packet::Frame* got = receive_one(*e.b);
    assert_non_null(got);
    assert_true(matches(*got, size, 7));
    assert_ptr_equal(got->data(), bytes);  // the very buffer, not a copy
    assert_int_equal(got->headroom(), kFrameHeadroomBytes);
    e.b->pool().release_one(got);
  }
  assert_int_equal(e.a->pool().available(), all);
  assert_int_equal(e.a->counters().tx_frames, 4);
  assert_int_equal(e.b->counters().rx_bytes, 14 + 60 + 1514 + 9014);
  assert_false(e.a->mac() == e.b->mac());
  assert_false(e.a->mac().is_multicast());
}

// A frame whose data begins elsewhere than at the default headroom arrives whole.
void test_moved_data(void** state) {
  auto& e = *static_cast<Ends*>(*state);
  packet::Frame* f = make_frame(*e.a, 200, 1);
  packet::Frame* moved = e.a->pool().allocate_one();
  moved->reset(40);
  std::copy_n(f->data(), 200, moved->append(200));
  e.a->pool().release_one(f);
  assert_true(send_one(*e.a, moved));
  packet::Frame* got = receive_one(*e.b);
  assert_non_null(got);
  assert_true(matches(*got, 200, 1));
  assert_int_equal(got->headroom(), 40);
  // And it can be turned round with a header in front.
  got->prepend(0);
  assert_true(send_one(*e.b, got));
  got = receive_one(*e.a);
  assert_non_null(got);
  assert_true(matches(*got, 200, 1));
  e.a->pool().release_one(got);
}

// The MTU counts layer 3: one or two tags come on top; one byte more is a counted drop, never a
// cut.
void test_mtu(void** state) {
  auto& e = *static_cast<Ends*>(*state);
  struct Row {
    std::size_t size;
    unsigned tags;
    bool passes;
  };
  const std::array<Row, 7> rows{{{9014, 0, true},
                                 {9015, 0, false},
                                 {9018, 1, true},
                                 {9019, 1, false},
                                 {9022, 2, true},
                                 {9023, 2, false},
                                 {13, 0, false}}};
  const std::size_t all = e.a->pool().available();
  for (const Row& row : rows) {
    const std::uint64_t drops = e.a->counters().drops.total();
    packet::Frame* f = make_frame(*e.a, std::max<std::size_t>(row.size, 14), 3, row.tags);
    f->truncate(row.size);
    assert_int_equal(e.a->transmit({&f, 1}), 1);
    packet::Frame* got = receive_one(*e.b, 1);
    assert_int_equal(got != nullptr, row.passes);
    if (got != nullptr) {
      assert_true(matches(*got, row.size, 3, row.tags));
      e.b->pool().release_one(got);
    }
    assert_int_equal(e.a->counters().drops.total() - drops, row.passes ? 0 : 1);
  }
  assert_int_equal(e.a->counters().drops[Drop::kOversize], 3);
  assert_int_equal(e.a->counters().drops[Drop::kTruncated], 1);
  assert_int_equal(e.a->pool().available(), all);
}

// A full ring takes a part of the burst; the rest stays the caller's. Oversize frames in between
// go.
void test_partial_burst(void** state) {
  auto& e = *static_cast<Ends*>(*state);
  const std::size_t all = e.a->pool().available();
  std::vector<packet::Frame*> frames(200);
  for (std::size_t i = 0; i < frames.size(); ++i)
    frames[i] = make_frame(*e.a, i % 50 == 10 ? 9100 : 100, static_cast<std::uint8_t>(i));
  const std::size_t taken = e.a->transmit(frames);
  // 127 usable slots in a ring of 128; frames 10, 60 and 110 were taken and dropped on the way.
  assert_int_equal(taken, 127 + 3);
  assert_int_equal(e.a->counters().drops[Drop::kOversize], 3);
  assert_int_equal(e.a->counters().tx_frames, 127);
  assert_int_equal(e.a->counters().tx_bytes, 127 * 100);
  e.a->pool().release(std::span<packet::Frame* const>(frames).subspan(taken));

  std::array<packet::Frame*, 200> got{};
  std::size_t n = 0;
  std::size_t expected = 0;
  while (const std::size_t m = e.b->receive(got)) {
    assert_true(m <= kBurstMax);
    for (std::size_t i = 0; i < m; ++i, ++expected) {
      if (expected % 50 == 10) ++expected;
      assert_true(matches(*got[i], 100, static_cast<std::uint8_t>(expected)));
    }
    e.b->pool().release({got.data(), m});
    n += m;
  }
  assert_int_equal(n, 127);
  assert_int_equal(e.a->pool().available(), all);
}

void test_pool_runs_dry(void** state) {
  auto& e = *static_cast<Ends*>(*state);
  std::vector<packet::Frame*> frames(600);
  const std::size_t n = e.a->pool().allocate(frames);
  assert_true(n >= 500 && n <= 512);
  assert_null(e.a->pool().allocate_one());
  assert_int_equal(e.a->pool().available(), 512 - n);
  for (std::size_t i = 0; i < n; ++i) {
    assert_int_equal(frames[i]->size(), 0);
    assert_int_equal(frames[i]->headroom(), kFrameHeadroomBytes);
    assert_int_equal(frames[i]->tailroom(), kFrameBufferBytes);
  }
  e.a->pool().release({frames.data(), n});
  assert_int_equal(e.a->pool().available(), 512);
}

// Closing with frames still in the ring, and opening again, many times: nothing runs out.
void test_reopen(void**) {
  std::string error;
  for (int i = 0; i < 40; ++i) {
    auto a = open_port("ring:again,frames=512", {}, error);
    if (!a) fail_msg("%s", error.c_str());
    auto b = open_port("ring:again,mtu=1500", {}, error);
    if (!b) fail_msg("%s", error.c_str());
    assert_true(send_one(**a, make_frame(**a, 64, 1)));
    packet::Frame* f = make_frame(**b, 64, 2);
    assert_true(send_one(**b, f));
    f = receive_one(**a);
    assert_non_null(f);
    (*a)->pool().release_one(f);
    // One frame is left in flight to b on purpose.
  }
}

void test_names(void**) {
  std::string error;
  auto a = open_port("ring:x,frames=128,mac=02:00:00:00:00:01", {}, error);
  auto b = open_port("ring:y,frames=128,mtu=1500", {}, error);
  auto c = open_port("ring:x,frames=128", {}, error);
  assert_true(a && b && c);
  assert_true((*a)->mac() == MacAddress({2, 0, 0, 0, 0, 1}));
  assert_int_equal((*a)->mtu(), 9000);
  assert_int_equal((*b)->mtu(), 1500);
  assert_true(send_one(**c, make_frame(**c, 64, 5)));
  assert_null(receive_one(**b, 1));
  packet::Frame* f = receive_one(**a);
  assert_non_null(f);
  (*a)->pool().release_one(f);
}

void test_out_of_memory(void**) {
  std::string error;
  const auto port = open_port("ring:,frames=1000000", {}, error);
  assert_error(port, Error::kNoMemory);
  assert_true(error.find("frames=N") != std::string::npos);
}

// Any DPDK device by its own arguments, here two that need nothing.
void test_devargs(void**) {
  std::string error;
  for (int i = 0; i < 3; ++i) {
    auto null = open_port("net_null0,size=100", small(), error);
    if (!null) fail_msg("%s", error.c_str());
    assert_int_equal((*null)->mtu(), 1500);
    std::array<packet::Frame*, 8> frames{};
    assert_int_equal((*null)->receive(frames), 8);
    assert_int_equal(frames[7]->size(), 100);
    assert_int_equal((*null)->transmit(frames), 8);
    assert_int_equal((*null)->pool().available(), 512);
  }
  assert_error(open_port("net_nosuch0", {}, error), Error::kNotFound);
  assert_true(error.starts_with("net_nosuch0: "));
  // The EAL of this process started without PCI.
  assert_error(open_port("pci:0000:00:1f.7", {}, error), Error::kInvalidState);
  assert_true(error.find("open the pci: port first") != std::string::npos);
}

void test_nothing_left_behind(void**) {
  const std::string mine = "h4a" + std::to_string(::getpid());
  std::error_code ignored;  // as an ordinary user: what is not ours to see
  assert_false(std::filesystem::exists("/var/run/dpdk/" + mine, ignored));
  for (const auto& entry : std::filesystem::directory_iterator("/tmp"))
    assert_false(std::filesystem::exists(entry.path() / "dpdk" / mine, ignored));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_moved_data, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_mtu, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_partial_burst, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_pool_runs_dry, set_up, tear_down),
      cmocka_unit_test(test_reopen),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_devargs),
      cmocka_unit_test(test_nothing_left_behind),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
