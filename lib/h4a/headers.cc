#include "h4a/headers.h"

#include <algorithm>
#include <cstring>

namespace h4a::http {
namespace {

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// RFC 9110 §5.6.2: tchar.
constexpr bool is_token_char(char c) noexcept {
  if ((c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

constexpr bool is_value_char(char c) noexcept {
  const auto u = static_cast<unsigned char>(c);
  return u == '\t' || (u >= 0x20 && u != 0x7f);
}

}  // namespace

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool is_field_value(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), is_value_char);
}

bool is_request_target(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && c != 0x7f;
  });
}

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> find_header(HeaderFields fields, std::string_view name) noexcept {
  for (const HeaderField& f : fields)
    if (equals_ignoring_case(f.name, name)) return f.value;
  return std::nullopt;
}

HeaderList::HeaderList(std::size_t text_bytes)
    : text_(std::make_unique<char[]>(text_bytes)), capacity_(text_bytes) {}

bool HeaderList::add(std::string_view name, std::string_view value) noexcept {
  if (count_ == kHeaderFieldsMax || !is_token(name) || !is_field_value(value)) return false;
  if (name.size() > capacity_ - used_ || value.size() > capacity_ - used_ - name.size())
    return false;
  const std::string_view kept_name = keep(name);
  fields_[count_++] = HeaderField{kept_name, keep(value)};
  return true;
}

std::string_view HeaderList::keep(std::string_view text) noexcept {
  char* const at = text_.get() + used_;
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  used_ += text.size();
  return {at, text.size()};
}

}  // namespace h4a::http
