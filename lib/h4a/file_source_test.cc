#include "h4a/file_source.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "test/test_support.h"

namespace h4a {
namespace {

namespace fs = std::filesystem;

struct Fixture {
  fs::path top;
  std::optional<FileRoot> root;
};

void write(const fs::path& p, const std::string& text) {
  std::ofstream(p, std::ios::binary) << text;
}

/// root/{hello.txt, index.html, sub/{inner.json, index.html}, links…} beside a secret that is not
/// served.
int make_tree(void** state) {
  char name[] = "/tmp/h4a_files_XXXXXX";
  if (mkdtemp(name) == nullptr) return -1;
  auto* f = new Fixture{name, {}};
  fs::create_directories(f->top / "root/sub");
  write(f->top / "secret", "not for you");
  write(f->top / "root/hello.txt", "hello");
  write(f->top / "root/a b", "space");
  write(f->top / "root/empty", "");
  write(f->top / "root/index.html", "<top>");
  write(f->top / "root/sub/index.html", "<sub>");
  write(f->top / "root/sub/inner.json", "{}");
  fs::create_symlink("../secret", f->top / "root/out");
  fs::create_symlink(f->top / "secret", f->top / "root/absolute");
  fs::create_symlink("..", f->top / "root/up");
  fs::create_symlink("sub/inner.json", f->top / "root/inside");
  fs::create_symlink("loop", f->top / "root/loop");
  if (mkfifo((f->top / "root/fifo").c_str(), 0600) != 0) return -1;
  auto root = FileRoot::open(f->top / "root");
  if (!root) return -1;
  f->root.emplace(std::move(*root));
  *state = f;
  return 0;
}

int remove_tree(void** state) {
  auto* f = static_cast<Fixture*>(*state);
  fs::remove_all(f->top);
  delete f;
  return 0;
}

Fixture& in(void** state) {
  return *static_cast<Fixture*>(*state);
}

std::string content(const File& file) {
  std::vector<std::uint8_t> out(file.size());
  const auto n = file.read(0, out);
  assert_ok(n);
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*n)};
}

void targets_become_paths(void**) {
  const std::pair<const char*, const char*> good[] = {
      {"/a", "a"},           {"/a/b.txt", "a/b.txt"}, {"/a?x=/../y", "a"},
      {"/a%20b", "a b"},     {"/", "index.html"},     {"/sub/", "sub/index.html"},
      {"/./a", "a"},         {"/a/./b", "a/b"},       {"/%2e/a", "a"},
      {"/...", "..."},       {"/a..b", "a..b"},       {"/.", "index.html"},
      {"/?q", "index.html"}, {"/a#frag", "a"},
  };
  for (const auto& [target, path] : good) {
    const auto got = path_below_root(target);
    if (!got || *got != path) fail_msg("%s became %s", target, got ? got->c_str() : "an error");
  }
}

void bad_targets_are_refused(void**) {
  const std::pair<std::string_view, Error> bad[] = {
      {"", Error::kMalformed},          {"a", Error::kMalformed},
      {"*", Error::kMalformed},         {"/%", Error::kMalformed},
      {"/%4", Error::kMalformed},       {"/%zz", Error::kMalformed},
      {"/a%00b", Error::kMalformed},    {"/..", Error::kAccess},
      {"/../secret", Error::kAccess},   {"/a/../../secret", Error::kAccess},
      {"/%2e%2e/x", Error::kAccess},    {"/a/%2E%2e", Error::kAccess},
      {"/..%2fsecret", Error::kAccess}, {"//etc/passwd", Error::kNotFound},
      {"/a//b", Error::kNotFound},
  };
  for (const auto& [target, error] : bad) {
    const auto got = path_below_root(target);
    if (got) fail_msg("%.*s was accepted", static_cast<int>(target.size()), target.data());
    assert_eq(got.error(), error);
  }
}

void files_are_read(void** state) {
  const auto& root = *in(state).root;
  const auto file = root.open_target("/hello.txt?x");
  assert_ok(file);
  assert_int_equal(file->size(), 5);
  assert_string_equal(content(*file).c_str(), "hello");
  assert_true(file->content_type() == "text/plain; charset=utf-8");
  std::uint8_t three[3];
  assert_int_equal(*file->read(3, three), 2);  // the end of the file
  assert_int_equal(*file->read(99, three), 0);
  assert_string_equal(content(*root.open_target("/")).c_str(), "<top>");
  assert_string_equal(content(*root.open_target("/sub/")).c_str(), "<sub>");
  assert_string_equal(content(*root.open_target("/a%20b")).c_str(), "space");
  assert_int_equal(root.open_target("/empty")->size(), 0);
}

