// Header fields of a request or response (RFC 9110 §5): borrowed pairs of text, and a bounded list that
// owns copies.
//
// Memory is taken at construction; adding to a list never allocates, it fails when the list is full.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace h4a::http {

/// Most header fields of one message.
inline constexpr std::size_t kHeaderFieldsMax = 96;

struct HeaderField {
  std::string_view name;
  std::string_view value;
};
using HeaderFields = std::span<const HeaderField>;

/// True for a non-empty token, RFC 9110 §5.6.2.
[[nodiscard]] bool is_token(std::string_view text) noexcept;
/// True if `text` may be a field value: no CR, LF, NUL or other control but tab. RFC 9110 §5.5.
[[nodiscard]] bool is_field_value(std::string_view text) noexcept;
/// True for a path with query that has no blank or control character in it. RFC 9110 §7.1.
[[nodiscard]] bool is_request_target(std::string_view text) noexcept;
/// Compares ASCII without regard to case.
[[nodiscard]] bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;
/// The value of the first field of that name.
[[nodiscard]] std::optional<std::string_view> find_header(HeaderFields fields,
                                                          std::string_view name) noexcept;

/// Up to kHeaderFieldsMax fields whose text is kept here.
class HeaderList {
 public:
  /// @param text_bytes room for all names and values together.
  explicit HeaderList(std::size_t text_bytes = 4096);
  /// Copies the pair in. @return false, and changes nothing, if the list is full, `name` is no token or
  /// `value` no field value.
  [[nodiscard]] bool add(std::string_view name, std::string_view value) noexcept;
  void clear() noexcept { count_ = used_ = 0; }
  [[nodiscard]] HeaderFields fields() const noexcept { return {fields_.data(), count_}; }
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept {
    return find_header(fields(), name);
  }

 private:
  [[nodiscard]] std::string_view keep(std::string_view text) noexcept;

  std::unique_ptr<char[]> text_;
  std::size_t capacity_;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::array<HeaderField, kHeaderFieldsMax> fields_;
};

}  // namespace h4a::http
