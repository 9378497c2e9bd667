// CRC-32 by slicing-by-8, its combination, and the masks of the ICRC. Spec: IBA vol. 1 §7.8, annex
// A17.
//
// A CRC is the remainder of a polynomial; in the reflected form used here bit 31 is the coefficient
// of x^0. Combining multiplies the first CRC by x^(8 * bytes that follow), modulo the polynomial.
#include "net/icrc.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/assert.h"
#include "net/icrc_backend.h"

namespace h4a::net {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb8'8320;  // 0x04c11db7 reflected

// ---- slicing-by-8 ----

using SlicingTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr SlicingTables make_slicing_tables() noexcept {
  SlicingTables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? kPolynomial : 0);
    t[0][i] = c;
  }
  for (std::size_t slice = 1; slice < 8; ++slice)
    for (std::size_t i = 0; i < 256; ++i)
      t[slice][i] = (t[slice - 1][i] >> 8) ^ t[0][t[slice - 1][i] & 0xff];
  return t;
}

constexpr SlicingTables kSlices = make_slicing_tables();
static_assert(kSlices[0][1] == 0x7707'3096);
static_assert(kSlices[0][255] == 0x2d02'ef8d);

/// `v` times x^32: four zero bytes fed into a CRC register that holds `v`.
constexpr std::uint32_t times_x32(std::uint32_t v) noexcept {
  return kSlices[3][v & 0xff] ^ kSlices[2][(v >> 8) & 0xff] ^ kSlices[1][(v >> 16) & 0xff] ^
         kSlices[0][v >> 24];
}

std::uint32_t portable_crc32(const void* bytes, std::uint64_t size) {
  const auto* p = static_cast<const std::uint8_t*>(bytes);
  std::uint32_t c = ~std::uint32_t{0};
  for (; size >= 8; p += 8, size -= 8) {
    const auto low = static_cast<std::uint32_t>(load_le<4>(p)) ^ c;
    const auto high = static_cast<std::uint32_t>(load_le<4>(p + 4));
    c = kSlices[7][low & 0xff] ^ kSlices[6][(low >> 8) & 0xff] ^ kSlices[5][(low >> 16) & 0xff] ^
        kSlices[4][low >> 24] ^ times_x32(high);
  }
  for (; size > 0; ++p, --size) c = (c >> 8) ^ kSlices[0][(c ^ *p) & 0xff];
  return ~c;
}

// ---- the choice of back end ----

std::atomic<Crc32Function> chosen{nullptr};

Crc32Function ipsec_mb_function() noexcept {
  static const Crc32Function function = ipsec_mb_crc32();
  return function;
}

Crc32Function current_function() noexcept {
  Crc32Function f = chosen.load(std::memory_order_relaxed);
  if (f != nullptr) [[likely]]
    return f;
  f = ipsec_mb_function() != nullptr ? ipsec_mb_function() : &portable_crc32;
  chosen.store(f, std::memory_order_relaxed);  // two threads at once store the same value
  return f;
}

// ---- multiplication modulo the polynomial ----

constexpr std::uint32_t multiply_portable(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (int i = 31; i >= 0; --i) {
    product ^= b & (0U - ((a >> i) & 1));
    b = (b >> 1) ^ (kPolynomial & (0U - (b & 1)));
  }
  return product;
}

#if defined(__x86_64__)
__attribute__((target("pclmul,sse4.1"))) std::uint32_t multiply_pclmul(std::uint32_t a,
                                                                       std::uint32_t b) noexcept {
  const __m128i wide = _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)),
                                            _mm_cvtsi32_si128(static_cast<int>(b)), 0);
  // Reflected factors leave the product one bit short; its low half holds x^32 and up.
  const auto product = static_cast<std::uint64_t>(_mm_cvtsi128_si64(wide)) << 1;
  return static_cast<std::uint32_t>(product >> 32) ^ times_x32(static_cast<std::uint32_t>(product));
}

