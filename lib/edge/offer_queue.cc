#include "edge/offer_queue.h"

#include <utility>

namespace h4a::edge {

std::shared_ptr<OfferQueue::Ticket> OfferQueue::push(std::vector<std::uint8_t> offer, AuthInfo from,
                                                     Done done) {
  auto ticket = std::make_shared<Ticket>();
  const std::lock_guard lock(mutex_);
  if (closed_ || entries_.size() >= capacity_) return nullptr;
  entries_.push_back({ticket, std::move(offer), std::move(from), std::move(done)});
  waiting_.store(entries_.size(), std::memory_order_relaxed);
  return ticket;
}

bool OfferQueue::pop(Entry& out) {
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) return false;
  out = std::move(entries_.front());
  entries_.pop_front();
  waiting_.store(entries_.size(), std::memory_order_relaxed);
  return true;
}

std::size_t OfferQueue::poll(OfferHandler& handler, std::size_t max) {
  std::size_t answered = 0;
  Entry entry;
  while (answered < max && waiting() > 0 && pop(entry)) {
    if (!entry.ticket->take()) continue;
    entry.done(handler.answer(entry.offer, entry.from));  // outside the lock
    ++answered;
  }
  return answered;
}

void OfferQueue::close() {
  std::deque<Entry> left;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    left.swap(entries_);
    waiting_.store(0, std::memory_order_relaxed);
  }
  for (Entry& entry : left)
    if (entry.ticket->take()) entry.done(OfferReply{});
}

}  // namespace h4a::edge
