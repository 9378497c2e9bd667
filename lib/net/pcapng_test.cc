// pcapng: sections of both byte orders, interfaces, block types, files that are cut or lie, and the
// writer.
#include "net/pcapng.h"

#include "net/capture_reader.h"
#include "net/capture_test_support.h"

#include "test/test_support.h"

namespace {

using namespace h4a::net;
using h4a::Error;
using h4a::net::test::FileBuilder;
using h4a::net::test::text_of;

constexpr std::uint32_t kSection = 0x0a0d'0d0a;

void add_section(FileBuilder& f, bool big_endian, std::uint16_t major = 1) {
  FileBuilder body(big_endian);
  body.u32(0x1a2b'3c4d).u16(major).u16(0).u64(~std::uint64_t{0});
  f.block(kSection, body);
}

/// `resolution` < 0: no option, so microseconds.
void add_interface(FileBuilder& f, bool big_endian, std::uint16_t link_type, int resolution,
                   std::uint32_t snap = 0, std::uint64_t offset_s = 0) {
  FileBuilder body(big_endian);
  body.u16(link_type).u16(0).u32(snap);
  body.u16(2).u16(3).text("eth").text(std::string(1, '\0'));  // if_name, padded
  if (resolution >= 0)
    body.u16(9).u16(1).text(std::string(1, static_cast<char>(resolution))).text(std::string(3, 0));
  if (offset_s != 0) body.u16(14).u16(8).u64(offset_s);
  body.u16(0).u16(0);
  f.block(1, body);
}

void add_packet(FileBuilder& f, bool big_endian, std::uint32_t interface, std::uint64_t ticks,
                std::string_view data, std::uint32_t captured, std::uint32_t original) {
  FileBuilder body(big_endian);
  body.u32(interface).u32(ticks >> 32).u32(ticks & 0xffff'ffff).u32(captured).u32(original);
  body.text(data);
  f.block(6, body);
}

void sections_interfaces_and_blocks(void**) {
  for (bool big_endian : {false, true}) {
    FileBuilder f(big_endian);
    add_section(f, big_endian);
    add_interface(f, big_endian, 1, -1);
    add_interface(f, big_endian, 101, 9);
    add_interface(f, big_endian, 1, 0x80 | 10, 0, 100);  // 1/1024 s, 100 s later
    f.block(0xbad, FileBuilder(big_endian).text("unknown blocks are skipped"));
    add_packet(f, big_endian, 0, 7'000'005, "micro", 5, 5);
    add_packet(f, big_endian, 1, 7'000'000'005, "nanos", 5, 50);
    add_packet(f, big_endian, 2, 512, "bin", 3, 3);
    f.block(2, FileBuilder(big_endian).u16(1).u16(0).u32(0).u32(9).u32(3).u32(3).text("old"));
    f.block(3, FileBuilder(big_endian).u32(6).text("simple"));
    CaptureReader reader(f.bytes());
    CaptureRecord r;
    const struct {
      const char* text;
      LinkType link_type;
      std::int64_t time_ns;
      std::uint32_t original;
    } want[] = {
        {"micro", LinkType::kEthernet, 7'000'005'000, 5},
        {"nanos", LinkType::kRawIp, 7'000'000'005, 50},
        {"bin", LinkType::kEthernet, 100'500'000'000, 3},
        {"old", LinkType::kRawIp, 9, 3},
        {"simple", LinkType::kEthernet, 0, 6},
    };
    for (const auto& w : want) {
      if (!reader.next(r)) fail_msg("%s: %s", w.text, to_string(*reader.fault()).c_str());
      assert_string_equal(text_of(r.bytes).c_str(), w.text);
      assert_true(r.link_type == w.link_type);
      assert_int_equal(r.time_ns, w.time_ns);
      assert_int_equal(r.original_size, w.original);
    }
    assert_false(reader.next(r));
    assert_false(reader.fault().has_value());
  }
}

// The second section has another byte order, and its interfaces start anew.
void byte_order_changes_with_the_section(void**) {
  FileBuilder little(false);
  add_section(little, false);
  add_interface(little, false, 1, 9);
  add_packet(little, false, 0, 1, "a", 1, 1);
  FileBuilder big(true);
  add_section(big, true);
  add_interface(big, true, 113, 9);
  add_packet(big, true, 0, 2, "b", 1, 1);
  add_packet(big, true, 1, 2, "c", 1, 1);
  auto file = little.bytes();
  file.insert(file.end(), big.bytes().begin(), big.bytes().end());
  CaptureReader reader(file);
  CaptureRecord r;
  assert_true(reader.next(r));
  assert_true(reader.next(r));
  assert_true(r.link_type == LinkType::kLinuxSll);
  assert_int_equal(r.time_ns, 2);
  assert_false(reader.next(r));
  assert_int_equal(reader.fault()->frame, 3);
  assert_true(reader.fault()->what.find("unknown interface") != std::string_view::npos);
}

void snap_length_cuts_simple_packets(void**) {
  FileBuilder f(false);
  add_section(f, false);
  add_interface(f, false, 1, -1, 4);
  f.block(3, FileBuilder(false).u32(1500).text("four"));
  CaptureReader reader(f.bytes());
  CaptureRecord r;
  assert_true(reader.next(r));
  assert_string_equal(text_of(r.bytes).c_str(), "four");
  assert_int_equal(r.original_size, 1500);
}

void cut_anywhere(void**) {
  FileBuilder f(false);
  add_section(f, false);
  const std::size_t section_end = f.bytes().size();
  add_interface(f, false, 1, 6);
  const std::size_t interface_end = f.bytes().size();
  add_packet(f, false, 0, 1, "0123456789", 10, 10);
  const std::size_t packet_end = f.bytes().size();
  for (std::size_t n = 0; n <= packet_end; ++n) {
    CaptureReader reader(h4a::Bytes(f.bytes()).first(n));
    CaptureRecord r;
    const bool got = reader.next(r);
    assert_int_equal(got, n == packet_end);
    const bool at_an_end = n == section_end || n == interface_end || n == packet_end;
    assert_int_equal(reader.fault().has_value(), !at_an_end);
  }
}

void files_that_lie(void**) {
  const auto fault_of = [](const FileBuilder& f) {
    CaptureReader reader(f.bytes());
    CaptureRecord r;
    while (reader.next(r)) {
    }
    return reader.fault().has_value() ? std::string(reader.fault()->what) : std::string("none");
  };
  FileBuilder version(false);
  add_section(version, false, 2);
  assert_string_equal(fault_of(version).c_str(), "a pcapng version other than 1");

  FileBuilder no_magic(false);
  no_magic.block(kSection, FileBuilder(false).u32(0x1234'5678).u32(1).u64(0));
  assert_string_equal(fault_of(no_magic).c_str(), "section header without byte-order magic");

  FileBuilder longer(false);
  add_section(longer, false);
  add_interface(longer, false, 1, 6);
  add_packet(longer, false, 0, 1, "abcd", 400, 400);
  assert_string_equal(fault_of(longer).c_str(), "frame longer than its block");

  FileBuilder odd(false);
  add_section(odd, false);
  odd.u32(5).u32(13).u32(0).u32(13);
  assert_string_equal(fault_of(odd).c_str(), "impossible block length");

  FileBuilder zero(false);
  add_section(zero, false);
  zero.u32(5).u32(0).u32(0).u32(0);
  assert_string_equal(fault_of(zero).c_str(), "impossible block length");

  FileBuilder differ(false);
  add_section(differ, false);
  differ.u32(5).u32(16).u32(0).u32(20);
  assert_string_equal(fault_of(differ).c_str(), "the two block lengths differ");

  FileBuilder option(false);
  add_section(option, false);
  option.block(1, FileBuilder(false).u16(1).u16(0).u32(0).u16(9).u16(500).u32(0));
  assert_string_equal(fault_of(option).c_str(), "interface option too long");
}

// Times that overflow, resolutions that make no sense: a value, never a trap.
void absurd_times(void**) {
  for (int resolution = 0; resolution < 256; ++resolution) {
    FileBuilder f(false);
    add_section(f, false);
    add_interface(f, false, 1, resolution, 0, 0x7fff'ffff'ffff'ffff);
    add_packet(f, false, 0, ~std::uint64_t{0}, "x", 1, 1);
    CaptureReader reader(f.bytes());
    CaptureRecord r;
    assert_true(reader.next(r));
    assert_true(r.time_ns >= 0);
  }
}

void what_is_written_is_read(void**) {
  const h4a::net::test::TemporaryPath path("pcapng_test.pcapng");
  {
    auto writer = PcapngWriter::create(path.string());
    assert_ok(writer);
    for (const char* text : {"", "a", "ab", "abc", "abcd"})
      (*writer)->record(h4a::net::test::bytes_of(text), 1'700'000'000'123'456'789);
    assert_ok((*writer)->finish());
  }
  const auto file = read_file(path.string());
  assert_ok(file);
  CaptureReader reader(*file);
  CaptureRecord r;
  for (std::size_t n = 0; n < 5; ++n) {
    assert_true(reader.next(r));
    assert_string_equal(text_of(r.bytes).c_str(), std::string("abcd").substr(0, n).c_str());
    assert_int_equal(r.time_ns, 1'700'000'000'123'456'789);
  }
  assert_false(reader.next(r));
  assert_false(reader.fault().has_value());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(sections_interfaces_and_blocks),
      cmocka_unit_test(byte_order_changes_with_the_section),
      cmocka_unit_test(snap_length_cuts_simple_packets),
      cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(files_that_lie),
      cmocka_unit_test(absurd_times),
      cmocka_unit_test(what_is_written_is_read),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
