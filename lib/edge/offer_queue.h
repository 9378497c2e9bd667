// Offers on their way from the HTTPS thread to the thread that owns the stack, and answers back.
//
// The HTTPS thread pushes an offer with a function to call when it is answered, and gets a ticket by which it
// can give up waiting. The stack's thread polls once a turn; with nothing waiting that is one relaxed load.
// A bounded queue: when it is full, the client is told 503 at once and uses HTTPS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "edge/half_open.h"

namespace h4a::edge {

/// Who offers, as far as TLS and HTTP tell.
struct AuthInfo {
  IpAddress source;
  std::uint16_t source_port = 0;
  std::string authority;                 // of the request: host or host:port, in lower case
  std::vector<std::string> authorities;  // that the session may carry, `authority` first
  std::string client_subject;            // of the verified client certificate; empty without mTLS
  std::string authorization;             // header value
  std::string cookie;                    // header value
  /// To be left when the first protected packet came or the session ended. May be null.
  std::shared_ptr<HalfOpenPlace> half_open;
};

struct OfferReply {
  unsigned status = 503;  // 200 with an Answer; else the status that docs/WIRE.md lists
  std::vector<std::uint8_t> answer;
};

/// What the session layer implements.
class OfferHandler {
 public:
  virtual ~OfferHandler() = default;
  /// Answers one Offer. Called in the stack's thread, from OfferQueue::poll(). `offer` are the octets of the
  /// body, unverified. The client's first protected packet has to come within 5 s.
  [[nodiscard]] virtual OfferReply answer(Bytes offer, const AuthInfo& from) = 0;
};

class OfferQueue {
 public:
  /// Called once, in the thread that polls or closes, unless the ticket was abandoned before.
  using Done = std::function<void(OfferReply&&)>;

  class Ticket {
   public:
    /// The caller waits no longer: the offer is skipped if nobody looked at it yet.
    void abandon() noexcept { taken_.store(true, std::memory_order_relaxed); }

   private:
    friend class OfferQueue;
    [[nodiscard]] bool take() noexcept { return !taken_.exchange(true, std::memory_order_relaxed); }
    std::atomic<bool> taken_{false};
  };

  explicit OfferQueue(std::size_t capacity = 64) noexcept : capacity_(capacity) {}
  ~OfferQueue() { close(); }
  OfferQueue(const OfferQueue&) = delete;
  OfferQueue& operator=(const OfferQueue&) = delete;

  /// Any thread. @return nullptr if the queue is full or closed: `done` is not called then.
  [[nodiscard]] std::shared_ptr<Ticket> push(std::vector<std::uint8_t> offer, AuthInfo from,
                                             Done done);

  /// The stack's thread, once a turn: lets `handler` answer up to `max` waiting offers.
  /// @return how many it answered.
  std::size_t poll(OfferHandler& handler, std::size_t max = 4);

  [[nodiscard]] std::size_t waiting() const noexcept {
    return waiting_.load(std::memory_order_relaxed);
  }

  /// Answers all that wait, and all later ones, with 503. For the end of the stack.
  void close();

 private:
  struct Entry {
    std::shared_ptr<Ticket> ticket;
    std::vector<std::uint8_t> offer;
    AuthInfo from;
    Done done;
  };
  [[nodiscard]] bool pop(Entry& out);

  std::size_t capacity_;
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  std::deque<Entry> entries_;
  bool closed_ = false;
};

}  // namespace h4a::edge
