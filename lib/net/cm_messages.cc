#include "net/cm_messages.h"

#include <algorithm>
#include <concepts>
#include <fmt/format.h>
#include <type_traits>

namespace h4a::net {
namespace {

// Numbers of any kind to and from 64 bits.
template <class T>
constexpr std::uint64_t to_bits(const T& v) noexcept {
  if constexpr (requires { v.value(); }) {
    return v.value();
  } else {
    return static_cast<std::uint64_t>(v);
  }
}
template <class T>
constexpr T from_bits(std::uint64_t v) noexcept {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(static_cast<std::underlying_type_t<T>>(v));
  } else if constexpr (std::is_same_v<T, bool>) {
    return v != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(v);
  } else {
    return T(static_cast<std::uint32_t>(v));
  }
}

struct Loader {
  const std::uint8_t* p;
  template <std::size_t kByte, unsigned kBit, unsigned kBits, class T>
  void operator()(const char*, BitField<kByte, kBit, kBits> field, T& out) const noexcept {
    static_assert(field.kEndBit <= kMadDataSize * 8);
    out = from_bits<T>(field.load(p));
  }
  template <std::size_t kByte, std::size_t kLength>
  void operator()(const char*, ByteField<kByte, kLength> field,
                  PrivateData<kLength>& out) const noexcept {
    static_assert(field.kEndBit <= kMadDataSize * 8);
    std::copy_n(p + kByte, kLength, out.begin());
  }
  template <std::size_t kByte>
  void operator()(const char*, ByteField<kByte, 16>, IpAddress& out) const noexcept {
    out = IpAddress::load_v6(p + kByte);
  }
};

struct Builder {
  std::uint8_t* p;
  template <std::size_t kByte, unsigned kBit, unsigned kBits, class T>
  void operator()(const char*, BitField<kByte, kBit, kBits> field, const T& v) const noexcept {
    field.store(p, to_bits(v));
  }
  template <std::size_t kByte, std::size_t kLength>
  void operator()(const char*, ByteField<kByte, kLength>,
                  const PrivateData<kLength>& v) const noexcept {
    std::copy(v.begin(), v.end(), p + kByte);
  }
  template <std::size_t kByte>
  void operator()(const char*, ByteField<kByte, 16>, const IpAddress& v) const noexcept {
    std::copy(v.bytes().begin(), v.bytes().end(), p + kByte);
  }
};

struct Printer {
  std::string& text;
  template <std::size_t kByte, unsigned kBit, unsigned kBits, class T>
  void operator()(const char* name, BitField<kByte, kBit, kBits>, const T& v) const {
    if (to_bits(v) != 0) text += fmt::format(" {}={:#x}", name, to_bits(v));
  }
  template <std::size_t kByte, std::size_t kLength>
  void operator()(const char* name, ByteField<kByte, kLength>,
                  const PrivateData<kLength>& v) const {
    const auto used = std::find_if(v.rbegin(), v.rend(), [](std::uint8_t b) { return b != 0; });
    if (used == v.rend()) return;
    text += fmt::format(" {}=", name);
    for (auto at = v.begin(); at != used.base(); ++at) text += fmt::format("{:02x}", *at);
  }
  template <std::size_t kByte>
  void operator()(const char* name, ByteField<kByte, 16>, const IpAddress& v) const {
    if (v != IpAddress{}) text += fmt::format(" {}={}", name, to_string(v));
  }
};

/// Loads the alternative whose attribute it is.
template <std::size_t kIndex = 0>
bool load_message(CmAttribute attribute, const std::uint8_t* data, CmMessage& out) noexcept {
  if constexpr (kIndex < std::variant_size_v<CmMessage>) {
    using Message = std::variant_alternative_t<kIndex, CmMessage>;
    if (Message::kAttribute != attribute) return load_message<kIndex + 1>(attribute, data, out);
    Loader loader{data};
    Message::fields(out.emplace<kIndex>(), loader);
    return true;
  } else {
    return false;
  }
}

constexpr const char* kAttributeNames[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                           "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};

constexpr std::string_view kReasonTexts[] = {
    "unknown reason",
    "no queue pair available",
    "no end-to-end context available",
    "no resources available",
    "timed out",
    "unsupported request",
    "invalid communication ID",
    "invalid communication instance",
    "nobody listens for this service",
    "invalid transport service type",
    "stale connection",
    "no reliable datagram channel",
    "address rejected",
    "LID rejected",
    "invalid service level",
    "invalid traffic class",
    "invalid hop limit",
    "invalid packet rate",
    "alternate address rejected",
    "alternate LID rejected",
    "invalid alternate service level",
    "invalid alternate traffic class",
    "invalid alternate hop limit",
    "invalid alternate packet rate",
    "redirected to another port and CM",
    "redirected to another port",
    "path MTU too large",
    "insufficient responder resources",
    "rejected by the application",
    "RNR retry count rejected",
    "duplicate communication ID",
    "unsupported CM version",
    "invalid flow label",
    "invalid alternate flow label",
    "unknown reason",
    "vendor option not supported",
};

constexpr std::uint8_t kIpCmVersion4 = 0x40;
constexpr std::uint8_t kIpCmVersion6 = 0x60;

}  // namespace

const char* name_of(CmAttribute attribute) noexcept {
  const auto i = static_cast<std::size_t>(attribute) - static_cast<std::size_t>(CmAttribute::kReq);
  return i < std::size(kAttributeNames) ? kAttributeNames[i] : nullptr;
}

std::string_view to_string(CmRejectReason reason) noexcept {
  const auto i = static_cast<std::size_t>(reason);
  return i < std::size(kReasonTexts) ? kReasonTexts[i] : kReasonTexts[0];
}

std::string_view to_string(CmSidrStatus status) noexcept {
  switch (status) {
    case CmSidrStatus::kOk:
      return "ok";
    case CmSidrStatus::kUnsupportedService:
      return "nobody listens for this service";
    case CmSidrStatus::kRejected:
      return "rejected by the application";
    case CmSidrStatus::kNoQp:
      return "no queue pair available";
    case CmSidrStatus::kRedirect:
      return "redirected";
    case CmSidrStatus::kUnsupportedVersion:
      return "unsupported CM version";
  }
  return "unknown status";
}

tl::expected<CmMad, Drop> parse_cm(Bytes mad) noexcept {
  if (mad.size() != kMadSize) return tl::unexpected(Drop::kBadMad);
  const MadHeader header = MadHeader::load(mad.data());
  if (header.base_version != kMadBaseVersion) return tl::unexpected(Drop::kBadMad);
  if (header.management_class != kMadClassCm) return tl::unexpected(Drop::kUnknownMadClass);
  if (header.class_version != kCmClassVersion || header.method != kMadMethodSend)
    return tl::unexpected(Drop::kBadMad);
  CmMad out;
  out.transaction_id = header.transaction_id;
  out.attribute_modifier = header.attribute_modifier;
  if (!load_message(CmAttribute{header.attribute_id}, mad.data() + MadHeader::kSize, out.message))
    return tl::unexpected(Drop::kUnknownCmAttribute);
  return out;
}

void build_cm(const CmMad& mad, MadBytes& out) noexcept {
  out.fill(0);
  std::visit(
      [&](const auto& message) {
        MadHeader header;
        header.transaction_id = mad.transaction_id;
        header.attribute_id = static_cast<std::uint16_t>(message.kAttribute);
        header.attribute_modifier = mad.attribute_modifier;
        header.build(out.data());
        Builder builder{out.data() + MadHeader::kSize};
        message.fields(message, builder);
      },
      mad.message);
}

std::string to_string(const CmMad& mad) {
  std::string text;
  std::visit(
      [&](const auto& message) {
        text = fmt::format("{} tid={:#x}", name_of(message.kAttribute), mad.transaction_id);
        Printer printer{text};
        message.fields(message, printer);
      },
      mad.message);
  return text;
}

// IPv4 addresses are not mapped here: the last four bytes of a field of zeros.
Result<IpCmHeader> IpCmHeader::load(const std::uint8_t* p) noexcept {
  if (p[0] >> 4 != 0) return failure(Error::kBadVersion);
  const std::uint8_t version = p[1] & 0xf0;
  IpCmHeader h;
  h.source_port = load_be16(p + 2);
  if (version == kIpCmVersion4) {
    h.source = IpAddress::load_v4(p + 16);
    h.destination = IpAddress::load_v4(p + 32);
  } else if (version == kIpCmVersion6) {
    h.source = IpAddress::load_v6(p + 4);
    h.destination = IpAddress::load_v6(p + 20);
  } else {
    return failure(Error::kMalformed);
  }
  return h;
}

void IpCmHeader::build(std::uint8_t* p) const noexcept {
  std::fill_n(p, kSize, std::uint8_t{0});
  const bool v4 = source.is_v4();
  p[1] = v4 ? kIpCmVersion4 : kIpCmVersion6;
  store_be<2>(p + 2, source_port);
  const auto put = [&](const IpAddress& ip, std::uint8_t* field) {
    const Bytes bytes = ip.wire_bytes();
    std::copy(bytes.begin(), bytes.end(), field + (16 - bytes.size()));
  };
  put(source, p + 4);
  put(destination, p + 20);
}

}  // namespace h4a::net
