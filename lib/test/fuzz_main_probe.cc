// A target for the test of fuzz_main.cc: prints the size of each input and aborts on the input
// "crash".
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::printf("size %zu\n", size);
  if (size == 5 && std::memcmp(data, "crash", 5) == 0) std::abort();
  return 0;
}
