#include "roce/qp_state.h"

namespace h4a::roce {
namespace {

using verbs::QpState;

struct Transition {
  QpEvent event;
  QpState from;
  QpState to;
};

constexpr auto kTransitions = [] {
  using enum QpEvent;
  using enum QpState;
  return std::to_array<Transition>({
      {kToInit, kReset, kInit},   {kToInit, kInit, kInit},    {kToRtr, kInit, kRtr},
      {kToRts, kRtr, kRts},       {kToRts, kSqd, kRts},       {kToRts, kSqe, kRts},
      {kToSqd, kRts, kSqd},       {kToError, kInit, kError},  {kToError, kRtr, kError},
      {kToError, kRts, kError},   {kToError, kSqd, kError},   {kToError, kSqe, kError},
      {kToError, kError, kError}, {kToReset, kReset, kReset}, {kToReset, kInit, kReset},
      {kToReset, kRtr, kReset},   {kToReset, kRts, kReset},   {kToReset, kSqd, kReset},
      {kToReset, kSqe, kReset},   {kToReset, kError, kReset}, {kFailure, kInit, kError},
      {kFailure, kRtr, kError},   {kFailure, kRts, kError},   {kFailure, kSqd, kError},
      {kFailure, kSqe, kError},   {kSendFailure, kRts, kSqe}, {kSendFailure, kSqd, kSqe},
  });
}();

}  // namespace

std::optional<QpState> next_state(QpState from, QpEvent event) noexcept {
  for (const Transition& t : kTransitions)
    if (t.event == event && t.from == from) return t.to;
  return std::nullopt;
}

std::string_view to_string(QpState state) noexcept {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kRtr:
      return "RTR";
    case QpState::kRts:
      return "RTS";
    case QpState::kSqd:
      return "SQD";
    case QpState::kSqe:
      return "SQE";
    case QpState::kError:
      return "ERROR";
  }
  return "?";
}

std::string_view to_string(QpEvent event) noexcept {
  switch (event) {
    case QpEvent::kToInit:
      return "to_init";
    case QpEvent::kToRtr:
      return "to_rtr";
    case QpEvent::kToRts:
      return "to_rts";
    case QpEvent::kToSqd:
      return "to_sqd";
    case QpEvent::kToError:
      return "to_error";
    case QpEvent::kToReset:
      return "to_reset";
    case QpEvent::kFailure:
      return "failure";
    case QpEvent::kSendFailure:
      return "sq_fail";
  }
  return "?";
}

}  // namespace h4a::roce
