// The guard of mapped files. cmocka sets its own SIGBUS handler around each test, so the test that
// needs ours is the first in a program of its own.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "h4a/file_source.h"

#include "test/test_support.h"

namespace h4a {
namespace {

namespace fs = std::filesystem;

int make_folder(void** state) {
  char name[] = "/tmp/h4a_mapping_XXXXXX";
  if (mkdtemp(name) == nullptr) return -1;
  *state = new fs::path(name);
  std::ofstream(fs::path(name) / "big") << std::string(3 * 65536, 'x');
  return 0;
}

int remove_folder(void** state) {
  auto* top = static_cast<fs::path*>(*state);
  fs::remove_all(*top);
  delete top;
  return 0;
}

const fs::path& in(void** state) {
  return *static_cast<fs::path*>(*state);
}

void a_file_cut_short_reads_as_zeros_and_is_told(void** state) {
  const auto root = FileRoot::open(in(state));
  assert_ok(root);
  const auto file = root->open_target("/big");
  const auto map = file->map();
  const auto other = file->map();
  assert_ok(map);
  assert_ok(other);
  assert_int_equal(map->bytes()[2 * 65536], 'x');
  fs::resize_file(in(state) / "big", 65536);
  std::vector<std::uint8_t> copy(map->bytes().size());
  std::memcpy(copy.data(), map->bytes().data(), copy.size());  // SIGBUS without the guard
  assert_int_equal(copy[65535], 'x');
  assert_int_equal(copy[65536], 0);
  assert_int_equal(copy.back(), 0);
  assert_false(map->intact());
  assert_true(other->intact());  // nobody read its lost pages
  assert_false(file->unchanged());
}

void a_slot_is_used_again(void** state) {
  const auto file = FileRoot::open(in(state))->open_target("/big");
  for (int i = 0; i < 10000; ++i) {
    auto map = file->map();
    assert_ok(map);
    const FileMapping moved = std::move(*map);
    assert_true(moved.intact());
  }
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_file_cut_short_reads_as_zeros_and_is_told),
      cmocka_unit_test(a_slot_is_used_again),
  };
  return cmocka_run_group_tests_name("file_mapping", tests, make_folder, remove_folder);
}
