// StopSignal: SIGINT and SIGTERM as a flag that loops look at.
#pragma once

namespace h4a::apps {

/// From now on SIGINT and SIGTERM set the flag; a second one ends the process at once.
void catch_stop_signals();
[[nodiscard]] bool stop_requested() noexcept;

}  // namespace h4a::apps
