// Replays a fuzz target's corpus without libFuzzer: `x_fuzz PATH...` hands each file below the
// paths, in sorted order, to LLVMFuzzerTestOneInput and prints how many there were. A path that is
// missing or holds no file is a failure, so a test cannot pass because its corpus went away. The
// name of each file is printed before it runs when H4A_FUZZ_VERBOSE is set: the last one printed is
// the one that crashed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& root) {
  std::vector<fs::path> found;
  if (fs::is_regular_file(root)) found.push_back(root);
  if (fs::is_directory(root))
    for (const auto& entry : fs::recursive_directory_iterator(root))
      if (entry.is_regular_file()) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

bool replay(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    return false;
  }
  const std::vector<char> text{std::istreambuf_iterator<char>(in),
                               std::istreambuf_iterator<char>()};
  // An exact copy on the heap: a read past the end is then caught by AddressSanitizer.
  const std::vector<std::uint8_t> input(text.begin(), text.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS...\n", argv[0]);
    return 2;
  }
  const bool verbose = std::getenv("H4A_FUZZ_VERBOSE") != nullptr;
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    const auto inputs = files_below(argv[i]);
    if (inputs.empty()) {
      std::fprintf(stderr, "%s: no corpus files there\n", argv[i]);
      return 1;
    }
    for (const auto& path : inputs) {
      if (verbose) std::fprintf(stderr, "%s\n", path.c_str());
      if (!replay(path)) return 1;
      ++count;
    }
  }
  std::printf("%zu inputs replayed\n", count);
  return 0;
}
