// Names of the states and errors of a session, for messages.
#include "h4a/session.h"

namespace h4a::http {

std::string_view to_string(SessionState s) noexcept {
  switch (s) {
    case SessionState::kIdle:
      return "idle";
    case SessionState::kBound:
      return "bound";
    case SessionState::kConfirming:
      return "confirming";
    case SessionState::kOpen:
      return "open";
    case SessionState::kClosing:
      return "closing";
    case SessionState::kEnded:
      return "ended";
  }
  return "unknown state";
}

std::string_view to_string(SessionError e) noexcept {
  switch (e) {
    case SessionError::kNone:
      return "none";
    case SessionError::kClosed:
      return "closed";
    case SessionError::kPeerClosed:
      return "closed by the peer";
    case SessionError::kNotConfirmed:
      return "the protected path did not come up";
    case SessionError::kTransport:
      return "the transport failed";
    case SessionError::kMalformed:
      return "the peer sent a malformed frame";
    case SessionError::kProtocol:
      return "the peer broke the protocol";
    case SessionError::kPlacedShort:
      return "the peer claimed more body than it placed";
    case SessionError::kWrongWindow:
      return "the peer invalidated the window of another request";
    case SessionError::kUnresponsive:
      return "the peer does not answer";
    case SessionError::kIdle:
      return "idle for too long";
    case SessionError::kExpired:
      return "its lifetime is over or its keys are used up";
    case SessionError::kLocal:
      return "the local device refused a call";
  }
  return "unknown error";
}

}  // namespace h4a::http
