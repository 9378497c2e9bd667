#include "apps/progress.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <unistd.h>

#include "apps/report.h"

namespace h4a::apps {
namespace {

constexpr Duration kInterval = Duration::ms(100);
constexpr std::size_t kBarWidth = 30;

}  // namespace

Progress::Progress(bool enabled) : enabled_(enabled && ::isatty(STDERR_FILENO) == 1) {}

void Progress::update(std::uint64_t done, std::uint64_t total, Instant now) {
  if (!enabled_) return;
  if (started_ == Instant{}) started_ = now;
  if (drawn_ && now - last_ < kInterval && done < total) return;
  last_ = now;
  drawn_ = true;
  const std::string rate = format_rate(done, (now - started_).seconds());
  if (total == 0) {
    fmt::print(stderr, "\r\x1b[K{}  {}", format_size(done), rate);
  } else {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto filled = static_cast<std::size_t>(share * kBarWidth);
    fmt::print(stderr, "\r\x1b[K[{}{}] {:3.0f} %  {} of {}  {}", std::string(filled, '#'),
               std::string(kBarWidth - filled, '.'), 100 * share, format_size(done),
               format_size(total), rate);
  }
  std::fflush(stderr);
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace h4a::apps
