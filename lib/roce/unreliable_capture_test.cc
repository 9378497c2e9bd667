// What Soft-RoCE sent over UC and UD, as captured, is received as Soft-RoCE received it. Only the numbers
// that a receiver chooses are written anew: the QPN, and of WRITEs the key and the address.
#include <algorithm>
#include <string>
#include <vector>

#include "net/bth.h"
#include "net/capture_reader.h"
#include "net/icrc.h"
#include "net/packet_view.h"
#include "packet/frame_pool.h"
#include "roce/engine.h"
#include "verbs/datagram.h"

#include "test/test_support.h"

namespace h4a::roce {
namespace {

using verbs::Access;
using verbs::Completion;
using verbs::kGrhBytes;
using verbs::QpType;

/// A QP in RTR for what 10.77.0.1 or fd77::1 sends, and 64 KiB of memory.
struct Receiver {
  Receiver(QpType type, IpAddress peer)
      : engine({.pd_max = 1, .mr_max = 1, .mw_max = 1, .cq_max = 1, .qp_max = 1}, random),
        memory(65536) {
    pd = engine.alloc_pd().value();
    cq = engine.create_cq(16).value();
    region = engine
                 .register_memory(pd, memory.data(), memory.size(),
                                  Access::kLocalWrite | Access::kRemoteWrite, kClear)
                 .value();
    qpn = engine.create_qp({.type = type, .pd = pd, .send_cq = cq, .recv_cq = cq}).value();
    assert_ok(engine.to_init(qpn, {.access = Access::kRemoteWrite, .qkey = 0x1111'1111}));
    assert_ok(engine.to_rtr(qpn, {.remote_address = peer, .rq_psn = Psn(0x2000), .path_mtu = 1024},
                            PathId()));
    for (std::uint64_t i = 0; i < 4; ++i) {
      verbs::RecvWr wr;
      wr.wr_id = i;
      wr.sge_count = 1;
      wr.sges[0] = {address(i * 4096), 4096, region.lkey};
      assert_ok(engine.post_recv(qpn, {&wr, 1}));
    }
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }

  /// Hands on one captured frame. @return why it was dropped.
  Drop feed(Bytes captured) {
    const auto view = net::inspect_packet(captured);
    assert_true(view.has_value());
    const std::size_t bth_at = view->transport_offset - std::size_t{view->l3_offset} + 8;
    const Bytes ip = view->ip_packet();
    packet::Frame* f = pool.allocate_one();
    std::copy(ip.begin(), ip.end() - net::kIcrcSize, f->append(ip.size() - net::kIcrcSize));
    f->trim_front(bth_at);
    f->network_size = static_cast<std::uint8_t>(bth_at);
    f->source = view->source;
    f->destination = view->destination;
    readdress(f->data());
    engine.receive({&f, 1}, Instant::from_ns(1));
    const Drop drop = f->drop;
    pool.release_one(f);
    return drop;
  }
  void readdress(std::uint8_t* bth) {
    store_be<3>(bth + 5, qpn.value());
    const net::OpcodeInfo* row = net::find_opcode(bth[0]);
    if (row == nullptr || !row->has(net::Header::kReth)) return;
    std::uint8_t* p = bth + row->offset(net::Header::kReth);
    net::Reth reth = net::Reth::load(p);
    if (first_write == 0) first_write = reth.virtual_address;
    reth.virtual_address = address(32768) + (reth.virtual_address - first_write);
    reth.rkey = region.rkey;
    reth.build(p);
  }
  Completion expect() {
    Completion c;
    assert_int_equal(engine.poll_cq(cq, {&c, 1}), 1);
    assert_true(c.status == verbs::CompletionStatus::kSuccess);
    return c;
  }

  SeededRandom random{1};
  Engine engine;
  packet::HeapFramePool pool{4};
  std::vector<std::uint8_t> memory;
  std::uint64_t first_write = 0;
  verbs::PdId pd;
  verbs::CqId cq;
  verbs::MemoryRegion region;
  Qpn qpn;
};

/// The frames of one of the peer's captures; the case is skipped without them.
std::vector<std::vector<std::uint8_t>> frames_of(const char* name) {
  if (test::shared_dir() == nullptr) skip();
  const auto file = net::read_file(std::string(test::shared_dir()) + "/peer/pcaps/" + name);
  assert_ok(file);
  net::CaptureReader reader(*file);
  std::vector<std::vector<std::uint8_t>> frames;
  net::CaptureRecord r;
  while (reader.next(r)) frames.emplace_back(r.bytes.begin(), r.bytes.end());
  assert_false(reader.fault().has_value());
  return frames;
}

void datagrams(const char* name, IpAddress peer, IpAddress own) {
  const auto frames = frames_of(name);
  assert_int_equal(frames.size(), 4);
  Receiver r(QpType::kUd, peer);
  assert_eq(r.feed(frames[0]), Drop::kNone);
  assert_eq(r.feed(frames[1]), Drop::kNone);
  assert_eq(r.feed(frames[2]), Drop::kBadQkey);
  assert_eq(r.feed(frames[3]), Drop::kNone);
  const std::uint32_t lengths[] = {64, 1000, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    const Completion c = r.expect();
    assert_int_equal(c.byte_len, kGrhBytes + lengths[i]);
    assert_true(c.has_imm == (i == 1));
    if (c.has_imm) assert_int_equal(c.imm, 0xcafe0001);
    const auto reply = verbs::reply_address(c, Bytes(r.memory).subspan(i * 4096));
    assert_ok(reply);
    assert_eq(reply->remote_address, peer);
    assert_eq(reply->local_address, own);
  }
}

void ud_over_ipv4(void**) {
  datagrams("ud-send-v4.pcap", IpAddress::v4(10, 77, 0, 1), IpAddress::v4(10, 77, 0, 2));
}
void ud_over_ipv6(void**) {
  datagrams("ud-send-v6.pcap", *IpAddress::parse("fd77::1"), *IpAddress::parse("fd77::2"));
}

/// Two SENDs, a WRITE and a WRITE with immediate. @param lost the frame that does not arrive.
void connected(std::size_t lost, std::initializer_list<std::uint32_t> lengths, Drop rest) {
  const auto frames = frames_of("uc-v4.pcap");
  assert_int_equal(frames.size(), 10);
  Receiver r(QpType::kUc, IpAddress::v4(10, 77, 0, 1));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i == lost) continue;
    const Drop drop = r.feed(frames[i]);
    if (drop != Drop::kNone && drop != rest) fail_msg("frame %zu is dropped", i);
  }
  std::uint64_t slot = 0;
  for (const std::uint32_t length : lengths) {
    const Completion c = r.expect();
    assert_int_equal(c.wr_id, slot++);
    assert_int_equal(c.byte_len, length);
  }
  Completion c;
  assert_int_equal(r.engine.poll_cq(r.cq, {&c, 1}), 0);
}

void uc_over_ipv4(void**) {
  connected(99, {64, 3000, 3000}, Drop::kNone);
}
void uc_loses_the_message_that_lost_a_packet(void**) {
  connected(2, {64, 3000}, Drop::kMessageBroken);
}

}  // namespace
}  // namespace h4a::roce

int main() {
  using namespace h4a::roce;
  const CMUnitTest tests[] = {
      cmocka_unit_test(ud_over_ipv4),
      cmocka_unit_test(ud_over_ipv6),
      cmocka_unit_test(uc_over_ipv4),
      cmocka_unit_test(uc_loses_the_message_that_lost_a_packet),
  };
  return cmocka_run_group_tests_name("unreliable_capture", tests, nullptr, nullptr);
}
