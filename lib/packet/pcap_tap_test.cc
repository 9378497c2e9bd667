// What the tap records: all that was received, and of what was sent only that which the port took.
#include "packet/pcap_tap.h"

#include <string>
#include <vector>

#include "packet/test_port.h"

#include "test/test_support.h"

namespace {

using namespace h4a::packet;
using h4a::Bytes;
using h4a::packet::test::TestPort;

class MemoryRecorder final : public h4a::FrameRecorder {
 public:
  void record(Bytes frame, std::int64_t time_ns) noexcept override {
    frames.emplace_back(frame.begin(), frame.end());
    times.push_back(time_ns);
  }
  void flush() noexcept override { ++flushes; }
  std::vector<std::string> frames;
  std::vector<std::int64_t> times;
  int flushes = 0;
};

struct Fixture {
  TestPort port{256};
  MemoryRecorder recorder;
  std::int64_t now = 1000;
  PcapTap tap{port, recorder, [this] { return now; }};

  Frame* frame(std::string_view text) {
    Frame* f = port.pool().allocate_one();
    std::copy(text.begin(), text.end(), f->append(text.size()));
    return f;
  }
};

Bytes bytes_of(std::string_view s) {
  return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

void received_frames_are_recorded(void**) {
  Fixture t;
  t.port.deliver(bytes_of("one"));
  t.port.deliver(bytes_of("two"));
  Frame* out[8];
  assert_int_equal(t.tap.receive(out), 2);
  assert_int_equal(t.recorder.frames.size(), 2);
  assert_string_equal(t.recorder.frames[1].c_str(), "two");
  assert_int_equal(t.recorder.times[0], 1000);
  t.port.pool().release(std::span(out).first(2));
  assert_int_equal(t.recorder.flushes, 0);
  assert_int_equal(t.tap.receive(out), 0);
  assert_int_equal(t.recorder.flushes, 1);
}

void only_taken_frames_are_recorded(void**) {
  Fixture t;
  Frame* frames[] = {t.frame("a"), t.frame("b"), t.frame("c")};
  t.port.takes = 2;
  assert_int_equal(t.tap.transmit(frames), 2);
  assert_int_equal(t.recorder.frames.size(), 2);
  assert_string_equal(t.recorder.frames[0].c_str(), "a");  // as it was before the port had it
  assert_int_equal(t.tap.transmit(std::span(frames).subspan(2)), 0);
  assert_int_equal(t.recorder.frames.size(), 2);
  t.port.takes = 1;
  t.now = 2000;
  assert_int_equal(t.tap.transmit(std::span(frames).subspan(2)), 1);
  assert_string_equal(t.recorder.frames[2].c_str(), "c");
  assert_int_equal(t.recorder.times[2], 2000);
  assert_int_equal(t.port.pool().available(), 256);
}

void long_bursts_are_taken_in_part(void**) {
  Fixture t;
  std::vector<Frame*> frames;
  for (std::size_t i = 0; i < h4a::kBurstMax + 10; ++i) frames.push_back(t.frame("x"));
  assert_int_equal(t.tap.transmit(frames), h4a::kBurstMax);
  assert_int_equal(t.tap.transmit(std::span(frames).subspan(h4a::kBurstMax)), 10);
  assert_int_equal(t.recorder.frames.size(), h4a::kBurstMax + 10);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(received_frames_are_recorded),
      cmocka_unit_test(only_taken_frames_are_recorded),
      cmocka_unit_test(long_bursts_are_taken_in_part),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
