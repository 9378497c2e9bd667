// The states of a queue pair and what moves it between them, declared once as rows.
// Spec: IBA vol. 1 §10.3.1 (figure 124) and §11.2.5.2 (allowed transitions).
//
// SQE exists for UC and UD only. SQD is a state of the specification that no event of ours leads to:
// draining is not offered. It has rows so that it could be left.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "verbs/types.h"

namespace h4a::roce {

enum class QpEvent : std::uint8_t {
  kToInit,  // the calls of verbs::Device
  kToRtr,
  kToRts,
  kToError,
  kToReset,
  kFailure,      // the transport gave up: retries, a NAK, a protocol error, a full completion queue
  kSendFailure,  // UC and UD: a send work request completed in error
};
inline constexpr std::array kQpEvents = {QpEvent::kToInit,     QpEvent::kToRtr,   QpEvent::kToRts,
                                         QpEvent::kToError,    QpEvent::kToReset, QpEvent::kFailure,
                                         QpEvent::kSendFailure};
inline constexpr std::array kQpStates = {
    verbs::QpState::kReset, verbs::QpState::kInit, verbs::QpState::kRtr,  verbs::QpState::kRts,
    verbs::QpState::kSqd,   verbs::QpState::kSqe,  verbs::QpState::kError};

/// Where `event` leads from `from`; nothing if it is not allowed there.
[[nodiscard]] std::optional<verbs::QpState> next_state(verbs::QpState from, QpEvent event) noexcept;

/// Requests are taken in. Spec: IBA vol. 1 §10.3.1.
[[nodiscard]] constexpr bool receives_requests(verbs::QpState s) noexcept {
  using enum verbs::QpState;
  return s == kRtr || s == kRts || s == kSqd || s == kSqe;
}
/// Acknowledgements and responses are taken in, and requests are sent.
[[nodiscard]] constexpr bool sends_requests(verbs::QpState s) noexcept {
  return s == verbs::QpState::kRts;
}

[[nodiscard]] std::string_view to_string(verbs::QpState state) noexcept;
[[nodiscard]] std::string_view to_string(QpEvent event) noexcept;

}  // namespace h4a::roce
