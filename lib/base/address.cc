#include "base/address.h"

#include <arpa/inet.h>
#include <charconv>
#include <fmt/format.h>

namespace h4a {
namespace {

constexpr std::size_t kTextMax = INET6_ADDRSTRLEN;

}  // namespace

Result<IpAddress> IpAddress::parse(std::string_view text) noexcept {
  std::array<char, kTextMax> z{};
  if (text.empty() || text.size() >= z.size()) return failure(Error::kMalformed);
  text.copy(z.data(), text.size());
  std::array<std::uint8_t, kSize> raw{};
  if (inet_pton(AF_INET, z.data(), raw.data()) == 1) return load_v4(raw.data());
  if (inet_pton(AF_INET6, z.data(), raw.data()) == 1) return load_v6(raw.data());
  return failure(Error::kMalformed);
}

bool IpAddress::same_prefix(const IpAddress& other, unsigned prefix_bits) const noexcept {
  if (is_v4() != other.is_v4()) return false;
  const Bytes a = wire_bytes();
  const Bytes b = other.wire_bytes();
  for (std::size_t i = 0; i < a.size() && prefix_bits > 0; ++i) {
    const unsigned bits = prefix_bits < 8 ? prefix_bits : 8;
    if (((a[i] ^ b[i]) & (0xff00U >> bits) & 0xffU) != 0) return false;
    prefix_bits -= bits;
  }
  return true;
}

Result<IpInterface> IpInterface::parse(std::string_view text) noexcept {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return failure(Error::kMalformed);
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return failure(Error::kMalformed);
  const std::string_view digits = text.substr(slash + 1);
  unsigned bits = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const unsigned most = address->is_v4() ? 32 : 128;
  if (ec != std::errc{} || end != digits.data() + digits.size() || digits.empty() || bits > most)
    return failure(Error::kMalformed);
  return IpInterface{*address, static_cast<std::uint8_t>(bits)};
}

Result<MacAddress> parse_mac(std::string_view text) noexcept {
  if (text.size() != 17) return failure(Error::kMalformed);
  std::array<std::uint8_t, MacAddress::kSize> raw{};
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const std::string_view octet = text.substr(3 * i, 2);
    if (i > 0 && text[3 * i - 1] != ':') return failure(Error::kMalformed);
    const auto [end, ec] = std::from_chars(octet.data(), octet.data() + 2, raw[i], 16);
    if (ec != std::errc{} || end != octet.data() + 2) return failure(Error::kMalformed);
  }
  return MacAddress(raw);
}

std::string to_string(const MacAddress& mac) {
  return fmt::format("{:02x}", fmt::join(mac.bytes(), ":"));
}

std::string to_string(const IpAddress& ip) {
  std::array<char, kTextMax> z{};
  const Bytes raw = ip.wire_bytes();
  inet_ntop(ip.is_v4() ? AF_INET : AF_INET6, raw.data(), z.data(), z.size());
  return z.data();
}

}  // namespace h4a