std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  static const bool has_pclmul = __builtin_cpu_supports("pclmul") != 0;
  return has_pclmul ? multiply_pclmul(a, b) : multiply_portable(a, b);
}
#else
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  return multiply_portable(a, b);
}
#endif

constexpr std::uint32_t kOne = 0x8000'0000;  // x^0
constexpr std::uint32_t kX8 = 0x0080'0000;   // x^8: one byte

constexpr std::uint32_t power(std::uint32_t base, std::size_t exponent) noexcept {
  std::uint32_t result = kOne;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply_portable(result, base);
    base = multiply_portable(base, base);
  }
  return result;
}

/// base^0, base^1, ... base^127.
constexpr std::array<std::uint32_t, 128> make_powers(std::uint32_t base) noexcept {
  std::array<std::uint32_t, 128> t{};
  t[0] = kOne;
  for (std::size_t i = 1; i < t.size(); ++i) t[i] = multiply_portable(t[i - 1], base);
  return t;
}

constexpr auto kBytePowers = make_powers(kX8);               // x^(8 i)
constexpr auto kBlockPowers = make_powers(power(kX8, 128));  // x^(8 * 128 i)

std::uint32_t power_of_bytes(std::size_t n) noexcept {
  if (n >= 128 * 128) return power(kX8, n);
  return n < 128 ? kBytePowers[n] : multiply(kBytePowers[n & 127], kBlockPowers[n >> 7]);
}

// ---- the masks ----

constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kBthHeader = 12;
constexpr std::size_t kIpv4HeaderMax = 60;

bool is_ipv4(const std::uint8_t* ip) noexcept {
  return ip[0] >> 4 == 4;
}

void mask_ip(std::uint8_t* ip) noexcept {
  if (is_ipv4(ip)) {
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;  // TOS, TTL, checksum
  } else {
    ip[0] |= 0x0f;                         // traffic class and flow label
    ip[1] = ip[2] = ip[3] = ip[7] = 0xff;  // and hop limit
  }
}

void mask_udp_and_bth(std::uint8_t* udp) noexcept {
  udp[6] = udp[7] = 0xff;      // checksum
  udp[kUdpHeader + 4] = 0xff;  // FECN, BECN, Resv6
}

void require_headers(Bytes packet, std::size_t udp_offset) noexcept {
  H4A_ASSERT(!packet.empty());
  H4A_ASSERT(udp_offset >= (is_ipv4(packet.data()) ? kIpv4Header : kIpv6Header));
  H4A_ASSERT(packet.size() >= udp_offset);
  H4A_ASSERT(packet.size() - udp_offset >= kUdpHeader + kBthHeader);
}

std::uint32_t append(std::uint32_t crc, Bytes bytes) noexcept {
  return crc32_combine(crc, crc32(bytes), bytes.size());
}

/// CRC of eight ones and the masked headers up to the end of BTH.
std::uint32_t masked_headers_crc(Bytes packet, std::size_t udp_offset) noexcept {
  std::uint8_t copy[kIcrcHeadroom + kIpv4HeaderMax + kUdpHeader + kBthHeader];
  const std::size_t ip_size = std::min(udp_offset, kIpv4HeaderMax);
  std::memset(copy, 0xff, kIcrcHeadroom);
  std::memcpy(copy + kIcrcHeadroom, packet.data(), ip_size);
  mask_ip(copy + kIcrcHeadroom);
  std::uint8_t* udp = copy + kIcrcHeadroom + ip_size;
  std::memcpy(udp, packet.data() + udp_offset, kUdpHeader + kBthHeader);
  mask_udp_and_bth(udp);
  const Bytes udp_and_bth{udp, kUdpHeader + kBthHeader};
  if (ip_size == udp_offset) return crc32({copy, kIcrcHeadroom + ip_size + udp_and_bth.size()});
  // IPv6 extension headers behind the copy; they are invariant.
  const std::uint32_t ip_crc = crc32({copy, kIcrcHeadroom + ip_size});
  return append(append(ip_crc, packet.subspan(ip_size, udp_offset - ip_size)), udp_and_bth);
}

