// A sequence of packets into one QP, with the invariants of hostile_peer.h on.
#include "roce/hostile_peer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h4a::roce::test::HostileWorld world;
  h4a::roce::test::ByteSource in({data, size < 4096 ? size : 4096});
  while (!in.empty()) world.step(in);
  world.finish();
  return 0;
}
