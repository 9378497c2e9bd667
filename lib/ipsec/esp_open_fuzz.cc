// open_burst on bytes of any kind: offsets and frame come from the input, as if every layer below had failed
// to check them. Two bytes of offsets, then the frame.
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "ipsec/esp_fixture.h"
#include "net/packet_view.h"

namespace h4a::ipsec {
namespace {

/// Whatever was accepted is a packet that the next layer can walk through again.
void check_good(const packet::Frame& f, std::size_t size_before) {
  H4A_ASSERT(f.association == test::kAssociation);
  H4A_ASSERT(f.size() < size_before);
  H4A_ASSERT(f.l3_offset < f.transport_offset);
  H4A_ASSERT(f.transport_offset <= f.size());
}

void open_bytes(test::EspPair& pair, Bytes input) {
  packet::Frame* f = pair.pool.allocate_one();
  const Bytes bytes = input.subspan(2);
  if (bytes.size() > f->tailroom()) return pair.pool.release_one(f);
  if (!bytes.empty()) std::copy(bytes.begin(), bytes.end(), f->append(bytes.size()));
  f->l3_offset = input[0];
  f->transport_offset = input[1];
  f->destination = pair.destination();
  if (pair.open(f) == Drop::kNone) check_good(*f, bytes.size());
  pair.pool.release_one(f);
}

}  // namespace
}  // namespace h4a::ipsec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::ipsec;
  if (size < 2) return 0;
  for (const bool v6 : {false, true}) {
    test::EspPair pair({.esn = v6, .v6 = v6, .frames = 2});
    open_bytes(pair, {data, size});
    H4A_ASSERT(pair.pool.available() == pair.pool.count());
  }
  return 0;
}
