// The rows of Wireshark's ESP SA table. Form: Wireshark User's Guide, "ESP SAs"; the quoting is that of
// its user-accessible tables: fields in double quotes, separated by commas, \x22 for a quote.
#include "apps/replay_keys.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>

namespace h4a::apps {
namespace {

constexpr std::string_view kTsharkOption = "uat:esp_sa:";

std::string_view trim(std::string_view s) noexcept {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!s.empty() && space(s.front())) s.remove_prefix(1);
  while (!s.empty() && space(s.back())) s.remove_suffix(1);
  return s;
}

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// Decimal, or hex with 0x. nullopt if it is neither or does not fit.
std::optional<std::uint32_t> parse_number(std::string_view s) noexcept {
  const bool hex = s.size() > 2 && s[0] == '0' && lower(s[1]) == 'x';
  if (hex) s.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, hex ? 16 : 10);
  if (error != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return value;
}

// ---- fields ----

/// Splits `"a","b",…`; fields may also stand without quotes. False if a quote is never closed.
bool split_row(std::string_view row, std::vector<std::string>& fields) {
  fields.clear();
  while (true) {
    row = trim(row);
    std::size_t end = 0;
    if (!row.empty() && row.front() == '"') {
      end = row.find('"', 1);
      if (end == std::string_view::npos) return false;
      fields.emplace_back(row.substr(1, end - 1));
      row.remove_prefix(end + 1);
      row = trim(row);
      if (!row.empty() && row.front() != ',') return false;
    } else {
      end = std::min(row.find(','), row.size());
      fields.emplace_back(trim(row.substr(0, end)));
      row.remove_prefix(end);
    }
    if (row.empty()) return true;
    row.remove_prefix(1);  // the comma
  }
}

bool parse_version(std::string_view text, int& version) {
  const std::string name = lower(trim(text));
  if (name == "ipv4") version = 4;
  if (name == "ipv6") version = 6;
  return version != 0 || name == "any" || name == "*";
}

/// Bytes of the ICV, 0 if the suite is none that is built. Wireshark's plain "AES-GCM [RFC4106]" takes
/// the size from the authentication column.
std::size_t icv_size_of(std::string_view algorithm, std::string_view authentication) {
  const std::string a = lower(algorithm);
  if (a.find("aes-gcm") == std::string::npos) return 0;
  if (a.find("8 octet") != std::string::npos) return 8;
  if (a.find("12 octet") != std::string::npos) return 12;
  const std::string b = lower(authentication);
  if (b.find("any 64") != std::string::npos) return 8;
  return b.find("any 96") != std::string::npos ? 12 : 16;
}

/// False if `text` does not fit a key, or begins with 0x and is no hex.
bool parse_key(std::string_view text, Secret<64>& key) {
  const bool hex = text.size() >= 2 && text[0] == '0' && lower(text[1]) == 'x';
  if (!hex) {
    if (text.size() > Secret<64>::kCapacity) return false;
    const auto out = key.resize(text.size());
    std::copy(text.begin(), text.end(), out.begin());
    return true;
  }
  text.remove_prefix(2);
  if (text.size() % 2 != 0 || text.size() / 2 > Secret<64>::kCapacity) return false;
  const auto out = key.resize(text.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

bool is_spi(std::string_view text) {
  return text.find('*') != std::string_view::npos || parse_number(text).has_value();
}

// ---- the comment ----

/// "# h4a: esn=1 hi=0 window=64". False if it says something else.
bool parse_statement(std::string_view text, EsnStatement& out) {
  out = {};
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const std::size_t end = std::min(text.find_first_of(" \t,"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == text.size() ? end : end + 1);
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return false;
    const auto value = parse_number(word.substr(equals + 1));
    if (!value) return false;
    const std::string_view name = word.substr(0, equals);
    if (name == "esn" && *value <= 1)
      out.esn = *value == 1;
    else if (name == "hi")
      out.high = *value;
    else if (name == "window")
      out.window = *value;
    else
      return false;
  }
  return true;
}

// ---- the table ----

class TableParser {
 public:
  tl::expected<std::vector<EspKey>, EspKeyFault> parse(std::string_view text) {
    while (!text.empty() && !fault_) {
      ++line_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      line(trim(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (fault_) return tl::unexpected(*fault_);
    if (statement_ && !statement_used_)
      for (EspKey& key : keys_)
        if (!key.stated.esn && !key.stated.window) key.stated = *statement_;
    return std::move(keys_);
  }

 private:
  void line(std::string_view text) {
    if (text.find(kTsharkOption) != std::string_view::npos) return quoted_rows(text);
    if (text.starts_with('#')) return comment(trim(text.substr(1)));
    const std::string start = lower(text.substr(0, 5));
    if (start.starts_with('"') || start.starts_with("ipv4,") || start.starts_with("ipv6,"))
      row(text);
  }

  void comment(std::string_view text) {
    if (!text.starts_with("h4a:")) return;
    EsnStatement statement;
    if (!parse_statement(text.substr(4), statement))
      return fail("cannot read the h4a comment: it is `# h4a: esn=0|1 hi=N window=N`");
    statement_ = statement;
    statement_used_ = false;
  }

  /// Rows inside a shell command end at the quote that began the option.
  void quoted_rows(std::string_view text) {
    std::size_t at = 0;
    while ((at = text.find(kTsharkOption, at)) != std::string_view::npos && !fault_) {
      const char quote =
          at > 0 && (text[at - 1] == '\'' || text[at - 1] == '"') ? text[at - 1] : ' ';
      at += kTsharkOption.size();
      const std::size_t end =
          quote == '\'' ? std::min(text.find('\'', at), text.size()) : text.size();
      row(text.substr(at, end - at));
      at = end;
    }
  }

  void row(std::string_view text) {
    std::vector<std::string> fields;
    if (!split_row(text, fields)) return fail("a quote is not closed");
    if (fields.size() < 6) return fail(fmt::format("{} fields where a row has 8", fields.size()));
    fields.resize(std::max<std::size_t>(fields.size(), 8));
    EspKey key;
    key.line = line_;
    if (!parse_version(fields[0], key.ip_version))
      return fail("the first field is not IPv4 or IPv6");
    key.source = lower(trim(fields[1]));
    key.destination = lower(trim(fields[2]));
    key.spi = lower(trim(fields[3]));
    if (!is_spi(key.spi)) return fail("the SPI is neither a number nor a pattern");
    key.algorithm = fields[4];
    if (!parse_key(trim(fields[5]), key.key))
      return fail("the key is not hex of a whole number of bytes");
    key.icv_size = icv_size_of(key.algorithm, fields[6]);
    if (key.icv_size != 0 && key.key.size() != 20 && key.key.size() != 28 && key.key.size() != 36)
      return fail("an AES-GCM key has 16, 24 or 32 bytes, and 4 bytes of salt behind it");
    if (statement_) key.stated = *statement_;
    statement_used_ = true;
    if (!key.stated.esn && fields.size() > 8) later_columns(fields, key.stated);
    keys_.push_back(std::move(key));
  }

  /// Newer versions of Wireshark have two more columns: "64-bit" for ESN, and its high half.
  static void later_columns(const std::vector<std::string>& fields, EsnStatement& stated) {
    if (fields[8].find("64") == std::string::npos) return;
    stated.esn = true;
    if (fields.size() > 9) stated.high = parse_number(trim(fields[9])).value_or(0);
  }

  void fail(std::string what) {
    if (!fault_) fault_ = EspKeyFault{line_, std::move(what)};
  }

  std::vector<EspKey> keys_;
  std::optional<EsnStatement> statement_;
  bool statement_used_ = false;
  std::size_t line_ = 0;
  std::optional<EspKeyFault> fault_;
};

// ---- matching ----

/// All eight groups, as Wireshark compares IPv6 addresses with patterns.
std::string expanded(const IpAddress& ip) {
  const auto& b = ip.bytes();
  std::string out;
  for (std::size_t i = 0; i < 16; i += 2)
    out += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", b[i], b[i + 1]);
  return out;
}

bool address_matches(const std::string& pattern, const IpAddress& ip) {
  if (pattern.empty() || pattern == "*" || pattern == "any") return true;
  if (pattern.find('*') != std::string::npos)
    return matches_pattern(pattern, to_string(ip)) ||
           (!ip.is_v4() && matches_pattern(pattern, expanded(ip)));
  if (pattern.find('/') != std::string::npos) {
    const auto network = IpInterface::parse(pattern);
    return network && network->address.same_prefix(ip, network->prefix_bits);
  }
  const auto address = IpAddress::parse(pattern);
  return address && *address == ip;
}

bool spi_matches(const std::string& pattern, std::uint32_t spi) {
  if (pattern.find('*') == std::string::npos) return parse_number(pattern) == spi;
  return matches_pattern(pattern, fmt::format("0x{:08x}", spi)) ||
         matches_pattern(pattern, fmt::format("0x{:x}", spi)) ||
         matches_pattern(pattern, fmt::format("{}", spi));
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) noexcept {
  constexpr auto kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;  // the last `*`, and how much text it stands for so far
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool EspKey::matches(std::uint32_t spi_value, const IpAddress& from, const IpAddress& to) const {
  if (ip_version != 0 && (ip_version == 4) != to.is_v4()) return false;
  return spi_matches(spi, spi_value) && address_matches(source, from) &&
         address_matches(destination, to);
}

tl::expected<std::vector<EspKey>, EspKeyFault> parse_esp_keys(std::string_view text) {
  return TableParser().parse(text);
}

}  // namespace h4a::apps
