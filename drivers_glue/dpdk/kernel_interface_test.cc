// af_packet, af_xdp and tap, in a network namespace of this process: a veth pair and its two ends.
// Needs root, or user namespaces; without either the tests are skipped.
#include <array>
#include <poll.h>
#include <sched.h>
#include <string>
#include <unistd.h>

#include "drivers_glue/dpdk/eal.h"
#include "drivers_glue/dpdk/interface.h"
#include "drivers_glue/dpdk/port.h"
#include "drivers_glue/dpdk/test_ports.h"

#include "test/test_support.h"

using namespace h4a;
using namespace h4a::dpdk;
using namespace h4a::dpdk::test;

namespace {

bool have_namespace = false;

#define needs_namespace()                                                    \
  do {                                                                       \
    if (!have_namespace) {                                                   \
      print_message("skipped: no permission to make a network namespace\n"); \
      skip();                                                                \
    }                                                                        \
  } while (0)

int set_up_all(void**) {
  // The namespace goes with the process, and the interfaces with it.
  have_namespace = ::unshare(CLONE_NEWNET) == 0 &&
                   run("ip link add h4a0 type veth peer name h4a1") &&
                   run("ip link set h4a0 mtu 9000 up") && run("ip link set h4a1 mtu 9000 up");
  std::string error;
  EalOptions options;
  options.hugepages = false;
  const auto r = start_eal(options, error);
  if (!r) print_error("%s\n", error.c_str());
  return r ? 0 : -1;
}

std::unique_ptr<packet::Port> open_or_null(const std::string& spec) {
  std::string error;
  PortOptions options;
  options.frames = 2048;
  auto port = open_port(spec, options, error);
  if (!port) print_error("%s\n", error.c_str());
  return port ? *std::move(port) : nullptr;
}

/// One frame from a to b. @return true if it arrived as it was sent.
bool passes(packet::Port& a, packet::Port& b, std::size_t size, unsigned tags = 0) {
  if (!send_one(a, make_frame(a, size, 11, tags))) return false;
  packet::Frame* f = receive_one(b, 500);
  if (f == nullptr) return false;
  const bool same = matches(*f, size, 11, tags);
  b.pool().release_one(f);
  return same;
}

void test_af_packet_frames(void**) {
  needs_namespace();
  auto a = open_or_null("af_packet:h4a0");
  auto b = open_or_null("af_packet:h4a1");
  assert_true(a && b);
  assert_int_equal(a->mtu(), 9000);
  assert_true(a->mac() == query_interface("h4a0")->mac);
  const std::size_t all = a->pool().available();
  for (const std::size_t size :
       {std::size_t{60}, std::size_t{1514}, std::size_t{4200}, std::size_t{9014}}) {
    assert_true(passes(*a, *b, size));
    assert_true(passes(*b, *a, size));
  }
  assert_true(passes(*a, *b, 1518, 1));
  assert_true(passes(*a, *b, 9018, 1));
  for (int i = 0; i < 1200; ++i)
    assert_true(passes(*a, *b, 4200));  // round both rings of 512 slots
  assert_false(passes(*a, *b, 9015));
  assert_int_equal(a->counters().drops[Drop::kOversize], 1);
  assert_true(eventually([&] { return a->pool().available() == all; }));
}

// What does not fit is dropped by name on either side, never cut (the MTU is layer 3's).
void test_af_packet_small_mtu(void**) {
  needs_namespace();
  auto a = open_or_null("af_packet:h4a0");
  auto b = open_or_null("af_packet:h4a1,mtu=1500");
  assert_true(a && b);
  assert_int_equal(b->mtu(), 1500);
  assert_true(passes(*a, *b, 1514));
  assert_true(passes(*a, *b, 1518, 1));
  assert_false(passes(*b, *a, 1515));
  assert_false(passes(*b, *a, 1519, 1));
  assert_int_equal(b->counters().drops[Drop::kOversize], 2);
  assert_false(passes(*a, *b, 1515));  // sent, and dropped by the receiver
  assert_int_equal(a->counters().drops.total(), 0);
  assert_int_equal(b->counters().drops[Drop::kOversize], 3);
}

void test_af_packet_wait_fd(void**) {
  needs_namespace();
  auto a = open_or_null("af_packet:h4a0");
  auto b = open_or_null("af_packet:h4a1");
  assert_true(a && b);
  assert_true(a->wait_fd() >= 0 && b->wait_fd() >= 0);
  assert_int_not_equal(a->wait_fd(), b->wait_fd());
  std::array<packet::Frame*, 64> frames{};
  while (const std::size_t n = b->receive(frames)) b->pool().release({frames.data(), n});
  pollfd p{b->wait_fd(), POLLIN, 0};
  assert_int_equal(::poll(&p, 1, 0), 0);
  assert_true(send_one(*a, make_frame(*a, 100, 1)));
  assert_int_equal(::poll(&p, 1, 1000), 1);
  packet::Frame* f = receive_one(*b);
  assert_non_null(f);
  b->pool().release_one(f);
}

void test_af_packet_errors(void**) {
  needs_namespace();
  std::string error;
  assert_error(open_port("af_packet:nosuch", {}, error), Error::kNotFound);
  assert_true(error.find("no such interface") != std::string::npos);
  assert_true(run("ip link set h4a1 down"));
  assert_error(open_port("af_packet:h4a1", {}, error), Error::kInvalidState);
  assert_true(error.find("ip link set h4a1 up") != std::string::npos);
  assert_true(run("ip link set h4a1 up"));
  assert_true(run("ip link set h4a1 mtu 1500"));
  assert_error(open_port("af_packet:h4a1,mtu=9000", {}, error), Error::kInvalidArgument);
  assert_true(run("ip link set h4a1 mtu 9000"));
}

// As an ordinary user: what is missing is said, and which capability would help.
void test_no_permission(void**) {
  needs_namespace();
  const pid_t child = spawn([] {
    if (::setresuid(65534, 65534, 65534) != 0) return 1;
    std::string error;
    const auto packet = open_port("af_packet:h4a0", {}, error);
    if (packet || packet.error() != Error::kAccess) return 2;
    if (error.find("cap_net_raw") == std::string::npos) return 3;
    const auto tap = open_port("tap:h4at", {}, error);
    if (tap || tap.error() != Error::kAccess) return 4;
    return error.find("cap_net_admin") == std::string::npos ? 5 : 0;
  });
  assert_int_equal(wait_for(child), 0);
}

void test_reopen(void**) {
  needs_namespace();
  for (int i = 0; i < 15; ++i) {
    auto a = open_or_null("af_packet:h4a0,frames=1024");
    auto b = open_or_null("af_packet:h4a1,frames=1024");
    assert_true(a && b);
    assert_true(passes(*a, *b, 9014));
  }
}

// The kernel answers an ARP request that leaves the port, and its ping requests reach it.
void test_tap(void**) {
  needs_namespace();
  for (int i = 0; i < 3; ++i) {
    auto t = open_or_null("tap:h4atap");
    assert_true(t != nullptr);
    assert_true(run("ip addr add 10.9.9.1/24 dev h4atap"));
    const auto kernel = query_interface("h4atap");
    assert_ok(kernel);
    assert_true(kernel->up);
    assert_int_equal(kernel->mtu, 1500);
    assert_false(t->mac() == kernel->mac);

    assert_true(t->wait_fd() >= 0);
    packet::Frame* f = t->pool().allocate_one();
    std::uint8_t* p = f->append(60);
    std::fill_n(p, 60, std::uint8_t{0});
    MacAddress::broadcast().store(p);
    t->mac().store(p + 6);
    store_be<8>(p + 12, 0x0806'0001'0800'0604);
    store_be<2>(p + 20, 1);
    t->mac().store(p + 22);
    store_be<4>(p + 28, 0x0a09'0902);
    store_be<4>(p + 38, 0x0a09'0901);
    assert_true(send_one(*t, f));
    bool answered = false;
    assert_true(eventually([&] {
      packet::Frame* r = nullptr;
      if (t->receive({&r, 1}) == 0) return false;
      answered = r->size() >= 42 && load_be32(r->data() + 12) == 0x0806'0001 &&
                 load_be16(r->data() + 20) == 2 && MacAddress::load(r->data()) == t->mac();
      t->pool().release_one(r);
      return answered;
    }));
    f = make_frame(*t, 1515, 1);
    assert_int_equal(t->transmit({&f, 1}), 1);
    assert_int_equal(t->counters().drops[Drop::kOversize], 1);
    std::string error;
    assert_error(open_port("tap:h4atap", {}, error), Error::kExists);
    t.reset();
    assert_false(query_interface("h4atap").has_value());
  }
  std::string error;
  assert_error(open_port("tap:h4atap,mtu=9000", {}, error), Error::kInvalidArgument);
}

void test_af_xdp(void**) {
  needs_namespace();
  assert_true(run("ip link add x0 type veth peer name x1"));
  assert_true(run("ip link set x0 mtu 3000 up") && run("ip link set x1 mtu 3000 up"));
  std::string error;
  auto a = open_port("af_xdp:x0", {}, error);
  if (!a) {
    // Not every kernel has AF_XDP; the error then says what else to use.
    print_message("skipped: %s\n", error.c_str());
    assert_true(error.find("af_packet:x0") != std::string::npos);
    skip();
  }
  auto b = open_or_null("af_packet:x1");
  assert_true(b != nullptr);
  assert_true((*a)->wait_fd() >= 0);
  for (const std::size_t size : {std::size_t{60}, std::size_t{1514}, std::size_t{3014}}) {
    assert_true(passes(**a, *b, size));
    assert_true(passes(*b, **a, size));
  }
}

}  // namespace

/// net_af_xdp frees its umem only in part. Ignored unless built with AddressSanitizer.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:xsk_umem__create";
}

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_af_packet_frames),
      cmocka_unit_test(test_af_packet_small_mtu),
      cmocka_unit_test(test_af_packet_wait_fd),
      cmocka_unit_test(test_af_packet_errors),
      cmocka_unit_test(test_no_permission),
      cmocka_unit_test(test_reopen),
      cmocka_unit_test(test_tap),
      cmocka_unit_test(test_af_xdp),
  };
  return cmocka_run_group_tests(tests, set_up_all, nullptr);
}
