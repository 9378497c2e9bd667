// TimerHeap: deadlines of many objects, earliest first. A binary heap of nodes that live inside the
// objects, so arming and firing allocate nothing.
//
// Transport timers are pushed back with every acknowledgement and seldom fire. Moving a deadline
// later therefore only notes it in the node; the heap is put right when the node comes to the top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/time.h"

namespace h4a {

/// The base of an object that has one timer. Not copied while armed.
class TimerNode {
 public:
  /// When it is due; Instant::never() if it is not armed.
  [[nodiscard]] Instant deadline() const noexcept { return deadline_; }

 private:
  friend class TimerHeap;
  static constexpr std::uint32_t kOutside = 0xffff'ffff;
  Instant deadline_ = Instant::never();
  Instant key_ = Instant::never();  // its place in the heap; never later than deadline_
  std::uint32_t position_ = kOutside;
};

class TimerHeap {
 public:
  /// Room for `capacity` nodes, taken here.
  explicit TimerHeap(std::size_t capacity) { heap_.reserve(capacity); }

  /// Sets the deadline, O(1) if it moves later.
  void arm(TimerNode& node, Instant deadline) noexcept {
    node.deadline_ = deadline;
    if (node.position_ == TimerNode::kOutside) {
      H4A_ASSERT(heap_.size() < heap_.capacity());
      node.position_ = static_cast<std::uint32_t>(heap_.size());
      node.key_ = deadline;
      heap_.push_back(&node);
      sift_up(node.position_);
    } else if (deadline < node.key_) {
      node.key_ = deadline;
      sift_up(node.position_);
    }
  }
  /// It will not fire. The node may stay in the heap: remove() it before it dies.
  void disarm(TimerNode& node) noexcept { node.deadline_ = Instant::never(); }
  void remove(TimerNode& node) noexcept {
    node.deadline_ = Instant::never();
    if (node.position_ != TimerNode::kOutside) take_out(node.position_);
  }

  /// The earliest deadline, Instant::never() if none.
  [[nodiscard]] Instant next() noexcept {
    settle_top();
    return heap_.empty() ? Instant::never() : heap_.front()->deadline_;
  }
  /// Takes out a node that is due at `now`; it is no longer armed. nullptr if there is none.
  [[nodiscard]] TimerNode* pop_due(Instant now) noexcept {
    settle_top();
    if (heap_.empty() || heap_.front()->deadline_ > now) return nullptr;
    TimerNode* node = heap_.front();
    remove(*node);
    return node;
  }

 private:
  void settle_top() noexcept {
    while (!heap_.empty()) {
      TimerNode& top = *heap_.front();
      if (top.deadline_.is_never()) {
        take_out(0);
      } else if (top.key_ < top.deadline_) {
        top.key_ = top.deadline_;
        sift_down(0);
      } else {
        return;
      }
    }
  }
  void take_out(std::uint32_t at) noexcept {
    heap_[at]->position_ = TimerNode::kOutside;
    TimerNode* last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    place(at, last);
    sift_down(at);
    sift_up(last->position_);
  }
  void place(std::size_t at, TimerNode* node) noexcept {
    heap_[at] = node;
    node->position_ = static_cast<std::uint32_t>(at);
  }
  void swap(std::size_t a, std::size_t b) noexcept {
    TimerNode* node = heap_[a];
    place(a, heap_[b]);
    place(b, node);
  }
  void sift_up(std::size_t at) noexcept {
    while (at > 0 && heap_[at]->key_ < heap_[(at - 1) / 2]->key_) {
      swap(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
  }
  void sift_down(std::size_t at) noexcept {
    for (;;) {
      std::size_t least = at;
      for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child)
        if (heap_[child]->key_ < heap_[least]->key_) least = child;
      if (least == at) return;
      swap(at, least);
      at = least;
    }
  }

  std::vector<TimerNode*> heap_;
};

}  // namespace h4a
