#include "apps/verbs_script_line.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace h4a::apps {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::optional<std::uint64_t> literal(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(copy.c_str(), &end, 0);
  if (copy.empty() || *end != '\0') return std::nullopt;
  return value;
}

}  // namespace

ScriptLine::ScriptLine(std::string_view text) {
  text = text.substr(0, text.find('#'));
  while (true) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    const std::size_t end = text.find_first_of(kBlanks);
    words_.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end);
  }
}

std::optional<std::string_view> ScriptLine::find(std::string_view key) const noexcept {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    const std::string_view w = words_[i];
    if (w.size() > key.size() && w.starts_with(key) && w[key.size()] == '=')
      return w.substr(key.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ScriptLine::number(std::string_view key, std::uint64_t otherwise,
                                                Bytes memory) const {
  const auto value = find(key);
  if (!value) return otherwise;
  if (!value->starts_with('@')) return literal(*value);
  const auto offset = literal(value->substr(1));
  std::uint64_t stored = 0;
  if (!offset || *offset > memory.size() || memory.size() - *offset < sizeof(stored))
    return std::nullopt;
  std::memcpy(&stored, memory.data() + *offset, sizeof(stored));
  return stored;
}

}  // namespace h4a::apps
