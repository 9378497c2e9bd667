// Result<T>: what a call returns that can fail for a local reason (bad argument, limit, the system).
//
// What a peer or the network causes is a Drop (base/drop.h), never an Error.
#pragma once

#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace h4a {

enum class Error : std::uint8_t {
  kTruncated,        // fewer bytes than the format needs
  kMalformed,        // the bytes contradict the format
  kBadVersion,       // a version this code does not speak
  kUnsupported,      // known, but not built or not agreed to
  kInvalidArgument,  // a parameter out of its documented range
  kInvalidState,     // right call, wrong moment (for example a QP not yet in RTS)
  kNotFound,         // no object under this handle, key or name
  kExists,           // the name or number is taken already
  kNoMemory,         // a pool, table or allocation is exhausted
  kFull,             // a queue has no room: try again after completions
  kAccess,           // permission or rights missing
  kBusy,             // the object is still in use
  kIo,               // the operating system refused; errno tells
  kTimeout,          // a deadline passed
  kClosed,           // the other side or the object is gone
  kAuthentication,   // a certificate, ICV or credential did not verify
  kExhausted,        // a sequence number or key limit is used up
};

[[nodiscard]] std::string_view to_string(Error e) noexcept;

template <class T>
using Result = tl::expected<T, Error>;

/// `return failure(Error::kX);` in a function that returns a Result.
[[nodiscard]] constexpr tl::unexpected<Error> failure(Error e) noexcept {
  return tl::unexpected<Error>(e);
}

}  // namespace h4a
