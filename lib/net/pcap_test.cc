// pcap: both byte orders and time units, files that are cut or lie, and the writer.
#include "net/pcap.h"

#include <vector>

#include "net/capture_reader.h"
#include "net/capture_test_support.h"

#include "test/test_support.h"

namespace {

using namespace h4a::net;
using h4a::Error;
using h4a::net::test::FileBuilder;
using h4a::net::test::text_of;

FileBuilder header(bool big_endian, std::uint32_t magic, std::uint32_t link_type) {
  FileBuilder f(big_endian);
  f.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(link_type);
  return f;
}

void add_record(FileBuilder& f, std::uint32_t s, std::uint32_t fraction, std::string_view data,
                std::uint32_t original) {
  f.u32(s).u32(fraction).u32(data.size()).u32(original).text(data);
}

void both_byte_orders_and_units(void**) {
  const struct {
    int number;
    bool big_endian;
    std::uint32_t magic;
    std::int64_t time_ns;
  } rows[] = {
      {1, false, 0xa1b2'c3d4, 7'000'005'000},
      {2, true, 0xa1b2'c3d4, 7'000'005'000},
      {3, false, 0xa1b2'3c4d, 7'000'000'005},
      {4, true, 0xa1b2'3c4d, 7'000'000'005},
  };
  for (const auto& row : rows) {
    FileBuilder f = header(row.big_endian, row.magic, 0x3000'0001);  // FCS bits above the type
    add_record(f, 7, 5, "first", 5);
    add_record(f, 8, 0, "cut", 1500);
    CaptureReader reader(f.bytes());
    CaptureRecord r;
    assert_true(reader.next(r));
    assert_true(r.link_type == LinkType::kEthernet);
    if (r.time_ns != row.time_ns) fail_msg("row %d: time %lld", row.number, (long long)r.time_ns);
    assert_string_equal(text_of(r.bytes).c_str(), "first");
    assert_true(reader.next(r));
    assert_int_equal(r.original_size, 1500);
    assert_string_equal(text_of(r.bytes).c_str(), "cut");
    assert_false(reader.next(r));
    assert_false(reader.fault().has_value());
  }
}

// Cut at any byte: the whole records before the cut are read, then a fault names the next one.
void cut_anywhere(void**) {
  FileBuilder f = header(false, 0xa1b2'c3d4, 1);
  add_record(f, 1, 0, "0123456789", 10);
  add_record(f, 2, 0, "abc", 3);
  const std::size_t ends[] = {24, 24 + 26, 24 + 26 + 19};
  for (std::size_t n = 0; n <= f.bytes().size(); ++n) {
    CaptureReader reader(h4a::Bytes(f.bytes()).first(n));
    CaptureRecord r;
    std::uint64_t whole = 0;
    while (reader.next(r)) ++whole;
    assert_int_equal(whole, (n >= ends[1] ? 1U : 0U) + (n >= ends[2] ? 1U : 0U));
    const bool at_an_end = n == ends[0] || n == ends[1] || n == ends[2];
    assert_int_equal(reader.fault().has_value(), !at_an_end);
    if (at_an_end) continue;
    assert_true(reader.fault()->error == Error::kTruncated);
    assert_int_equal(reader.fault()->frame, n < 24 ? 0 : whole + 1);
    assert_false(reader.next(r));  // and stays ended
  }
}

void files_that_lie(void**) {
  FileBuilder foreign(false);
  foreign.text("GIF89a, and enough bytes to be a header");
  assert_true(CaptureReader(foreign.bytes()).fault()->error == Error::kMalformed);
  FileBuilder version(false);
  version.u32(0xa1b2'c3d4).u16(3).u16(0).u32(0).u32(0).u32(0).u32(1);
  assert_true(CaptureReader(version.bytes()).fault()->error == Error::kBadVersion);
  FileBuilder huge = header(true, 0xa1b2'c3d4, 1);
  huge.u32(0).u32(0).u32(0xffff'ffff).u32(0xffff'ffff).text("x");
  CaptureReader reader(huge.bytes());
  CaptureRecord r;
  assert_false(reader.next(r));
  assert_true(reader.fault()->error == Error::kMalformed);
  assert_string_equal(to_string(*reader.fault()).c_str(),
                      "frame 1: record longer than any frame (at byte 24)");
}

void what_is_written_is_read(void**) {
  const h4a::net::test::TemporaryPath path("pcap_test.pcap");
  {
    auto writer = PcapWriter::create(path.string());
    assert_ok(writer);
    (*writer)->record(h4a::net::test::bytes_of("hello"), 1'700'000'000'123'456'789);
    (*writer)->record({}, -5);  // before 1970: written as 0
    assert_ok((*writer)->finish());
  }
  const auto file = read_file(path.string());
  assert_ok(file);
  CaptureReader reader(*file);
  CaptureRecord r;
  assert_true(reader.next(r));
  assert_string_equal(text_of(r.bytes).c_str(), "hello");
  assert_int_equal(r.time_ns, 1'700'000'000'123'456'789);
  assert_int_equal(r.original_size, 5);
  assert_true(reader.next(r));
  assert_int_equal(r.bytes.size(), 0);
  assert_int_equal(r.time_ns, 0);
  assert_false(reader.next(r));
  assert_false(reader.fault().has_value());
}

void files_that_cannot_be(void**) {
  assert_error(PcapWriter::create("/nonexistent-folder/x.pcap"), Error::kNotFound);
  assert_error(read_file("/nonexistent-folder/x.pcap"), Error::kNotFound);
  assert_error(read_file("/"), Error::kIo);
  assert_error(read_file("/dev/zero", 1'000'000), Error::kNoMemory);
}

void full_disk_is_remembered(void**) {
  auto writer = PcapWriter::create("/dev/full");
  assert_error(writer, Error::kIo);  // even the header did not fit
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(both_byte_orders_and_units),
      cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(files_that_lie),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(files_that_cannot_be),
      cmocka_unit_test(full_disk_is_remembered),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