void nothing_else_is_opened(void** state) {
  const auto& root = *in(state).root;
  const std::pair<const char*, Error> cases[] = {
      {"/nowhere", Error::kNotFound},     {"/sub", Error::kNotFound},
      {"/hello.txt/x", Error::kNotFound}, {"/fifo", Error::kNotFound},
      {"/out", Error::kAccess},           {"/absolute", Error::kAccess},
      {"/up/secret", Error::kAccess},     {"/up/root/hello.txt", Error::kAccess},
      {"/loop", Error::kAccess},          {"/%2e%2e/secret", Error::kAccess},
  };
  for (const auto& [target, error] : cases) {
    const auto got = root.open_target(target);
    if (got) fail_msg("%s was opened", target);
    if (got.error() != error) fail_msg("%s: %d", target, static_cast<int>(got.error()));
  }
  assert_error(root.open_target("/" + std::string(300, 'a')), Error::kNotFound);
}

void links_inside_the_root_work(void** state) {
  const auto file = in(state).root->open_target("/inside");
  assert_ok(file);
  assert_string_equal(content(*file).c_str(), "{}");
}

void the_fallback_follows_no_link(void** state) {
  const FileDescriptor root(
      ::open((in(state).top / "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const FileDescriptor good(detail::open_without_links(root.get(), "sub/inner.json"));
  assert_true(good.get() >= 0);
  for (const char* path : {"out", "absolute", "inside", "up/secret", "../secret", "loop", "sub//x"})
    if (detail::open_without_links(root.get(), path) >= 0) fail_msg("%s was opened", path);
  assert_int_equal(detail::open_without_links(root.get(), "nowhere"), -ENOENT);
}

void a_root_is_a_folder(void** state) {
  assert_error(FileRoot::open(in(state).top / "nowhere"), Error::kNotFound);
  assert_error(FileRoot::open(in(state).top / "secret"), Error::kInvalidArgument);
}

void the_tag_follows_the_content(void** state) {
  const auto& root = *in(state).root;
  const auto before = root.open_target("/hello.txt");
  assert_ok(before);
  assert_eq(before->validators().etag, root.open_target("/hello.txt")->validators().etag);
  assert_true(before->unchanged());
  write(in(state).top / "root/hello.txt", "hello, longer");
  assert_false(before->unchanged());
  const auto after = root.open_target("/hello.txt");
  assert_false(before->validators().etag == after->validators().etag);
}

void a_mapping_is_the_file(void** state) {
  const auto file = in(state).root->open_target("/hello.txt");
  const auto map = file->map();
  assert_ok(map);
  assert_int_equal(map->bytes().size(), 5);
  assert_memory_equal(map->bytes().data(), "hello", 5);
  assert_true(map->intact());
  assert_error(in(state).root->open_target("/empty")->map(), Error::kInvalidState);
}

void types_by_ending(void**) {
  assert_true(content_type_of("a/b.html") == "text/html; charset=utf-8");
  assert_true(content_type_of("a.tar.gz") == "application/gzip");
  assert_true(content_type_of("noending") == "application/octet-stream");
  assert_true(content_type_of("a.") == "application/octet-stream");
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
#define TEST_IN_TREE(f) cmocka_unit_test_setup_teardown(f, make_tree, remove_tree)
  const CMUnitTest tests[] = {
      cmocka_unit_test(targets_become_paths),
      cmocka_unit_test(bad_targets_are_refused),
      TEST_IN_TREE(files_are_read),
      TEST_IN_TREE(nothing_else_is_opened),
      TEST_IN_TREE(links_inside_the_root_work),
      TEST_IN_TREE(the_fallback_follows_no_link),
      TEST_IN_TREE(a_root_is_a_folder),
      TEST_IN_TREE(the_tag_follows_the_content),
      TEST_IN_TREE(a_mapping_is_the_file),
      cmocka_unit_test(types_by_ending),
  };
  return cmocka_run_group_tests_name("file_source", tests, nullptr, nullptr);
}
