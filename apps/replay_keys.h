// ESP keys for `h4a replay`: Wireshark's ESP SA table, as its preferences file `esp_sa` and the option
// `-o uat:esp_sa:…` of tshark have it.
//
// A row: "IPv4","source","destination","SPI","AES-GCM with 16 octet ICV [RFC4106]","0xKEYSALT","NULL",""
// Addresses and SPI may be `*` or have `*` in them; addresses may have a prefix length; SPIs are hex with
// 0x or decimal. Keys are hex with 0x, or text.
//
// The table cannot say ESN. A comment line can:  # h4a: esn=1 hi=0 window=16384
// It holds for all rows after it, up to the next such comment; if no row follows, for the rows before
// it that had none. `hi` is the high half of the first packet's sequence number. Where nothing is
// stated, both forms are tried; where esn=1 is stated, that form is tried first; esn=0 is final.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/secret.h"

namespace h4a::apps {

/// What a comment line states.
struct EsnStatement {
  std::optional<bool> esn;
  std::uint32_t high = 0;
  std::optional<std::uint32_t> window;  // 0: no replay verdicts
};

/// `*` stands for any text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text) noexcept;

/// One row of the table.
struct EspKey {
  std::string source;        // patterns
  std::string destination;   //
  std::string spi;           //
  int ip_version = 0;        // 4, 6; 0: any
  std::string algorithm;     // as written
  std::size_t icv_size = 0;  // 0: the suite is not built
  Secret<64> key;            // with salt
  EsnStatement stated;
  std::size_t line = 0;

  [[nodiscard]] bool matches(std::uint32_t spi_value, const IpAddress& from,
                             const IpAddress& to) const;
};

struct EspKeyFault {
  std::size_t line = 0;
  std::string what;
};

/// Reads a table, or any text that quotes rows as tshark options (`uat:esp_sa:"IPv4",…'`); the other
/// lines of such a text are ignored. @return a fault for a row that cannot be understood.
[[nodiscard]] tl::expected<std::vector<EspKey>, EspKeyFault> parse_esp_keys(std::string_view text);

}  // namespace h4a::apps
