#include "apps/bench_ceiling.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"
#include "ipsec/aead.h"
#include "net/icrc.h"

namespace h4a::apps {
namespace {

constexpr std::size_t kFrames = 512;
constexpr std::size_t kFrameStride = 9216;
constexpr std::size_t kRegionBytes = std::size_t{64} << 20;
constexpr std::size_t kAadBytes = 12;

std::uint64_t read_cycles() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(steady_now().count_ns());
#endif
}

struct FreePages {
  void operator()(std::uint8_t* p) const noexcept { std::free(p); }
};
using Pages = std::unique_ptr<std::uint8_t, FreePages>;

/// Aligned to pages, as frame pools and registered memory are. Throws std::bad_alloc.
Pages allocate_pages(std::size_t bytes) {
  Pages pages(static_cast<std::uint8_t*>(std::aligned_alloc(4096, bytes)));
  if (pages == nullptr) throw std::bad_alloc();
  return pages;
}

/// Frames like those of a port, and the memory that an application registered.
class Bench {
 public:
  explicit Bench(std::size_t bytes)
      : bytes_(bytes),
        frames_(allocate_pages(kFrames * kFrameStride)),
        region_(allocate_pages(kRegionBytes)) {
    for (std::size_t i = 0; i < kFrames * kFrameStride; ++i)
      frames_.get()[i] = static_cast<std::uint8_t>(i >> 6);
    std::memset(region_.get(), 1, kRegionBytes);  // pages are there before the clock runs
  }

  /// @param prepare(frame, index) before each round, `work(frame, index)` in it.
  template <class Prepare, class Work>
  StageCost measure(std::size_t rounds, Prepare&& prepare, Work&& work) {
    std::vector<double> cycles;
    std::vector<double> nanoseconds;
    for (std::size_t r = 0; r < rounds; ++r) {
      for (std::size_t i = 0; i < kFrames; ++i) prepare(frame(i), i);
      const Instant start = steady_now();
      const std::uint64_t first = read_cycles();
      for (std::size_t i = 0; i < kFrames; ++i) work(frame(i), i);
      cycles.push_back(static_cast<double>(read_cycles() - first) / kFrames);
      nanoseconds.push_back(static_cast<double>((steady_now() - start).count_ns()) / kFrames);
    }
    return {median(cycles), static_cast<double>(bytes_) * 8 / median(nanoseconds)};
  }

