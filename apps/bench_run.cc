#include "apps/bench_run.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "apps/bench_json.h"
#include "base/time.h"

namespace h4a::apps {
namespace {

constexpr Duration kStall = Duration::s(10);
constexpr Duration kSliceMax = Duration::ms(50);
/// Turns of the server's loop between two looks at the side channel.
constexpr unsigned kLinkTurns = 64;

/// Finds the best slice of a row.
class PeakMeter {
 public:
  PeakMeter(Instant begin, Duration slice) noexcept : begin_(begin), slice_(slice) {}
  void add(Instant now, double bytes) noexcept {
    bytes_ += bytes;
    if (now - begin_ < slice_) return;
    best_ = std::max(best_, bytes_ / (now - begin_).seconds());
    begin_ = now;
    bytes_ = 0;
  }
  /// @param average what counts if the row was shorter than a slice.
  [[nodiscard]] double best(double average) const noexcept { return std::max(best_, average); }

 private:
  Instant begin_;
  Duration slice_;
  double bytes_ = 0;
  double best_ = 0;
};

}  // namespace

bool drive_row(BenchEnd& requester, std::size_t size, const BenchOptions& options,
               const std::function<void(Instant)>& turn, BenchTiming& timing, std::string& error) {
  const bool timed = options.iterations == 0;
  const Duration duration = Duration::us(static_cast<std::int64_t>(options.duration_s * 1e6));
  std::uint64_t to_post = timed ? std::numeric_limits<std::uint64_t>::max() : options.iterations;
  const Instant begin = steady_now();
  Instant now = begin;
  Instant progress = begin;
  PeakMeter peak(begin, timed ? std::min(kSliceMax, duration / 20) : kSliceMax);
  timing = {};
  while (to_post > 0 || requester.in_flight() > 0) {
    if (timed && now - begin >= duration) to_post = 0;
    const std::uint64_t done = requester.request(size, to_post);
    requester.poll(now);
    turn(now);
    now = steady_now();
    timing.iterations += done;
    peak.add(now, static_cast<double>(done) * static_cast<double>(size));
    if (done > 0) progress = now;
    if (!requester.failure_text().empty() || now - progress > kStall) {
      error = requester.failure_text().empty()
                  ? "no message completed for 10 s: is the other end there, and does its port work?"
                  : fmt::format("a message failed: {}", requester.failure_text());
      return false;
    }
  }
  timing.seconds = std::max((now - begin).seconds(), 1e-9);
  timing.peak_bytes_per_second = peak.best(static_cast<double>(timing.iterations) *
                                           static_cast<double>(size) / timing.seconds);
  return true;
}

bool LocalTarget::begin_row(std::size_t size, std::uint8_t seed) {
  size_ = size;
  if (options_.operation == BenchOperation::kRead)
    end_.fill_source(seed);
  else
    end_.clear_region();
  turn(steady_now());
  end_.reset_usage();
  return true;
}

void LocalTarget::turn(Instant now) noexcept {
  end_.poll(now);
  if (options_.operation == BenchOperation::kSend) end_.refill_receives(size_);
}

bool LocalTarget::end_row(std::size_t size, std::uint8_t seed, BenchUsage& usage, bool& intact) {
  if (options_.operation == BenchOperation::kSend) end_.refill_receives(size_);
  usage = end_.usage();
  intact = options_.operation == BenchOperation::kRead || end_.region_holds(size, seed);
  return true;
}

bool RemoteTarget::begin_row(std::size_t size, std::uint8_t seed) {
  return link_.send(to_line(BenchCommand{size, seed})) && link_.receive().has_value();
}

bool RemoteTarget::end_row(std::size_t, std::uint8_t, BenchUsage& usage, bool& intact) {
  if (!link_.send(to_line(BenchCommand{}))) return false;
  const auto line = link_.receive();
  if (!line) return false;
  const auto report = parse_report(*line);
  if (!report) return false;
  usage = report->usage;
  intact = report->intact;
  return true;
}

const CeilingResult& References::ceiling_at(std::size_t bytes) {
  const auto known = ceilings_.find(bytes);
  if (known != ceilings_.end()) return known->second;
  return ceilings_[bytes] = measure_ceiling(bytes);
}

bool run_row(BenchEnd& requester, BenchTarget& target, References& references, std::size_t size,
             const BenchOptions& options, BenchRow& row, std::string& error) {
  const bool read = options.operation == BenchOperation::kRead;
  const auto seed = static_cast<std::uint8_t>(size + options.iterations % 251);
  if (read)
    requester.clear_region();
  else
    requester.fill_source(seed);
  const char* const gone = "the other end is gone";
  if (!target.begin_row(size, seed)) return (error = gone), false;
  requester.reset_usage();
  row.size = size;
  row.clear = options.clear;
  if (!drive_row(
          requester, size, options, [&](Instant now) { target.turn(now); }, row.timing, error))
    return false;
  const BenchUsage own = requester.usage();
  BenchUsage other;
  bool intact = false;
  if (!target.end_row(size, seed, other, intact)) return (error = gone), false;
  if (read) intact = requester.region_holds(size, seed);
  if (!intact) {
    error = fmt::format("messages of {} bytes arrived damaged", size);
    return false;
  }
  row.receiver = read ? own : other;
  row.retransmitted = own.retransmitted + other.retransmitted;
  row.drops = own.drops;
  row.drops += other.drops;
  row.payload = std::min<std::size_t>(size, requester.contact().path_mtu);
  row.ceiling = references.ceiling_at(row.payload);
  row.loops = references.loops_at(row.payload);
  return true;
}

bool serve_rows(BenchEnd& end, const BenchOptions& options, BenchLink& link, std::string& error) {
  LocalTarget target(end, options);
  BenchCommand row{1, 0};
  while (true) {
    for (unsigned i = 0; i < kLinkTurns; ++i) target.turn(steady_now());
    const std::optional<std::string> line = link.try_receive();
    if (!line) {
      if (link.closed()) return true;
      continue;
    }
    const auto command = parse_command(*line);
    bool answered = false;
    if (command && command->begins_row()) {
      row = *command;
      answered = target.begin_row(row.size, row.seed) && link.send("ready");
    } else if (command) {
      BenchReport report;
      answered = target.end_row(row.size, row.seed, report.usage, report.intact) &&
                 link.send(to_line(report));
    }
    if (!answered) {
      error = "the client sent something that is no part of a benchmark, or is gone";
      return false;
    }
  }
}

}  // namespace h4a::apps
