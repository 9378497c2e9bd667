// The sending side of a session: slots, credit, posting. See session.h.
#include <algorithm>

#include "h4a/session.h"

namespace h4a::http {

verbs::SendWr Session::work_request(verbs::WrOpcode opcode) noexcept {
  verbs::SendWr wr;
  wr.opcode = opcode;
  return wr;
}

// ---- memory: slots of control frames come first in their region, then those of messages ----

MutableBytes Session::receive_slot(std::uint32_t receive) noexcept {
  const std::size_t size = options_.recv_bytes;
  return receives_.bytes().subspan(receive * size, size);
}

MutableBytes Session::control_slot(std::uint32_t slot) noexcept {
  const std::size_t size = options_.recv_bytes;
  return slots_.bytes().subspan(slot * size, std::min(size, message_max_));
}

MutableBytes Session::message_slot(std::uint32_t slot) noexcept {
  return control_slot(kControlSlots + slot);
}

Result<std::size_t> Session::encode(const FrameBody& body, MutableBytes out) noexcept {
  return encoder_.encode(Frame{allowed_by_us_, body}, out);
}

std::optional<Frame> Session::held_frame(std::uint32_t receive) noexcept {
  const auto frame = decode_frame(receive_slot(receive).first(received_bytes_[receive]), scratch_);
  return frame ? std::optional<Frame>(*frame) : std::nullopt;
}

// ---- credit ----

// The total only grows, and never allows more than the receives the peer said it has.
bool Session::take_credit(std::uint64_t credit) noexcept {
  if (credit == 0) return true;
  if (credit > sent_ + std::max<std::uint64_t>(peer_.recv_depth, 1)) return false;
  allowed_by_peer_ = std::max(allowed_by_peer_, credit);
  return true;
}

// A Credit frame goes alone when nothing else carried the total for half the receives.
void Session::return_credit() noexcept {
  if (ending() || state_ < SessionState::kConfirming) return;
  if (allowed_by_us_ - told_ < options_.recv_depth / 2) return;
  const auto slot = take_control_slot();
  if (!slot) return;
  const auto bytes = encode(CreditFrame{}, control_slot(*slot));
  control_[*slot].bytes = static_cast<std::uint32_t>(bytes.value_or(0));
  if (!bytes || !post_control(*slot, true)) control_[*slot].use = ControlSlot::Use::kFree;
}

// ---- control frames ----

std::optional<std::uint32_t> Session::take_control_slot() noexcept {
  for (std::uint32_t i = 0; i < kControlSlots; ++i) {
    if (control_[i].use != ControlSlot::Use::kFree) continue;
    control_[i].use = ControlSlot::Use::kWaiting;
    return i;
  }
  return std::nullopt;
}

bool Session::control_idle() const noexcept {
  return std::none_of(control_.begin(), control_.end(), [](const ControlSlot& slot) {
    return slot.use == ControlSlot::Use::kPosted;
  });
}

bool Session::send_control(const FrameBody& body) noexcept {
  if (ending()) return false;
  const auto slot = take_control_slot();
  if (!slot) return false;
  const auto bytes = encode(body, control_slot(*slot));
  if (!bytes) {
    control_[*slot].use = ControlSlot::Use::kFree;
    return false;
  }
  control_[*slot].bytes = static_cast<std::uint32_t>(*bytes);
  waiting_[(waiting_head_ + waiting_count_++) % kControlSlots] = *slot;
  send_waiting();
  return true;
}

void Session::send_waiting() noexcept {
  while (waiting_count_ > 0 && !ending()) {
    if (!post_control(waiting_[waiting_head_], false)) {
      ++counters_.credit_stalls;
      return;
    }
    waiting_head_ = (waiting_head_ + 1) % kControlSlots;
    --waiting_count_;
  }
}

bool Session::post_control(std::uint32_t slot, bool last_credit) noexcept {
  const MutableBytes message = control_slot(slot).first(control_[slot].bytes);
  verbs::SendWr wr = work_request(verbs::WrOpcode::kSend);
  wr.wr_id = std::uint64_t{static_cast<std::uint8_t>(Work::kControl)} << 32 | slot;
  if (!post_batch({&wr, 1}, message, last_credit)) return false;
  control_[slot].use = ControlSlot::Use::kPosted;
  return true;
}

// ---- posting ----

// Posts a batch whose last work request is the SEND of `message`.
bool Session::post_batch(std::span<verbs::SendWr> wrs, MutableBytes message,
                         bool last_credit) noexcept {
  const std::uint64_t kept = last_credit ? 0 : 1;
  if (!qpn_ || end_wanted_ || allowed_by_peer_ <= sent_ + kept) return false;
  if (wrs.size() > work_limit_ - work_used_) return false;
  patch_credit(message, allowed_by_us_);
  verbs::SendWr& send = wrs.back();
  send.sge_count = 1;
  send.sges[0] = {reinterpret_cast<std::uintptr_t>(message.data()),
                  static_cast<std::uint32_t>(message.size()), slots_.lkey()};
  if (const auto posted = device_.post_send(*qpn_, wrs); !posted) {
    local_error_ = posted.error();
    want_end(SessionError::kLocal);
    return false;
  }
  work_used_ += static_cast<std::uint32_t>(wrs.size());
  told_ = allowed_by_us_;
  ++sent_;
  ++counters_.frames_sent;
  return true;
}

bool Session::post_message(std::uint32_t slot, std::size_t bytes, const Rkey* invalidate,
                           const verbs::SendWr* before) noexcept {
  if (ending()) return false;
  std::array<verbs::SendWr, 2> wrs;
  std::size_t n = 0;
  if (before != nullptr) {
    wrs[n] = *before;
    wrs[n++].wr_id = std::uint64_t{static_cast<std::uint8_t>(Work::kBind)} << 32 | slot;
  }
  wrs[n] = work_request(invalidate == nullptr ? verbs::WrOpcode::kSend
                                              : verbs::WrOpcode::kSendWithInvalidate);
  if (invalidate != nullptr) wrs[n].invalidate_rkey = *invalidate;
  wrs[n++].wr_id = std::uint64_t{static_cast<std::uint8_t>(Work::kMessage)} << 32 | slot;
  if (post_batch(std::span(wrs).first(n), message_slot(slot).first(bytes), false)) return true;
  ++counters_.credit_stalls;
  return false;
}

bool Session::post_work(verbs::SendWr wr, Work work, std::uint32_t index) noexcept {
  if (!qpn_ || ending() || work_used_ == work_limit_) return false;
  wr.wr_id = std::uint64_t{static_cast<std::uint8_t>(work)} << 32 | index;
  if (const auto posted = device_.post_send(*qpn_, {&wr, 1}); !posted) {
    fail_local(posted.error());
    return false;
  }
  ++work_used_;
  return true;
}

}  // namespace h4a::http
