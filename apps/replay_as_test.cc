// Conversations of two of our own stacks, in the simulator, are played as either host: they are clean, and
// each change to a packet is told.
#include "apps/replay_as.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

#include "apps/replay.h"
#include "net/icrc.h"
#include "net/packet_view.h"
#include "net/pcap.h"
#include "sim/world.h"

#include "test/test_support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;
using verbs::WrOpcode;

constexpr std::size_t kBytes = 1 << 16;

/// Two hosts, memory at each, and everything that they put on the wire.
class Recording {
 public:
  explicit Recording(bool ipv6 = false, double loss = 0) : world_(options(ipv6, loss)) {
    world_.link().set_tap([this](std::size_t, Bytes frame, Instant) { record(frame); });
    sim::PairOptions pair;
    pair.access =
        verbs::Access::kRemoteRead | verbs::Access::kRemoteWrite | verbs::Access::kRemoteAtomic;
    pair.first_psn[0] = Psn(0xfffffe);
    pair.first_psn[1] = Psn(77);
    pair_ = sim::connect_rc(world_, pair);
    for (std::size_t i = 0; i < 2; ++i) {
      memory_[i].resize(kBytes);
      for (std::size_t k = 0; k < kBytes; ++k) memory_[i][k] = static_cast<std::uint8_t>(k * 7 + i);
      const auto all = verbs::Access::kLocalWrite | verbs::Access::kRemoteWrite |
                       verbs::Access::kRemoteRead | verbs::Access::kRemoteAtomic |
                       verbs::Access::kWindowBind;
      const auto region = world_.host(i).register_memory(pair_.of_host[i].pd, memory_[i].data(),
                                                         kBytes, all, kClear);
      assert_ok(region);
      region_[i] = *region;
    }
  }

  void receive(std::size_t host, std::uint32_t length) {
    verbs::RecvWr wr;
    wr.sge_count = 1;
    wr.sges[0] = {address(host), length, region_[host].lkey};
    assert_ok(world_.host(host).post_recv(pair_.of_host[host].qpn, {&wr, 1}));
  }
  /// Host 0 sends, writes or reads, and it completes.
  void request(WrOpcode opcode, std::uint32_t length, std::uint64_t remote_offset = 0) {
    post(opcode, length, remote_offset);
    settle();
  }
  void post(WrOpcode opcode, std::uint32_t length, std::uint64_t remote_offset = 0) {
    verbs::SendWr wr;
    wr.opcode = opcode;
    wr.imm = 0x11223344;
    wr.sge_count = length > 0 ? 1 : 0;
    wr.sges[0] = {address(0) + 1000, length, region_[0].lkey};
    wr.remote_address = address(1) + remote_offset;
    wr.compare_add = 0x0102030405060708;
    wr.swap = 77;
    wr.rkey = region_[1].rkey;
    assert_ok(world_.host(0).post_send(pair_.of_host[0].qpn, {&wr, 1}));
  }
  void settle() { world_.run_for(Duration::ms(100)); }

  [[nodiscard]] IpAddress host(std::size_t i) const { return world_.address(i); }
  std::vector<RecordedPacket> packets;
  std::vector<std::vector<std::uint8_t>> frames;  // as they were on the link

 private:
  static sim::WorldOptions options(bool ipv6, double loss) {
    sim::WorldOptions o;
    o.ipv6 = ipv6;
    o.link.loss = loss;
    return o;
  }
  [[nodiscard]] std::uint64_t address(std::size_t host) const {
    return reinterpret_cast<std::uintptr_t>(memory_[host].data());
  }
  void record(Bytes frame) {
    frames.emplace_back(frame.begin(), frame.end());
    const auto view = net::parse_packet(frame);
    if (!view || view->protocol != net::IpProtocol::kUdp) return;
    const Bytes payload = view->udp_payload();
    const Bytes packet = payload.first(payload.size() - net::kIcrcSize);
    packets.push_back(
        {frames.size(), view->source, view->destination, {packet.begin(), packet.end()}});
  }

  sim::World world_;
  sim::Pair pair_;
  std::vector<std::uint8_t> memory_[2];
  verbs::MemoryRegion region_[2];
};

/// All verbs, one after the other.
void play_everything(Recording& r) {
  for (int i = 0; i < 4; ++i) r.receive(1, 4096);
  r.request(WrOpcode::kSend, 100);
  r.request(WrOpcode::kSend, 0);
  r.request(WrOpcode::kSendWithImm, 3001);
  r.request(WrOpcode::kRdmaWrite, 2500, 4096);
  r.request(WrOpcode::kRdmaWriteWithImm, 5, 9000);
  r.request(WrOpcode::kRdmaRead, 3000, 3000);
  r.request(WrOpcode::kRdmaRead, 1, 9001);
  for (int i = 0; i < 2; ++i) {
    r.request(WrOpcode::kFetchAdd, 8, 10000 - 10000 % 8);
    r.request(WrOpcode::kCompareSwap, 8, 10000 - 10000 % 8);
  }
}

