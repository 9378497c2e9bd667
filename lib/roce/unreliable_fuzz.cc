// A sequence of packets into one UC or UD QP, with the invariants of hostile_peer.h on.
#include "roce/hostile_peer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using h4a::verbs::QpType;
  if (size == 0) return 0;
  h4a::roce::test::HostileWorld world(data[0] % 2 == 0 ? QpType::kUc : QpType::kUd);
  h4a::roce::test::ByteSource in({data + 1, size < 4096 ? size - 1 : 4095});
  while (!in.empty()) world.step(in);
  world.finish();
  return 0;
}
