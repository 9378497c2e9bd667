// Frames: build and read back; every way a message can be no frame (field reports B46 and B49).
#include "h4a/frames.h"

#include <array>
#include <cstring>
#include <frames_generated.h>
#include <string>
#include <vector>

#include "test/test_support.h"

namespace h4a::http {
namespace {

constexpr std::size_t kRoom = 4096;

// A message in memory aligned as a receive buffer is.
struct Message {
  alignas(64) std::array<std::uint8_t, kRoom + 8> memory{};
  std::size_t size = 0;
  std::size_t shift = 0;

  Message& put(const FrameBody& body, std::uint64_t credit = 7) {
    static FrameEncoder encoder(kRoom);
    const auto n = encoder.encode(Frame{credit, body}, MutableBytes(memory).first(kRoom));
    assert_ok(n);
    size = *n;
    return *this;
  }
  [[nodiscard]] Bytes bytes() const { return Bytes(memory).subspan(shift, size); }
};

// The text of a decoded frame lies in the message, so both live as long as the test program.
Frame decode(const Message& m) {
  static HeaderScratch scratch;
  const auto f = decode_frame(m.bytes(), scratch);
  if (!f) fail_msg("decode: %s", std::string(to_string(f.error())).c_str());
  return *f;
}

void refused(Bytes message, FrameError expected) {
  static HeaderScratch scratch;
  const auto f = decode_frame(message, scratch);
  if (f) fail_msg("accepted");
  if (f.error() != expected) fail_msg("refused for %s", std::string(to_string(f.error())).c_str());
}
void refused(const Message& m, FrameError expected) {
  refused(m.bytes(), expected);
}

RequestFrame request() {
  static const HeaderField fields[] = {{"Range", "bytes=0-9"}, {"x-empty", ""}};
  RequestFrame q;
  q.id = RequestId(42);
  q.head = {"GET", "https", "example.org", "/a?b", fields};
  q.sink = Region{0x7f00'0000'1000, 65536, Rkey(0xdead'beef)};
  q.deadline_us = 2'000'000;
  return q;
}

// ---- read back ----

void request_reads_back(void**) {
  Message m;
  const Frame f = decode(m.put(request(), 99));
  assert_int_equal(f.credit, 99);
  const auto& q = std::get<RequestFrame>(f.body);
  assert_int_equal(q.id.value(), 42);
  assert_true(q.head.method == "GET" && q.head.scheme == "https");
  assert_true(q.head.authority == "example.org" && q.head.path == "/a?b");
  assert_int_equal(q.head.headers.size(), 2);
  assert_true(find_header(q.head.headers, "range") == "bytes=0-9");
  assert_true(find_header(q.head.headers, "X-Empty") == "");
  assert_true(q.sink.has_value());
  assert_int_equal(q.sink->address, 0x7f00'0000'1000);
  assert_int_equal(q.sink->length, 65536);
  assert_int_equal(q.sink->rkey.value(), 0xdead'beef);
  assert_int_equal(q.deadline_us, 2'000'000);
}

void response_reads_back(void**) {
  static const std::uint8_t body[] = {1, 2, 3};
  ResponseFrame r;
  r.id = RequestId(7);
  r.status = 206;
  r.place = BodyPlace::kInline;
  r.inline_body = body;
  r.placed_bytes = 5;
  r.body_length = 3;
  Message m;
  const Frame frame = decode(m.put(r));
  const auto& back = std::get<ResponseFrame>(frame.body);
  assert_int_equal(back.status, 206);
  assert_true(back.place == BodyPlace::kInline);
  assert_int_equal(back.inline_body.size(), 3);
  assert_memory_equal(back.inline_body.data(), body, 3);
  assert_int_equal(back.placed_bytes, 5);
  assert_int_equal(back.body_length, 3);
}

void small_frames_read_back(void**) {
  Message m;
  assert_int_equal(std::get<PingFrame>(decode(m.put(PingFrame{~0ULL})).body).nonce, ~0ULL);
  assert_int_equal(std::get<PongFrame>(decode(m.put(PongFrame{5})).body).nonce, 5);
  assert_int_equal(std::get<CancelFrame>(decode(m.put(CancelFrame{RequestId(3)})).body).id.value(),
                   3);
  assert_true(std::holds_alternative<CreditFrame>(decode(m.put(CreditFrame{})).body));
  assert_int_equal(std::get<DataFrame>(decode(m.put(DataFrame{RequestId(4)})).body).id.value(), 4);
  assert_true(std::holds_alternative<TrailersFrame>(decode(m.put(TrailersFrame{})).body));
  assert_int_equal(std::get<RekeyFrame>(decode(m.put(RekeyFrame{2})).body).epoch, 2);
  const Frame settings = decode(m.put(SettingsFrame{32, 16384, 60000}));
  assert_int_equal(std::get<SettingsFrame>(settings.body).max_request_bytes, 16384);
  const Frame bye = decode(m.put(GoAwayFrame{RequestId(9), GoAwayCode::kOverload, "busy"}));
  assert_true(std::get<GoAwayFrame>(bye.body).text == "busy");
  assert_true(std::get<GoAwayFrame>(bye.body).code == GoAwayCode::kOverload);
}

void credit_is_patched_in_place(void**) {
  Message m;
  m.put(request(), 1);
  patch_credit(MutableBytes(m.memory).first(m.size), 0x1122'3344'5566'7788);
  const Frame f = decode(m);
  assert_int_equal(f.credit, 0x1122'3344'5566'7788);
  assert_int_equal(std::get<RequestFrame>(f.body).id.value(), 42);
}

// ---- framing: B49 ----

void two_messages_in_one_send(void**) {
  Message m;
  m.put(PingFrame{1});
  std::memcpy(m.memory.data() + m.size, m.memory.data(), m.size);
  m.size *= 2;
  refused(m, FrameError::kTrailingBytes);
}

void a_message_cut_short(void**) {
  Message m;
  m.put(request());
  for (std::size_t n = 0; n < m.size; ++n)
    refused(m.bytes().first(n), n < 12 ? FrameError::kTooShort : FrameError::kPrefixTooLong);
}

void lying_prefixes(void**) {
  struct Row {
    std::uint32_t prefix;
    FrameError right;
  } rows[] = {{0, FrameError::kTrailingBytes},
              {1, FrameError::kTrailingBytes},
              {0xffff'ffff, FrameError::kPrefixTooLong},
              {0x8000'0000, FrameError::kPrefixTooLong},
              {0x7fff'ffff, FrameError::kPrefixTooLong}};
  for (const Row& row : rows) {
    Message m;
    m.put(PingFrame{1});
    store_le<4>(m.memory.data(), row.prefix);
    refused(m, row.right);
  }
}

void too_long_for_a_frame(void**) {
  std::vector<std::uint64_t> memory(kFrameBytesMax / 8 + 1);
  refused({reinterpret_cast<std::uint8_t*>(memory.data()), kFrameBytesMax + 8},
          FrameError::kTooLong);
}

// ---- alignment: B46 ----

void misaligned_messages_are_refused(void**) {
  for (std::size_t shift = 1; shift < 8; ++shift) {
    Message m;
    m.put(request());
    std::memmove(m.memory.data() + shift, m.memory.data(), m.size);
    m.shift = shift;
    refused(m, FrameError::kMisaligned);
  }
}

// ---- content ----

void wrong_identifier(void**) {
  Message m;
  m.put(PingFrame{1});
  m.memory[8] ^= 1;
  refused(m, FrameError::kBadIdentifier);
}

// Whatever one octet is changed to, the answer is a frame or an error; the sanitizers watch the rest.
void every_octet_flipped(void**) {
  static HeaderScratch scratch;
  Message m;
  m.put(request());
  std::size_t refusals = 0;
  for (std::size_t i = 0; i < m.size; ++i)
    for (const unsigned mask : {0x01U, 0x80U, 0xffU}) {
      const std::uint8_t kept = m.memory[i];
      m.memory[i] = static_cast<std::uint8_t>(kept ^ mask);
      refusals += decode_frame(m.bytes(), scratch) ? 0U : 1U;
      m.memory[i] = kept;
    }
  assert_in_range(refusals, m.size / 4, 3 * m.size);
}

Message built(flatbuffers::FlatBufferBuilder& b, flatbuffers::Offset<fb::Frame> frame) {
  fb::FinishSizePrefixedFrameBuffer(b, frame);
  Message m;
  m.size = b.GetSize();
  std::memcpy(m.memory.data(), b.GetBufferPointer(), m.size);
  return m;
}

void unknown_kinds_are_refused(void**) {
  flatbuffers::FlatBufferBuilder b;
  const auto ping = fb::CreatePing(b, 1).Union();
  refused(built(b, fb::CreateFrame(b, 1, static_cast<fb::Body>(77), ping)),
          FrameError::kUnknownKind);
}

Message request_with(std::string_view name, std::string_view value, const char* path = "/",
                     const char* method = "GET", int regions = 0, int copies = 1) {
  flatbuffers::FlatBufferBuilder b;
  const auto n = b.CreateString(name.data(), name.size());
  const auto v = b.CreateString(value.data(), value.size());
  const auto header = fb::CreateHeader(b, n, v);
  const std::vector<flatbuffers::Offset<fb::Header>> headers(static_cast<std::size_t>(copies),
                                                             header);
  const std::vector<fb::Region> sink(static_cast<std::size_t>(regions),
                                     fb::Region(~0ULL - 4, 5, 1));
  const auto q = fb::CreateRequest(b, 1, b.CreateString(method), 0, 0, b.CreateString(path),
                                   b.CreateVector(headers), 0, 0,
                                   regions == 0 ? 0 : b.CreateVectorOfStructs(sink));
  return built(b, fb::CreateFrame(b, 1, fb::Body::Request, q.Union()));
}

void illegal_text_is_refused(void**) {
  struct Row {
    std::string_view name, value;
    const char* path;
    const char* method;
  } rows[] = {{"", "v", "/", "GET"},         {"a b", "v", "/", "GET"},
              {"a\r\nb", "v", "/", "GET"},   {"a", "v\r\nx: y", "/", "GET"},
              {"a", {"v\0", 2}, "/", "GET"}, {"a", "v", "", "GET"},
              {"a", "v", "/a b", "GET"},     {"a", "v", "/\n", "GET"},
              {"a", "v", "/", ""},           {"a", "v", "/", "GET /"}};
  for (const Row& r : rows)
    refused(request_with(r.name, r.value, r.path, r.method), FrameError::kBadText);
  decode(request_with("a", "v\tw \xc3\xa4"));
}

void fields_that_share_octets_are_refused(void**) {
  const std::string value(200, 'x');
  refused(request_with("name", value, "/", "GET", 0, 50), FrameError::kSharedText);
}

void too_many_fields_are_reported(void**) {
  const Message m = request_with("a", "b", "/", "GET", 0, kHeaderFieldsMax + 1);
  const Frame f = decode(m);
  assert_true(std::get<RequestFrame>(f.body).too_many_fields);
  assert_true(std::get<RequestFrame>(f.body).head.headers.empty());
}

void regions_out_of_range_are_refused(void**) {
  refused(request_with("a", "b", "/", "GET", 1), FrameError::kBadField);  // wraps
  refused(request_with("a", "b", "/", "GET", 2), FrameError::kBadField);  // more than one
}

void statuses_out_of_range_are_refused(void**) {
  for (const unsigned status : {0U, 100U, 199U, 1000U, 65535U}) {
    flatbuffers::FlatBufferBuilder b;
    const auto r = fb::CreateResponse(b, 1, static_cast<std::uint16_t>(status));
    refused(built(b, fb::CreateFrame(b, 1, fb::Body::Response, r.Union())), FrameError::kBadField);
  }
}

// ---- encoder ----

void what_does_not_fit_is_full(void**) {
  alignas(64) std::array<std::uint8_t, 128> small{};
  FrameEncoder encoder(128);
  assert_error(encoder.encode(Frame{1, request()}, small), Error::kFull);
  RequestFrame q = request();
  const std::string path(4096, 'p');
  q.head.path = path;
  assert_error(encoder.encode(Frame{1, q}, small), Error::kFull);
  assert_ok(encoder.encode(Frame{1, PingFrame{1}}, small));
}

void illegal_frames_are_not_encoded(void**) {
  alignas(64) std::array<std::uint8_t, kRoom> out{};
  FrameEncoder encoder(kRoom);
  RequestFrame q = request();
  q.head.path = "/a b";
  assert_error(encoder.encode(Frame{1, q}, out), Error::kInvalidArgument);
  q = request();
  const HeaderField bad[] = {{"a", "b\r\nc: d"}};
  q.head.headers = bad;
  assert_error(encoder.encode(Frame{1, q}, out), Error::kInvalidArgument);
  ResponseFrame r;
  r.status = 100;
  assert_error(encoder.encode(Frame{1, r}, out), Error::kInvalidArgument);
}

}  // namespace
}  // namespace h4a::http

int main() {
  using namespace h4a::http;
  const CMUnitTest tests[] = {
      cmocka_unit_test(request_reads_back),
      cmocka_unit_test(response_reads_back),
      cmocka_unit_test(small_frames_read_back),
      cmocka_unit_test(credit_is_patched_in_place),
      cmocka_unit_test(two_messages_in_one_send),
      cmocka_unit_test(a_message_cut_short),
      cmocka_unit_test(lying_prefixes),
      cmocka_unit_test(too_long_for_a_frame),
      cmocka_unit_test(misaligned_messages_are_refused),
      cmocka_unit_test(wrong_identifier),
      cmocka_unit_test(every_octet_flipped),
      cmocka_unit_test(unknown_kinds_are_refused),
      cmocka_unit_test(illegal_text_is_refused),
      cmocka_unit_test(fields_that_share_octets_are_refused),
      cmocka_unit_test(too_many_fields_are_reported),
      cmocka_unit_test(regions_out_of_range_are_refused),
      cmocka_unit_test(statuses_out_of_range_are_refused),
      cmocka_unit_test(what_does_not_fit_is_full),
      cmocka_unit_test(illegal_frames_are_not_encoded),
  };
  return cmocka_run_group_tests_name("frames", tests, nullptr, nullptr);
}