void assert_clean(const Recording& r, const char* what) {
  for (std::size_t i = 0; i < 2; ++i) {
    const PlayReport report = play_as(r.packets, r.host(i));
    assert_int_equal(report.conversations.size(), 1);
    if (!report.clean()) fail_msg("%s, host %zu: %s", what, i, to_text(report, "").c_str());
    const PlayResult& result = report.conversations.front();
    assert_true(result.recorded > 0 && result.equal > 0 && result.msn_offset == 0);
    assert_int_equal(result.incomparable + result.own_changes, 0);
  }
}

void our_own_conversations_are_clean(void**) {
  for (const bool ipv6 : {false, true}) {
    Recording r(ipv6);
    play_everything(r);
    assert_clean(r, ipv6 ? "v6" : "v4");
    const PlayReport report = play_as(r.packets, r.host(0));
    assert_int_equal(report.conversations.front().equal, report.conversations.front().recorded);
  }
}

void refusals_are_played_too(void**) {
  Recording r;
  r.request(WrOpcode::kRdmaWrite, 2000, 64);
  r.request(WrOpcode::kRdmaRead, 64, kBytes - 63);
  assert_clean(r, "beyond the end");
}

void a_receive_that_comes_late_is_posted_late(void**) {
  Recording r;
  r.post(WrOpcode::kSend, 2000);
  r.settle();
  r.receive(1, 2000);
  r.settle();
  assert_clean(r, "RNR");
}

void repeats_are_timing(void**) {
  Recording r(false, 0.1);
  for (int i = 0; i < 20; ++i) {
    r.receive(1, 4096);
    r.post(WrOpcode::kSend, 4000);
    r.post(WrOpcode::kRdmaWrite, 3000, 8192);
    r.request(WrOpcode::kRdmaRead, 3000, 16384);
  }
  // The tap is in front of the loss: what the other host did not get is in the recording all the same.
  // So only the requester can be played, whose answers show what was lost.
  const PlayReport report = play_as(r.packets, r.host(0));
  assert_true(report.conversations.front().recorded > 100);
}

/// Byte `at` of the first packet for which `which` holds is changed. @return its frame.
std::uint64_t spoil(Recording& r, const std::function<bool(const net::TransportPacket&)>& which,
                    std::size_t at) {
  const auto it = std::find_if(r.packets.begin(), r.packets.end(),
                               [&](const RecordedPacket& p) { return which(p.packet()); });
  assert_true(it != r.packets.end() && at < it->bytes.size());
  it->bytes[at] ^= 1;
  return it->frame;
}

// The host whose packet was changed is the one to be played: its engine sends the right one.
void each_change_is_told(void**) {
  using net::Opcode;
  const struct {
    int number;
    Opcode opcode;
    std::size_t at;
    std::size_t host;
    const char* field;
  } rows[] = {
      {1, Opcode::kRcAcknowledge, 15, 1, "msn"},
      {2, Opcode::kRcReadResponseFirst, 15, 1, "msn"},
      {3, Opcode::kRcReadRequest, 0, 0, "opcode"},
      {4, Opcode::kRcAcknowledge, 3, 1, "pkey"},
  };
  for (const auto& row : rows) {
    print_message("# %d\n", row.number);
    Recording r;
    play_everything(r);
    if (row.opcode == Opcode::kRcReadRequest) {
      // Another opcode with the same headers: a WRITE of nothing in place of a READ.
      const auto it = std::find_if(r.packets.begin(), r.packets.end(), [](const RecordedPacket& p) {
        return p.packet().opcode() == Opcode::kRcReadRequest;
      });
      it->bytes[0] = static_cast<std::uint8_t>(Opcode::kRcWriteOnly);
      assert_false(play_as(r.packets, r.host(1)).clean());
      continue;
    }
    // The second, so that the first still tells where the MSN begins.
    int seen = 0;
    const bool second = row.opcode == Opcode::kRcAcknowledge;
    const std::uint64_t frame = spoil(
        r,
        [&](const net::TransportPacket& p) {
          return p.opcode() == row.opcode && ++seen == (second ? 2 : 1);
        },
        row.at);
    const PlayReport report = play_as(r.packets, r.host(row.host));
    assert_false(report.clean());
    const PlayDifference& d = report.conversations.front().differences.front();
    assert_int_equal(d.frame, frame);
    assert_string_equal(std::string(d.fields.front().field).c_str(), row.field);
  }
}

