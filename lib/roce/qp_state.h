// The states of a queue pair and what moves it between them, declared once as rows.
// Spec: IBA vol. 1 §10.3.1 (figure 124) and §11.2.5.2 (allowed transitions).
//
// SQE exists for UC and UD only: no event of an RC queue pair leads to it.
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
  kToSqd,
  kToError,
  kToReset,
  kFailure,      // the transport gave up: retries, a NAK, a protocol error, a full completion queue
  kSendFailure,  // UC and UD: a send work request completed in error
};
inline constexpr std::array kQpEvents = {QpEvent::kToInit,  QpEvent::kToRtr,      QpEvent::kToRts,
                                         QpEvent::kToSqd,   QpEvent::kToError,    QpEvent::kToReset,
                                         QpEvent::kFailure, QpEvent::kSendFailure};
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
/// Acknowledgements and responses are taken in, and requests are sent; in SQD only those that were
/// begun before.
[[nodiscard]] constexpr bool sends_requests(verbs::QpState s) noexcept {
  return s == verbs::QpState::kRts || s == verbs::QpState::kSqd;
}

[[nodiscard]] std::string_view to_string(verbs::QpState state) noexcept;
[[nodiscard]] std::string_view to_string(QpEvent event) noexcept;

}  // namespace h4a::roce
