// ScriptLine: one command of a verbs script, `verb key=value...`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace h4a::apps {

/// Borrows the text.
class ScriptLine {
 public:
  /// Words are parted by blanks; '#' begins a comment. An empty line has the verb "".
  explicit ScriptLine(std::string_view text);

  [[nodiscard]] std::string_view verb() const noexcept {
    return words_.empty() ? std::string_view{} : words_.front();
  }
  /// The word at `i`, the verb being word 0; "" if there are not so many.
  [[nodiscard]] std::string_view word(std::size_t i) const noexcept {
    return i < words_.size() ? words_[i] : std::string_view{};
  }
  [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key).has_value(); }
  [[nodiscard]] std::string_view text(std::string_view key,
                                      std::string_view otherwise) const noexcept {
    return find(key).value_or(otherwise);
  }
  /// A C literal, or `@OFFSET`: the 64-bit number (host order) that stands there in `memory`.
  /// `otherwise` if the key is not there, nothing if the value is no number or outside of `memory`.
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view key, std::uint64_t otherwise,
                                                    Bytes memory = {}) const;

 private:
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const noexcept;
  std::vector<std::string_view> words_;
};

}  // namespace h4a::apps