void an_answer_too_many_or_too_few_is_told(void**) {
  Recording r;
  play_everything(r);
  const auto is_response = [](const RecordedPacket& p) {
    return p.packet().opcode() == net::Opcode::kRcReadResponseMiddle;
  };
  auto without = r.packets;
  without.erase(std::find_if(without.begin(), without.end(), is_response));
  const PlayReport few = play_as(without, r.host(1));
  assert_false(few.clean());
  assert_true(few.conversations.front().differences.front().only_ours);

  auto with = r.packets;
  auto extra = *std::find_if(with.begin(), with.end(), is_response);
  store_be<3>(&extra.bytes[9], 12345);
  with.push_back(extra);
  const PlayReport many = play_as(with, r.host(1));
  assert_false(many.clean());
  assert_true(many.conversations.front().differences.front().fields.empty());
}

void the_output_names_what_differs(void**) {
  Recording r;
  play_everything(r);
  int seen = 0;
  spoil(
      r,
      [&](const net::TransportPacket& p) {
        return p.opcode() == net::Opcode::kRcAcknowledge && ++seen == 2;
      },
      15);
  const PlayReport report = play_as(r.packets, r.host(1));
  const std::string text = to_text(report, "x.pcap");
  assert_true(text.starts_with("x.pcap: ") && text.find("msn: recorded 0x") != std::string::npos);
  assert_true(text.find("not compared: time;") != std::string::npos);
  const std::string json = to_json(report, "");
  assert_true(json.find("\"field\":\"msn\"") != std::string::npos);
  assert_true(json.find("\"clean\":false") != std::string::npos);
}

/// `h4a replay --as`, on a file with all frames but one. @return the exit code.
int replay_file(const Recording& r, const std::string& as, std::size_t without,
                std::string& printed) {
  const std::string path = fmt::format("/tmp/h4a-replay-as-{}.pcap", ::getpid());
  auto writer = net::PcapWriter::create(path);
  assert_ok(writer);
  for (std::size_t i = 0; i < r.frames.size(); ++i)
    if (i + 1 != without) (*writer)->record(r.frames[i], static_cast<std::int64_t>(i));
  assert_ok((*writer)->finish());
  ReplayOptions options;
  options.files = {path};
  options.as = as;
  std::FILE* out = std::tmpfile();
  const int code = run_replay(options, out, out);
  std::rewind(out);
  char text[4096];
  printed.assign(text, std::fread(text, 1, sizeof(text), out));
  std::fclose(out);
  ::unlink(path.c_str());
  return code;
}

void the_command_tells_by_its_exit_code(void**) {
  Recording r;
  play_everything(r);
  const auto middle = std::find_if(r.packets.begin(), r.packets.end(), [](const RecordedPacket& p) {
    return p.packet().opcode() == net::Opcode::kRcReadResponseMiddle;
  });
  std::string printed;
  const std::string host = to_string(r.host(1));
  assert_int_equal(replay_file(r, host, 0, printed), 0);
  assert_true(printed.find("packets equal") != std::string::npos);
  assert_int_equal(replay_file(r, host, middle->frame, printed), 1);
  assert_true(printed.find("ours alone: RC_RDMA_READ_RESPONSE_MIDDLE") != std::string::npos);
  assert_int_equal(replay_file(r, "10.9.9.9", 0, printed), 2);
  assert_int_equal(replay_file(r, "nobody", 0, printed), 2);
  assert_true(printed.find("not an IP address") != std::string::npos);
}

void flows_find_each_other(void**) {
  Recording r;
  play_everything(r);
  // A second conversation between the same hosts, with the same PSNs and other numbers.
  auto packets = r.packets;
  for (RecordedPacket p : r.packets) {
    p.frame += 1000;
    p.bytes[5] ^= 0x80;
    packets.push_back(p);
  }
  const Conversations found = conversations_of(packets, r.host(0));
  assert_int_equal(found.all.size(), 2);
  assert_true(found.left_out.empty());
  assert_int_equal(hosts_of(packets).size(), 2);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(our_own_conversations_are_clean),
      cmocka_unit_test(refusals_are_played_too),
      cmocka_unit_test(a_receive_that_comes_late_is_posted_late),
      cmocka_unit_test(repeats_are_timing),
      cmocka_unit_test(each_change_is_told),
      cmocka_unit_test(an_answer_too_many_or_too_few_is_told),
      cmocka_unit_test(the_output_names_what_differs),
      cmocka_unit_test(the_command_tells_by_its_exit_code),
      cmocka_unit_test(flows_find_each_other),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
