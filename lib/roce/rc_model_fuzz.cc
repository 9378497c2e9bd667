// A conversation with one QP after a model of the protocol, with the invariants of model_peer.h on.
// The first byte says whether receives come from a shared queue.
#include "roce/model_peer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h4a::roce::test::ByteSource in({data, size < 4096 ? size : 4096});
  h4a::roce::test::ModelWorld world(in.u8() % 2 == 1);
  while (!in.empty()) world.step(in);
  world.finish();
  return 0;
}
