// Two verbs scripts against each other in a simulated world: every command, and what fails.
#include "apps/verbs_script.h"

#include <fmt/format.h>
#include <vector>

#include "sim/world.h"

#include "test/test_support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;

/// A world with a script at each host, and what the scripts printed.
struct Stage {
  explicit Stage(bool ipv6 = false)
      : world(options(ipv6)),
        scripts{{world.host(0), turn(), printer(0)}, {world.host(1), turn(), printer(1)}} {}

  static sim::WorldOptions options(bool ipv6) {
    sim::WorldOptions o;
    o.ipv6 = ipv6;
    return o;
  }
  std::function<Instant()> turn() {
    return [this] {
      world.run_for(Duration::us(50));
      return world.now();
    };
  }
  std::function<void(std::string_view)> printer(std::size_t side) {
    return [this, side](std::string_view line) { printed[side].emplace_back(line); };
  }
  /// Runs lines that must succeed at one side. @return the last line that was printed.
  std::string run(std::size_t side, std::initializer_list<std::string> lines) {
    for (const std::string& line : lines)
      if (!scripts[side].run(line))
        fail_msg("%s: %s", line.c_str(), printed[side].empty() ? "" : printed[side].back().c_str());
    return printed[side].empty() ? "" : printed[side].back();
  }
  std::string fails(std::size_t side, const std::string& line) {
    if (scripts[side].run(line)) fail_msg("%s: succeeded", line.c_str());
    return printed[side].back();
  }
  void connect(const std::string& options0 = "", const std::string& options1 = "") {
    const char* gid = world.address(0).is_v4() ? "gid=1" : "gid=2";
    const std::string local0 = run(0, {fmt::format("open {} {}", gid, options0)});
    const std::string local1 = run(1, {fmt::format("open {} {}", gid, options1)});
    run(0, {"connect" + local1.substr(local1.find(' '))});
    run(1, {"connect" + local0.substr(local0.find(' '))});
  }

  sim::World world;
  std::vector<std::string> printed[2];
  VerbsScript scripts[2];
};

void lines_are_words_and_numbers(void**) {
  const ScriptLine line("  send\tlen=0x10 imm=@8 bad=ten off= # comment=1");
  assert_true(line.verb() == "send" && line.word(1) == "len=0x10" && line.word(9).empty());
  assert_int_equal(line.number("len", 1).value(), 16);
  assert_int_equal(line.number("le", 5).value(), 5);
  assert_false(line.number("bad", 1).has_value());
  assert_false(line.number("off", 1).has_value());
  assert_false(line.has("comment"));
  const std::uint8_t memory[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0x2a};
  assert_int_equal(line.number("imm", 1, memory).value(), 0x2a);
  assert_false(line.number("imm", 1, Bytes(memory).first(15)).has_value());
  assert_true(ScriptLine("# nothing").verb().empty());
}

void messages_arrive(void**) {
  for (const bool ipv6 : {false, true}) {
    Stage s(ipv6);
    s.connect();
    s.run(1, {"recv off=0x1000 len=4096", "recv off=0x3000 len=64"});
    s.run(0, {"fill len=3000 seed=5", "send len=3000 imm=0x99 sges=3", "send len=0", "wait n=2"});
    s.run(1, {"wait n=2", "check off=0x1000 len=3000 seed=5"});
    assert_true(s.printed[1][1] == "wc id=1 status=0 (success) len=3000 imm=0x99");
    s.run(0, {"write len=2500 roff=0x8000", "read off=0x9000 roff=0x8000 len=2500 sges=4",
              "wait n=2", "check off=0x9000 len=2500 seed=5"});
    s.run(1, {"set off=0xa000 value=5"});
    s.run(0, {"cas off=0 roff=0xa000 compare=5 swap=9", "faa off=8 roff=0xa000 add=3", "wait n=2",
              "get off=0"});
    assert_true(s.printed[0].back() == "u64 0x5");
    assert_true(s.run(0, {"get off=8"}) == "u64 0x9");
    assert_true(s.run(1, {"get off=0xa000"}) == "u64 0xc");
    s.run(1, {"check off=0x8000 len=2500 seed=5", "state"});
    assert_true(s.printed[1].back() == "state=3");
    s.run(0, {"close"});
    s.run(1, {"close"});
    s.connect("mtu=256");
  }
}

void windows_are_invalidated(void**) {
  Stage s;
  s.connect();
  s.run(1, {"recv len=64", "mw off=0x4000 len=4096 at=0x100", "wait"});
  s.run(0, {"read off=0x200 roff=0x100 len=8", "wait", "fill len=64",
            "write len=64 roff=0x4000 rkey=@0x200", "wait", "send len=8 inv=@0x200", "wait"});
  s.run(1, {"check off=0x4000 len=64", "wait"});
  assert_true(s.printed[1].back().find(" inv=0x") != std::string::npos);
  s.run(0, {"write len=64 roff=0x4000 rkey=@0x200", "wait status=10", "state"});
  assert_true(s.printed[0].back() == "state=6");
}

void rights_are_those_asked_for(void**) {
  Stage s;
  s.connect("", "rights=r");
  s.run(0, {"read len=8", "wait", "write len=8", "wait status=10"});
  Stage t;
  t.connect("", "qp_rights=r");
  t.run(0, {"read len=8", "wait", "write len=8", "wait status=9"});
}

void failures_are_told(void**) {
  Stage s;
  const struct {
    int number;
    const char* line;
    const char* expected;
  } closed[] = {
      {1, "send len=1", "line 1: send: open comes first; failed"},
      {2, "open gid=2", "line 2: open: finding an address for this gid; failed"},
      {3, "open type=xy", "line 3: open: this type of queue pair; failed"},
  };
  for (const auto& row : closed) {
    print_message("# %d\n", row.number);
    assert_string_equal(s.fails(0, row.line).c_str(), row.expected);
  }
  s.connect();
  assert_true(s.fails(0, "nonsense").ends_with("unknown command; failed"));
  assert_true(s.fails(0, "send len=x").ends_with("send: len failed"));
  assert_true(s.fails(0, "send off=1048576 len=1").ends_with("off/len failed"));
  assert_true(s.fails(0, "send sges=5").ends_with("sges failed"));
  assert_true(s.fails(0, "check len=8").ends_with("the pattern failed"));
  assert_true(s.fails(0, "wait ms=1").ends_with("completion (timed out); failed"));
  s.run(0, {"write rkey=1 len=8"});
  assert_true(s.fails(0, "wait").ends_with("the status expected; failed"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(lines_are_words_and_numbers), cmocka_unit_test(messages_arrive),
      cmocka_unit_test(windows_are_invalidated),     cmocka_unit_test(rights_are_those_asked_for),
      cmocka_unit_test(failures_are_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
