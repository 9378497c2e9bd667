// Outcome<T>: a value, or a failure that a person reads. For control-plane code, whose callers end up in
// front of somebody: the text says what went wrong and what to do.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace h4a::edge {

struct Failure {
  Error code = Error::kIo;
  std::string text;  // one line, no full stop, for example "nothing listens on 10.0.0.1:443: is …"
};

template <class T>
using Outcome = tl::expected<T, Failure>;

[[nodiscard]] inline tl::unexpected<Failure> fail_with(Error code, std::string text) {
  return tl::unexpected<Failure>(Failure{code, std::move(text)});
}

}  // namespace h4a::edge
