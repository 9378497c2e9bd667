// Any octets as a received message: decode_frame() answers, reads nothing else, and what it accepts can be
// encoded again and means the same.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "h4a/frames.h"

using namespace h4a;
using namespace h4a::http;

namespace {

// Reads every octet a frame borrows, so that the sanitizers see where it lies.
std::size_t touch(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\0'));
}
std::size_t touch(HeaderFields fields) {
  std::size_t n = 0;
  for (const HeaderField& f : fields) n += touch(f.name) + touch(f.value);
  return n;
}
std::size_t touch(Bytes b) {
  return static_cast<std::size_t>(std::count(b.begin(), b.end(), 0));
}

std::size_t touch(const FrameBody& body) {
  if (const auto* q = std::get_if<RequestFrame>(&body))
    return touch(q->head.method) + touch(q->head.scheme) + touch(q->head.authority) +
           touch(q->head.path) + touch(q->head.headers) + touch(q->inline_body);
  if (const auto* r = std::get_if<ResponseFrame>(&body))
    return touch(r->headers) + touch(r->inline_body);
  if (const auto* g = std::get_if<GoAwayFrame>(&body)) return touch(g->text);
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kFrameBytesMax) return 0;
  static FrameEncoder encoder(kFrameBytesMax);
  alignas(64) static std::array<std::uint8_t, kFrameBytesMax> again;
  static HeaderScratch scratch, scratch2;
  // A copy of exactly that size, aligned as a receive buffer is.
  auto* message = static_cast<std::uint8_t*>(std::aligned_alloc(64, (size + 64) / 64 * 64));
  std::copy_n(data, size, message);
  if (const auto frame = decode_frame({message, size}, scratch)) {
    const std::size_t before = touch(frame->body);
    const auto n = encoder.encode(*frame, again);
    if (!n && n.error() == Error::kInvalidArgument) std::abort();
    if (n) {
      const auto back = decode_frame(Bytes(again).first(*n), scratch2);
      if (!back || back->credit != frame->credit || back->body.index() != frame->body.index() ||
          touch(back->body) != before)
        std::abort();
    }
  }
  std::free(message);
  return 0;
}
