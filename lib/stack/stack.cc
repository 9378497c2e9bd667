#include "stack/stack.h"

#include <algorithm>

namespace h4a::stack {
Stack::Stack(packet::Port& port, const StackOptions& options, Random& random)
    : port_(port),
      mac_(port.mac()),
      addresses_(options.addresses),
      gateways_(options.gateways),
      random_(random),
      engine_(options.engine, random),
      associations_(options.association_max, options.sa_limits, random),
      neighbours_(options.neighbour_max),
      paths_(options.engine.qp_max + options.engine.ah_max) {
  path_of_qp_.reserve(options.engine.qp_max);
  events_.reserve(kEventMax);
}

Stack::~Stack() {
  port_.pool().release({queue_.data(), queue_count_});
  std::array<packet::Frame*, kBurstMax> waiting{};
  while (const std::size_t n = neighbours_.take_all(waiting))
    port_.pool().release({waiting.data(), n});
}

PollResult Stack::poll_once(Instant now) noexcept {
  PollResult result;
  result.received = receive_burst(now);

  CycleLap lap;
  engine_.run_timers(now);
  lap.add_to(cycles_.timers);

  result.sent = transmit_burst(now);
  result.next_deadline = std::min(engine_.next_deadline(), neighbours_.next_deadline());
  result.more = result.received == kBurstMax || queue_count_ > 0 || engine_.has_work();
  return result;
}

}  // namespace h4a::stack
