#include "base/result.h"

namespace h4a {

std::string_view to_string(Error e) noexcept {
  switch (e) {
    case Error::kTruncated:
      return "truncated";
    case Error::kMalformed:
      return "malformed";
    case Error::kBadVersion:
      return "bad version";
    case Error::kUnsupported:
      return "unsupported";
    case Error::kInvalidArgument:
      return "invalid argument";
    case Error::kInvalidState:
      return "invalid state";
    case Error::kNotFound:
      return "not found";
    case Error::kExists:
      return "exists already";
    case Error::kNoMemory:
      return "no memory";
    case Error::kFull:
      return "full";
    case Error::kAccess:
      return "access denied";
    case Error::kBusy:
      return "busy";
    case Error::kIo:
      return "input/output error";
    case Error::kTimeout:
      return "timed out";
    case Error::kClosed:
      return "closed";
    case Error::kAuthentication:
      return "authentication failed";
    case Error::kExhausted:
      return "exhausted";
  }
  return "unknown error";
}

}  // namespace h4a
