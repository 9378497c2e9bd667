// Downloads on their way to disk: what stands where, at every moment, with files that have no name and with
// temporary names alike.
#include "apps/output_file.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/test_support.h"

namespace h4a::apps {
namespace {

namespace fs = std::filesystem;

constexpr OutputFile::Temporary kKinds[] = {OutputFile::Temporary::kNameless,
                                            OutputFile::Temporary::kNamed};

/// A folder of its own, removed at the end.
struct Folder {
  Folder() {
    char name[] = "/tmp/h4a_output_XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  [[nodiscard]] std::string file(const char* name) const { return path / name; }
  [[nodiscard]] long entries() const {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }
  fs::path path;
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool write(OutputFile& out, std::string_view text) {
  return out.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void the_name_comes_last(void**) {
  for (const auto kind : kKinds) {
    const Folder folder;
    const std::string path = folder.file("got");
    OutputFile out(kind);
    assert_true(out.open(path));
    assert_true(write(out, "hello"));
    assert_false(fs::exists(path));
    assert_true(out.commit());
    assert_string_equal(content(path).c_str(), "hello");
    assert_int_equal(folder.entries(), 1);
    struct stat st {};
    assert_int_equal(::stat(path.c_str(), &st), 0);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);  // a download is not private
  }
}

void what_is_not_committed_leaves_nothing(void**) {
  for (const auto kind : kKinds) {
    const Folder folder;
    {
      OutputFile out(kind);
      assert_true(out.open(folder.file("got")));
      assert_true(write(out, "half"));
    }
    assert_int_equal(folder.entries(), 0);
  }
}

void an_older_file_is_replaced_when_complete(void**) {
  for (const auto kind : kKinds) {
    const Folder folder;
    const std::string path = folder.file("got");
    std::ofstream(path) << "old";
    fs::create_symlink("got", folder.path / "link");
    OutputFile out(kind);
    assert_true(out.open(folder.file("link")));
    assert_true(write(out, "wrong"));
    assert_true(out.restart());
    assert_true(write(out, "new"));
    assert_string_equal(content(path).c_str(), "old");
    assert_true(out.commit());
    assert_string_equal(content(path).c_str(), "new");
    assert_true(fs::is_symlink(folder.path / "link"));
    assert_int_equal(folder.entries(), 2);
  }
}

/// Somebody took the name meanwhile, and it is a folder: nothing of ours stays.
void a_name_that_cannot_be_had(void**) {
  for (const auto kind : kKinds) {
    const Folder folder;
    {
      OutputFile out(kind);
      assert_true(out.open(folder.file("got")));
      assert_true(write(out, "data"));
      fs::create_directory(folder.file("got"));
      assert_false(out.commit());
      assert_true(out.error().find("cannot put in place") == 0);
    }
    assert_int_equal(folder.entries(), 1);
    OutputFile out(kind);
    assert_false(out.open(folder.file("got")));
    assert_true(out.error().find("Is a directory") != std::string::npos);
    OutputFile elsewhere(kind);
    assert_false(elsewhere.open(folder.file("no/such/folder")));
    assert_true(elsewhere.error().find("cannot create") == 0);
  }
}

void streams_are_written_to_directly(void**) {
  for (const auto kind : kKinds) {
    OutputFile out(kind);
    assert_true(out.open("/dev/null"));
    assert_true(out.restart());
    assert_true(write(out, "gone"));
    assert_false(out.restart());  // cannot be taken back
    assert_true(out.commit());
    assert_true(fs::is_character_file("/dev/null"));
  }
}

/// kill -9 in the middle: a file without a name goes with its process.
void a_killed_process_leaves_nothing(void**) {
  const Folder folder;
  const int probe = ::open(folder.path.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (probe < 0) skip();
  ::close(probe);
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFile out;
    if (out.open(folder.file("got")) && write(out, "half")) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  assert_int_equal(::waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(folder.entries(), 0);
}

}  // namespace
}  // namespace h4a::apps

int main() {
  using namespace h4a::apps;
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_name_comes_last),
      cmocka_unit_test(what_is_not_committed_leaves_nothing),
      cmocka_unit_test(an_older_file_is_replaced_when_complete),
      cmocka_unit_test(a_name_that_cannot_be_had),
      cmocka_unit_test(streams_are_written_to_directly),
      cmocka_unit_test(a_killed_process_leaves_nothing),
  };
  return cmocka_run_group_tests_name("output_file", tests, nullptr, nullptr);
}
