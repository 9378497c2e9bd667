// How a row of the benchmark is run, in one process or as one of two.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "apps/bench_end.h"
#include "apps/bench_link.h"
#include "apps/bench_table.h"

namespace h4a::apps {

/// Posts the messages of a row and polls until all are done: options.iterations of them, or as many as
/// start within options.duration_s.
/// @param turn polls what else must be polled. @param error one line, if false.
[[nodiscard]] bool drive_row(BenchEnd& requester, std::size_t size, const BenchOptions& options,
                             const std::function<void(Instant)>& turn, BenchTiming& timing,
                             std::string& error);

/// Where a row's other end is.
class BenchTarget {
 public:
  virtual ~BenchTarget() = default;
  /// Empties or fills its memory, posts receives, starts its count.
  [[nodiscard]] virtual bool begin_row(std::size_t size, std::uint8_t seed) = 0;
  virtual void turn(Instant now) noexcept = 0;
  /// Its count, and whether what it received is intact.
  [[nodiscard]] virtual bool end_row(std::size_t size, std::uint8_t seed, BenchUsage& usage,
                                     bool& intact) = 0;
};

/// The target in this process.
class LocalTarget final : public BenchTarget {
 public:
  LocalTarget(BenchEnd& end, const BenchOptions& options) : end_(end), options_(options) {}
  [[nodiscard]] bool begin_row(std::size_t size, std::uint8_t seed) override;
  void turn(Instant now) noexcept override;
  [[nodiscard]] bool end_row(std::size_t size, std::uint8_t seed, BenchUsage& usage,
                             bool& intact) override;
  [[nodiscard]] const std::string& failure_text() const noexcept { return end_.failure_text(); }

 private:
  BenchEnd& end_;
  BenchOptions options_;
  std::size_t size_ = 0;
};

/// The target in the other process.
class RemoteTarget final : public BenchTarget {
 public:
  explicit RemoteTarget(BenchLink& link) : link_(link) {}
  [[nodiscard]] bool begin_row(std::size_t size, std::uint8_t seed) override;
  void turn(Instant) noexcept override {}
  [[nodiscard]] bool end_row(std::size_t size, std::uint8_t seed, BenchUsage& usage,
                             bool& intact) override;

 private:
  BenchLink& link_;
};

/// The figures of this core that rows are held against, measured once for each packet size.
class References {
 public:
  [[nodiscard]] const CeilingResult& ceiling_at(std::size_t bytes);
  [[nodiscard]] LoopCost loops_at(std::size_t bytes) { return loops_.at(bytes); }

 private:
  std::map<std::size_t, CeilingResult> ceilings_;
  BenchLoops loops_;
};

/// One row from begin to end, and the references at its packet size right after it.
[[nodiscard]] bool run_row(BenchEnd& requester, BenchTarget& target, References& references,
                           std::size_t size, const BenchOptions& options, BenchRow& row,
                           std::string& error);

/// As the target of another process: serves rows until it closes the link.
[[nodiscard]] bool serve_rows(BenchEnd& end, const BenchOptions& options, BenchLink& link,
                              std::string& error);

}  // namespace h4a::apps
