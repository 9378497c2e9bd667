// The command as a whole: files in, lines out, exit codes.
#include "apps/replay.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

#include "apps/replay_test_packets.h"
#include "net/pcap.h"
#include "net/pcapng.h"

#include "test/test_support.h"

namespace {

using namespace h4a;
using namespace h4a::apps;
using namespace h4a::apps::test;
using Json = nlohmann::json;

/// A folder for the files of one test.
struct Folder {
  Folder() {
    char name[] = "/tmp/h4a-replay-XXXXXX";
    assert_non_null(mkdtemp(name));
    path = name;
  }
  ~Folder() {
    for (const std::string& f : files) unlink(f.c_str());
    rmdir(path.c_str());
  }
  std::string file(const std::string& name) {
    files.push_back(path + "/" + name);
    return files.back();
  }
  std::string text(const std::string& name, const std::string& content) {
    const std::string f = file(name);
    std::FILE* out = std::fopen(f.c_str(), "wb");
    std::fwrite(content.data(), 1, content.size(), out);
    std::fclose(out);
    return f;
  }
  template <class Writer>
  std::string capture(const std::string& name, const std::vector<Packet>& frames) {
    const std::string f = file(name);
    auto writer = Writer::create(f);
    assert_ok(writer);
    for (const Packet& p : frames) (*writer)->record(p, 1'000'000'000);
    assert_ok((*writer)->finish());
    return f;
  }
  std::string path;
  std::vector<std::string> files;
};

struct Output {
  int exit_code;
  std::string out;
  std::string errors;
};

std::string slurp(std::FILE* f) {
  std::string s;
  std::rewind(f);
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) > 0;) s.append(buffer, n);
  std::fclose(f);
  return s;
}

Output run(const ReplayOptions& options) {
  std::FILE* out = std::tmpfile();
  std::FILE* errors = std::tmpfile();
  const int code = run_replay(options, out, errors);
  return {code, slurp(out), slurp(errors)};
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    out.push_back(Json::parse(text.substr(at, end - at), nullptr, false));
    assert_false(out.back().is_discarded());
    at = end + 1;
  }
  return out;
}

void json_as_documented(void**) {
  Folder folder;
  const auto sa = outbound_sa(0x1001, 20, true, 1);
  Packet bad = roce_packet({});
  bad.back() ^= 1;
  ReplayOptions o;
  o.files = {folder.capture<net::PcapWriter>(
      "a.pcap", {ethernet_frame(roce_packet({})), ethernet_frame(bad),
                 ethernet_frame(seal_transport(*sa, roce_packet({})))})};
  o.json = true;
  const Output without = run(o);
  assert_int_equal(without.exit_code, 0);
  auto lines = json_lines(without.out);
  assert_int_equal(lines.size(), 4);
  const Json first = {{"frame", 1},
                      {"protocol", "roce"},
                      {"source", "10.99.0.1"},
                      {"destination", "10.99.0.2"},
                      {"opcode", "RC_SEND_ONLY"},
                      {"dest_qp", 0x12},
                      {"psn", 100},
                      {"payload_bytes", 64},
                      {"icrc", "ok"},
                      {"verdict", "ok"}};
  if (lines[0] != first) fail_msg("%s", lines[0].dump().c_str());
  assert_string_equal(lines[1]["reason"].get<std::string>().c_str(), "bad_icrc");
  assert_string_equal(lines[1]["verdict"].get<std::string>().c_str(), "drop");
  assert_string_equal(lines[2]["icv"].get<std::string>().c_str(), "no_key");
  assert_string_equal(lines[2]["verdict"].get<std::string>().c_str(), "unchecked");
  assert_false(lines[2].contains("opcode"));
  const Json& summary = lines[3]["summary"];
  assert_true(summary["frames"] == 3 && summary["ok"] == 1 && summary["drop"] == 1);
  assert_true(summary["unchecked"] == 1 && summary["drops"]["bad_icrc"] == 1);

  o.esp_keys = folder.text("keys", "# h4a: esn=1 hi=0 window=64\n" + key_row(0x1001, 20));
  lines = json_lines(run(o).out);
  assert_string_equal(lines[2]["icv"].get<std::string>().c_str(), "ok");
  assert_string_equal(lines[2]["opcode"].get<std::string>().c_str(), "RC_SEND_ONLY");
  assert_true(lines[2]["spi"] == 0x1001 && lines[2]["sequence"] == 1 && lines[2]["esn"] == true);
  assert_true(lines[3]["summary"]["ok"] == 2);
}