/// Variant bytes of the headers, kept while ones stand in their place.
class SavedHeaders {
 public:
  SavedHeaders(std::uint8_t* ip, std::uint8_t* udp) noexcept : ip_(ip), udp_(udp) {
    std::memcpy(front_, ip_ - kIcrcHeadroom, sizeof(front_));
    std::memcpy(udp_and_bth_, udp_, sizeof(udp_and_bth_));
    std::memset(ip_ - kIcrcHeadroom, 0xff, kIcrcHeadroom);
    mask_ip(ip_);
    mask_udp_and_bth(udp_);
  }
  SavedHeaders(const SavedHeaders&) = delete;
  SavedHeaders& operator=(const SavedHeaders&) = delete;
  ~SavedHeaders() {
    std::memcpy(ip_ - kIcrcHeadroom, front_, sizeof(front_));
    std::memcpy(udp_, udp_and_bth_, sizeof(udp_and_bth_));
  }

 private:
  std::uint8_t* ip_;
  std::uint8_t* udp_;
  std::uint8_t front_[kIcrcHeadroom + 12];  // and the IP header as far as it is masked
  std::uint8_t udp_and_bth_[kUdpHeader + 5];
};

}  // namespace

// ---- CRC-32 ----

bool crc_backend_available(CrcBackend backend) noexcept {
  return backend == CrcBackend::kPortable || ipsec_mb_function() != nullptr;
}

CrcBackend crc_backend() noexcept {
  return current_function() == &portable_crc32 ? CrcBackend::kPortable : CrcBackend::kIpsecMb;
}

bool force_crc_backend(CrcBackend backend) noexcept {
  if (!crc_backend_available(backend)) return false;
  chosen.store(backend == CrcBackend::kPortable ? &portable_crc32 : ipsec_mb_function(),
               std::memory_order_relaxed);
  return true;
}

std::uint32_t crc32(Bytes bytes) noexcept {
  return current_function()(bytes.data(), bytes.size());
}

std::uint32_t crc32_with(CrcBackend backend, Bytes bytes) noexcept {
  H4A_ASSERT(crc_backend_available(backend));
  const Crc32Function f = backend == CrcBackend::kPortable ? &portable_crc32 : ipsec_mb_function();
  return f(bytes.data(), bytes.size());
}

std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::size_t size_b) noexcept {
  return multiply(crc_a, power_of_bytes(size_b)) ^ crc_b;
}

// ---- ICRC ----

std::uint32_t icrc_in_place(MutableBytes packet, std::size_t udp_offset) noexcept {
  require_headers(packet, udp_offset);
  const SavedHeaders saved(packet.data(), packet.data() + udp_offset);
  return crc32({packet.data() - kIcrcHeadroom, packet.size() + kIcrcHeadroom});
}

std::uint32_t icrc(Bytes packet, std::size_t udp_offset) noexcept {
  IcrcBuilder builder(packet, udp_offset);
  return builder.value();
}

std::uint32_t icrc_rocev1(Bytes packet) noexcept {
  constexpr std::size_t kGrhAndBth = kIpv6Header + kBthHeader;
  H4A_ASSERT(packet.size() >= kGrhAndBth);
  std::uint8_t copy[kIcrcHeadroom + kGrhAndBth];
  std::memset(copy, 0xff, kIcrcHeadroom);
  std::memcpy(copy + kIcrcHeadroom, packet.data(), kGrhAndBth);
  std::uint8_t* grh = copy + kIcrcHeadroom;
  grh[0] |= 0x0f;
  grh[1] = grh[2] = grh[3] = grh[7] = 0xff;
  grh[kIpv6Header + 4] = 0xff;
  return append(crc32(copy), packet.subspan(kGrhAndBth));
}

IcrcBuilder::IcrcBuilder(Bytes headers, std::size_t udp_offset) noexcept {
  require_headers(headers, udp_offset);
  crc_ = masked_headers_crc(headers, udp_offset);
  add(headers.subspan(udp_offset + kUdpHeader + kBthHeader));
}

}  // namespace h4a::net
