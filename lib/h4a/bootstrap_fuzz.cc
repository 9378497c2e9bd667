// Offer and Answer: whatever decodes has values in their ranges, and encodes to something that
// decodes to the same. The first octet chooses the alignment that the body is read at.
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "h4a/bootstrap.h"

namespace {

using namespace h4a::bootstrap;

void check(const Terms& t) {
  H4A_ASSERT(t.spi.value() >= 256);
  H4A_ASSERT(!t.candidates.empty());
  H4A_ASSERT(t.candidates.size() <= kCandidatesMax);
  H4A_ASSERT(t.receive_depth >= 1);
  H4A_ASSERT(t.receive_depth <= kReceiveDepthMax);
  H4A_ASSERT(t.receive_bytes >= kReceiveBytesMin);
  H4A_ASSERT(t.receive_bytes <= kReceiveBytesMax);
  H4A_ASSERT(t.lifetime_s >= 1);
  H4A_ASSERT(t.lifetime_s <= kLifetimeMax_s);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t shift = data[0] % 8;
  std::vector<std::uint8_t> buffer(shift + size - 1);
  if (size > 1) std::memcpy(buffer.data() + shift, data + 1, size - 1);
  const h4a::Bytes body = h4a::Bytes(buffer).subspan(shift);
  if (const auto offer = decode_offer(body)) {
    check(offer->terms);
    const auto again = decode_offer(encode_offer(*offer));
    H4A_ASSERT(again.has_value());
    H4A_ASSERT(again->suites == offer->suites);
    H4A_ASSERT(again->terms.candidates == offer->terms.candidates);
  }
  if (const auto answer = decode_answer(body)) {
    check(answer->terms);
    const auto again = decode_answer(encode_answer(*answer));
    H4A_ASSERT(again.has_value());
    H4A_ASSERT(again->authorities == answer->authorities);
  }
  return 0;
}
