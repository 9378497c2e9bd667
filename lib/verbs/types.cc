#include "verbs/types.h"

namespace h4a::verbs {

std::string_view to_string(CompletionStatus s) noexcept {
  switch (s) {
    case CompletionStatus::kSuccess:
      return "success";
    case CompletionStatus::kLocalLength:
      return "local length error";
    case CompletionStatus::kLocalQpOperation:
      return "local QP operation error";
    case CompletionStatus::kLocalProtection:
      return "local protection error";
    case CompletionStatus::kFlushed:
      return "work request flushed";
    case CompletionStatus::kWindowBind:
      return "memory window bind error";
    case CompletionStatus::kBadResponse:
      return "bad response";
    case CompletionStatus::kLocalAccess:
      return "local access error";
    case CompletionStatus::kRemoteInvalidRequest:
      return "remote invalid request";
    case CompletionStatus::kRemoteAccess:
      return "remote access error";
    case CompletionStatus::kRemoteOperation:
      return "remote operation error";
    case CompletionStatus::kRetryExceeded:
      return "transport retries exceeded";
    case CompletionStatus::kRnrRetryExceeded:
      return "RNR retries exceeded";
  }
  return "unknown status";
}

}  // namespace h4a::verbs