void several_files_are_named(void**) {
  Folder folder;
  ReplayOptions o;
  o.json = true;
  o.files = {folder.capture<net::PcapWriter>("a.pcap", {ethernet_frame(roce_packet({}))}),
             folder.capture<net::PcapngWriter>("b.pcapng", {ethernet_frame(roce_packet({true}))})};
  const auto lines = json_lines(run(o).out);
  assert_int_equal(lines.size(), 3);
  assert_true(lines[1]["file"] == o.files[1]);
  assert_true(lines[1]["frame"] == 1);
  assert_true(lines[2]["summary"]["files"] == 2);
  o.json = false;
  const Output text = run(o);
  assert_true(text.out.find(o.files[0] + ":      1  roce  10.99.0.1 > 10.99.0.2  RC_SEND_ONLY") ==
              0);
  assert_true(text.out.find("2 frames in 2 files: 2 ok, 0 drop, 0 unchecked") != std::string::npos);
  o.summary_only = true;
  assert_true(run(o).out.find("2 frames in 2 files") == 0);
}

void broken_files_are_named(void**) {
  Folder folder;
  const std::string good = folder.capture<net::PcapWriter>(
      "good.pcap", {ethernet_frame(roce_packet({})), ethernet_frame(roce_packet({}))});
  ReplayOptions o;
  o.files = {"/nonexistent/x.pcap"};
  Output output = run(o);
  assert_int_equal(output.exit_code, 2);
  assert_string_equal(output.errors.c_str(), "h4a replay: /nonexistent/x.pcap: no such file\n");

  std::FILE* f = std::fopen(good.c_str(), "r+b");
  std::fseek(f, -3, SEEK_END);
  assert_int_equal(ftruncate(fileno(f), std::ftell(f)), 0);
  std::fclose(f);
  o.files = {good, folder.text("no.pcap", "this is no capture, however long it may be")};
  o.json = true;
  output = run(o);
  assert_int_equal(output.exit_code, 2);
  const auto lines = json_lines(output.out);
  assert_int_equal(lines.size(), 2);  // the whole frame, and the summary
  assert_true(lines[1]["summary"]["errors"].size() == 2);
  assert_true(output.errors.find("good.pcap: frame 2: cut in a frame's bytes") !=
              std::string::npos);
  assert_true(output.errors.find("no.pcap: neither a pcap nor a pcapng file") != std::string::npos);
}

void key_tables_that_cannot_be_used(void**) {
  Folder folder;
  ReplayOptions o;
  o.files = {folder.capture<net::PcapWriter>("a.pcap", {})};
  o.esp_keys = folder.text("keys", "\n\"IPv4\",\"*\"\n");
  Output output = run(o);
  assert_int_equal(output.exit_code, 2);
  assert_true(output.errors.find("keys: line 2: 2 fields where a row has 8") != std::string::npos);
  o.esp_keys = folder.text("empty", "# nothing\n");
  output = run(o);
  assert_int_equal(output.exit_code, 2);
  assert_true(output.errors.find("no key in it") != std::string::npos);
  o.esp_keys = "/nonexistent";
  assert_int_equal(run(o).exit_code, 2);
}

void command_line(void**) {
  CLI::App app;
  app.require_subcommand(1);
  ReplayOptions options;
  int exit_code = -1;
  add_replay_command(app, options, exit_code);
  const char* missing[] = {"h4a", "replay"};
  bool refused = false;
  try {
    app.parse(2, missing);
  } catch (const CLI::ParseError&) {
    refused = true;
  }
  assert_true(refused);
  const char* absent[] = {"h4a", "replay", "--json", "--esp-keys=/nonexistent", "x.pcap"};
  app.parse(5, absent);
  assert_int_equal(exit_code, 2);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(json_as_documented),     cmocka_unit_test(several_files_are_named),
      cmocka_unit_test(broken_files_are_named), cmocka_unit_test(key_tables_that_cannot_be_used),
      cmocka_unit_test(command_line),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