  /// Copies the record to the next place of the region, in order, from its start again at its end.
  void place(const std::uint8_t* frame) noexcept {
    if (kRegionBytes - at_ < bytes_) at_ = 0;
    std::memcpy(region_.get() + at_, frame, bytes_);
    at_ += bytes_;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::uint8_t* frame(std::size_t i) noexcept { return frames_.get() + i * kFrameStride + 128; }
  static double median(std::vector<double>& v) {
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    std::nth_element(v.begin(), middle, v.end());
    return *middle;
  }

  std::size_t bytes_;
  Pages frames_;
  Pages region_;
  std::size_t at_ = 0;
};

/// A record with its IV in front and its tag behind, as they lie in a packet.
ipsec::OpenJob open_job(std::uint8_t* frame, std::size_t bytes) noexcept {
  ipsec::OpenJob job;
  job.data = frame;
  job.size = bytes;
  job.tag = frame + bytes;
  job.iv = frame - ipsec::kAeadIvSize;
  job.aad.fill(7);
  job.aad_size = kAadBytes;
  job.authentic = false;
  return job;
}

void seal_frame(ipsec::Aead& aead, std::uint8_t* frame, std::size_t bytes,
                std::uint64_t sequence) noexcept {
  store_be<8>(frame - ipsec::kAeadIvSize, sequence);
  ipsec::SealJob job;
  job.out = frame;
  job.segment_count = 0;
  job.add_segment(frame, bytes);
  job.tag = frame + bytes;
  job.iv = frame - ipsec::kAeadIvSize;
  job.aad.fill(7);
  job.aad_size = kAadBytes;
  aead.seal({&job, 1});
}

StageCost measure_open_copy(Bench& bench, std::size_t key_bytes, std::size_t rounds) {
  const std::vector<std::uint8_t> key(key_bytes, 0x5a);
  const std::vector<std::uint8_t> salt(ipsec::kAeadSaltSize, 1);
  const auto aead = ipsec::make_aes_gcm(key, salt).value();
  std::vector<ipsec::OpenJob> jobs(kFrames);
  std::uint64_t sequence = 0;
  return bench.measure(
      rounds,
      [&](std::uint8_t* frame, std::size_t i) {
        seal_frame(*aead, frame, bench.bytes(), ++sequence);
        jobs[i] = open_job(frame, bench.bytes());
      },
      [&](std::uint8_t* frame, std::size_t i) {
        aead->open({&jobs[i], 1});
        H4A_ASSERT(jobs[i].authentic);
        bench.place(frame);
      });
}

nlohmann::json to_json(const StageCost& c) {
  return {{"cycles", c.cycles}, {"gbit_s", c.gbit_s}};
}

}  // namespace

CeilingResult measure_ceiling(std::size_t bytes, std::size_t rounds) {
  H4A_ASSERT(bytes >= 1 && bytes <= kCeilingBytesMax);
  H4A_ASSERT(rounds >= 1);
  Bench bench(bytes);
  const auto nothing = [](std::uint8_t*, std::size_t) {};
  CeilingResult r;
  r.bytes = bytes;
  r.open_copy_128 = measure_open_copy(bench, 16, rounds);
  r.open_copy_256 = measure_open_copy(bench, 32, rounds);
  std::uint32_t sum = 0;
  r.crc = bench.measure(rounds, nothing, [&](std::uint8_t* frame, std::size_t) {
    sum ^= net::crc32({frame, bytes});
    asm volatile("" : "+r"(sum));  // the compiler keeps every one of them
  });
  r.copy =
      bench.measure(rounds, nothing, [&](std::uint8_t* frame, std::size_t) { bench.place(frame); });
  return r;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string ceiling_table(const std::vector<CeilingResult>& rows) {
  std::string s = fmt::format("{:>6}  {:>18}  {:>18}  {:>18}  {:>18}\n", "bytes",
                              "AES-128-GCM + copy", "AES-256-GCM + copy", "CRC-32", "memcpy");
  s += fmt::format("{:>6}", "");
  for (int i = 0; i < 4; ++i) s += fmt::format("  {:>10} {:>7}", "cycles/pkt", "Gb/s");
  s += '\n';
  for (const CeilingResult& r : rows) {
    s += fmt::format("{:>6}", r.bytes);
    for (const StageCost& c : {r.open_copy_128, r.open_copy_256, r.crc, r.copy})
      s += fmt::format("  {:>10.0f} {:>7.1f}", c.cycles, c.gbit_s);
    s += '\n';
  }
  return s;
}

std::string ceiling_json(const std::vector<CeilingResult>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const CeilingResult& r : rows)
    list.push_back({{"bytes", r.bytes},
                    {"open_copy_aes_gcm_128", to_json(r.open_copy_128)},
                    {"open_copy_aes_gcm_256", to_json(r.open_copy_256)},
                    {"crc32", to_json(r.crc)},
                    {"memcpy", to_json(r.copy)}});
  const bool fast_crc = net::crc_backend() == net::CrcBackend::kIpsecMb;
  const nlohmann::json all = {{"cpu", cpu_name()},
                              {"aead", to_string(ipsec::best_aead_backend())},
                              {"crc", fast_crc ? "ipsec-mb" : "portable"},
                              {"region_bytes", kRegionBytes},
                              {"ceiling", list}};
  return all.dump();
}

void add_bench_ceiling_command(CLI::App& bench, CeilingArguments& a) {
  CLI::App* command = bench.add_subcommand(
      "ceiling",
      "What one core can do at most: AES-GCM in place and copy into 64 MiB, CRC, memcpy");
  command->add_option("--size", a.sizes, "Bytes of a record (default: 256 to 8192)")
      ->check(CLI::Range(std::size_t{1}, kCeilingBytesMax))
      ->type_name("N");
  command->add_flag("--json", a.json, "One JSON object instead of the table");
}

int run_bench_ceiling(const CeilingArguments& a) {
  std::vector<std::size_t> sizes = a.sizes;
  if (sizes.empty()) sizes.assign(std::begin(kCeilingSizes), std::end(kCeilingSizes));
  std::vector<CeilingResult> rows;
  for (const std::size_t bytes : sizes) rows.push_back(measure_ceiling(bytes));
  if (a.json) {
    fmt::print("{}\n", ceiling_json(rows));
    return 0;
  }
  fmt::print("{}, AES-GCM by {}\n\n{}", cpu_name(), to_string(ipsec::best_aead_backend()),
             ceiling_table(rows));
  return 0;
}

}  // namespace h4a::apps
