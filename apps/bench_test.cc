// The benchmark as a user runs it, with rows as short as they can be; and what
// it makes of bad input.
#include "apps/bench.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/bench_json.h"

#include "test/test_support.h"

using namespace h4a;
using namespace h4a::apps;

namespace {

struct Output {
  int code = -1;
  std::string out;
  std::string errors;
};

/// run_bench() with what it printed.
Output run(const BenchOptions& options) {
  char* text[2] = {};
  std::size_t size[2] = {};
  std::FILE* files[2] = {::open_memstream(&text[0], &size[0]),
                         ::open_memstream(&text[1], &size[1])};
  Output o;
  o.code = run_bench(options, files[0], files[1]);
  for (std::FILE* f : files) std::fclose(f);
  o.out.assign(text[0], size[0]);
  o.errors.assign(text[1], size[1]);
  for (char* t : text) std::free(t);
  return o;
}

BenchOptions short_run(BenchOperation operation) {
  BenchOptions o;
  o.operation = operation;
  o.size = 20000;
  o.path_mtu = 1024;
  o.iterations = 300;
  o.no_hugepages = true;
  return o;
}

void test_write_as_json(void**) {
  BenchOptions o = short_run(BenchOperation::kWrite);
  o.json = true;
  const Output r = run(o);
  if (r.code != 0) fail_msg("%s", r.errors.c_str());
  const auto j = nlohmann::json::parse(r.out, nullptr, false);
  assert_true(j.is_object());
  assert_string_equal(j["operation"].get<std::string>().c_str(), "write");
  assert_int_equal(j["path_mtu"].get<int>(), 1024);
  assert_int_equal(j["rows"].size(), 1);
  const auto& row = j["rows"][0];
  assert_int_equal(row["bytes"].get<int>(), 20000);
  assert_int_equal(row["iterations"].get<int>(), 300);
  assert_true(row["packets"].get<int>() >= 300 * 20);  // 20000 = 19 × 1024 + 544
  assert_true(row["drops"].empty());
  assert_true(row["bw_average_gbps"].get<double>() > 0);
  assert_true(row["bw_peak_gbps"].get<double>() >= row["bw_average_gbps"].get<double>());
  assert_true(row["cycles_per_packet"].get<double>() > 0);
  assert_true(row["ceiling_ratio"].get<double>() > 0);
  // What is counted in the stages is a part of the whole, most of it.
  double stages = 0;
  for (const auto& cycles : row["stages"]) stages += cycles.get<double>();
  assert_true(stages <= row["cycles_per_packet"].get<double>() * 1.001);
  assert_true(stages >= row["cycles_per_packet"].get<double>() * 0.5);
}

void test_read_clear_as_table(void**) {
  BenchOptions o = short_run(BenchOperation::kRead);
  o.clear = true;
  o.ipv6 = true;
  o.profile = true;
  const Output r = run(o);
  if (r.code != 0) fail_msg("%s", r.errors.c_str());
  assert_true(r.out.find("RDMA read · clear · path MTU 1024") != std::string::npos);
  assert_true(r.out.find("#bytes  #iterations  BW peak[Gb/sec]") != std::string::npos);
  assert_true(r.out.find("\n    20000          300 ") != std::string::npos);
  assert_true(r.out.find("esp_open 0 ") != std::string::npos);  // the profile of a clear run
}

void test_send(void**) {
  const Output r = run(short_run(BenchOperation::kSend));
  if (r.code != 0) fail_msg("%s", r.errors.c_str());
  assert_true(r.out.find("RDMA send · ESP AES-GCM-128") != std::string::npos);
}

void test_many_queue_pairs(void**) {
  BenchOptions o = short_run(BenchOperation::kWrite);
  o.size = 1024;
  o.qps = 1500;  // more than a stack has by default
  const Output r = run(o);
  if (r.code != 0) fail_msg("%s", r.errors.c_str());
  o.operation = BenchOperation::kSend;
  assert_int_equal(run(o).code, 2);
}

/// `h4a bench write` in a process of its own, over memif. @return its exit
/// code.
int run_side(const char* side) {
  BenchOptions o = short_run(BenchOperation::kWrite);
  const std::string base = std::string("/tmp/h4a-bench-test-") + std::getenv("H4A_BENCH_TEST");
  const bool server = std::string(side) == "server";
  (server ? o.listen : o.connect) = base + ".link";
  o.port = "memif:" + base + ".memif" + (server ? ",role=server" : "");
  o.ips = {server ? "10.99.0.1/24" : "10.99.0.2/24"};
  return run_bench(o, stderr, stderr);
}

void test_two_processes(void**) {
  ::setenv("H4A_BENCH_TEST", std::to_string(::getpid()).c_str(), 1);
  pid_t children[2] = {};
  const char* const sides[2] = {"server", "client"};
  for (int i = 0; i < 2; ++i) {
    children[i] = ::fork();
    if (children[i] == 0) {
      ::execl("/proc/self/exe", "bench_test", sides[i], nullptr);
      ::_exit(127);
    }
  }
  for (int i = 1; i >= 0; --i) {
    int status = 0;
    assert_int_equal(::waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  const std::string base = "/tmp/h4a-bench-test-" + std::to_string(::getpid());
  assert_false(std::filesystem::exists(base + ".link"));
  assert_false(std::filesystem::exists(base + ".memif"));
}

void test_contradictions(void**) {
  BenchOptions both = short_run(BenchOperation::kWrite);
  both.listen = "127.0.0.1:1";
  both.connect = "127.0.0.1:1";
  assert_int_equal(run(both).code, 2);
  BenchOptions no_port = short_run(BenchOperation::kWrite);
  no_port.connect = "127.0.0.1:1";
  assert_true(run(no_port).errors.find("need --port and --ip") != std::string::npos);
  BenchOptions no_link = short_run(BenchOperation::kWrite);
  no_link.port = "memif:/tmp/x";
  assert_true(run(no_link).errors.find("--listen") != std::string::npos);
}

void test_lines(void**) {
  BenchContact c;
  c.ip = IpAddress::v4(10, 0, 0, 1);
  c.qpn = Qpn(7);
  c.address = 0xffff'ffff'ffff'fff0U;
  c.operation = BenchOperation::kSend;
  c.public_key[31] = 0xab;
  const auto back = parse_contact(to_line(c));
  assert_ok(back);
  assert_true(back->ip == c.ip && back->qpn == c.qpn && back->address == c.address);
  assert_true(back->public_key == c.public_key && back->operation == c.operation);

  BenchReport report;
  report.usage.busy_cycles = 123;
  report.usage.stages[4] = 5;
  report.usage.drops.add(Drop::kBadIcv, 3);
  report.intact = true;
  const auto report_back = parse_report(to_line(report));
  assert_ok(report_back);
  assert_int_equal(report_back->usage.busy_cycles, 123);
  assert_int_equal(report_back->usage.stages[4], 5);
  assert_int_equal(report_back->usage.drops[Drop::kBadIcv], 3);
  assert_true(report_back->intact);

  for (const char* bad :
       {"", "{", "[]", "1", "{}", R"({"ip":"x"})", R"({"ip":1,"key":2,"clear":3})",
        R"({"size":99999999999,"seed":1,"ip":"10.0.0.1","key":"zz","clear":true})",
        R"({"cycles_per_second":1,"intact":true,"drops":0,"stages":[1]})"}) {
    assert_error(parse_contact(bad), Error::kMalformed);
    assert_error(parse_command(bad), Error::kMalformed);
    assert_error(parse_report(bad), Error::kMalformed);
  }
  assert_int_equal(parse_command(R"({"size":64,"seed":9})")->seed, 9);
  assert_false(parse_command(to_line(BenchCommand{}))->begins_row());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return run_side(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_write_as_json),
      cmocka_unit_test(test_read_clear_as_table),
      cmocka_unit_test(test_send),
      cmocka_unit_test(test_two_processes),
      cmocka_unit_test(test_contradictions),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_many_queue_pairs),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
