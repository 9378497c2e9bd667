// What icrc.cc asks of a CRC back end. Private to lib/net.
#pragma once

#include <cstdint>

namespace h4a::net {

using Crc32Function = std::uint32_t (*)(const void* bytes, std::uint64_t size);

/// The fastest implementation of intel-ipsec-mb for this CPU, nullptr if it has none.
[[nodiscard]] Crc32Function ipsec_mb_crc32() noexcept;

}  // namespace h4a::net
