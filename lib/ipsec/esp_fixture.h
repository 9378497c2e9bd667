// A pair of SAs with a frame pool, and packets that go between them. For tests and fuzz targets.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "ipsec/esp.h"
#include "ipsec/ip_header.h"
#include "ipsec/test_bytes.h"
#include "packet/frame_pool.h"

namespace h4a::ipsec::test {

inline constexpr std::size_t kLinkBytes = 14;
inline constexpr std::uint32_t kSpi = 0x1234'5678;
inline constexpr AssociationId kAssociation{9};
inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::uint8_t kEsp = 50;

/// What a test changes about the pair.
struct PairOptions {
  EspSuite suite = EspSuite::kAesGcm128;
  bool esn = true;
  bool v6 = false;
  std::uint64_t first_sequence = 1;
  std::uint32_t window = 64;
  std::uint64_t hard_limit_blocks = std::uint64_t{1} << 35;
  AeadBackend backend = AeadBackend::kAuto;
  std::size_t frames = 256;
};

/// Sum of 16-bit words with end-around carry, of a header whose checksum is right: 0xffff.
inline std::uint32_t ones_sum(Bytes b) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < b.size(); i += 2) sum += load_be16(&b[i]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

/// An IPv4 header (with options if 24 bytes or more) or an IPv6 one, before `payload_bytes`.
inline ByteVector ip_header(bool v6, std::uint8_t protocol, std::size_t payload_bytes,
                            std::size_t v4_bytes = 20) {
  ByteVector h(v6 ? 40 : v4_bytes);
  if (v6) {
    h[0] = 0x60;
    store_be<2>(&h[4], payload_bytes);
    h[6] = protocol;
    h[7] = 64;
    h[8] = h[24] = 0xfd;
    h[23] = 2;
    h[39] = 1;
    return h;
  }
  h[0] = static_cast<std::uint8_t>(0x40 | v4_bytes / 4);
  store_be<2>(&h[2], v4_bytes + payload_bytes);
  h[6] = 0x40;  // DF
  h[8] = 64;
  h[9] = protocol;
  store_be<4>(&h[12], 0x0a00'0002);
  store_be<4>(&h[16], 0x0a00'0001);
  for (std::size_t i = 20; i < v4_bytes; ++i) h[i] = 1;  // no-operation options
  store_be<2>(&h[10], 0xffff - ones_sum(h));
  return h;
}

class EspPair {
 public:
  explicit EspPair(const PairOptions& o = {}) : options(o), table(8), pool(o.frames) {
    SaConfig in = config();
    inbound = table.add_inbound(std::move(in)).value();
    outbound = make_outbound(config()).value();
    const ByteVector secret = key();
    const std::size_t n = secret.size() - kAeadSaltSize;
    aead = make_aes_gcm(Bytes(secret).first(n), Bytes(secret).subspan(n)).value();
  }

  [[nodiscard]] ByteVector key() const {
    SeededRandom random(11);
    return random_bytes(random, key_material_size(options.suite));
  }
  [[nodiscard]] SaConfig config() const {
    SaConfig c;
    c.spi = Spi(kSpi);
    c.destination = destination();
    c.association = kAssociation;
    c.suite = options.suite;
    c.key = Secret<kEspKeyMaterialMax>(Bytes(key()));
    c.esn = options.esn;
    c.replay_window = options.window;
    c.first_sequence = options.first_sequence;
    c.hard_limit_blocks = options.hard_limit_blocks;
    c.soft_limit_blocks = std::min(c.soft_limit_blocks, c.hard_limit_blocks);
    c.backend = options.backend;
    return c;
  }
  [[nodiscard]] IpAddress destination() const {
    const ByteVector h = ip_header(options.v6, 0, 0);
    return options.v6 ? IpAddress::load_v6(&h[24]) : IpAddress::load_v4(&h[16]);
  }

  /// A frame as the stack hands it to seal_burst, all of its `payload` in the data.
  packet::Frame* clear(Bytes payload, std::uint8_t protocol = kUdp) {
    packet::Frame* f = pool.allocate_one();
    H4A_ASSERT(f != nullptr);
    const ByteVector ip = ip_header(options.v6, protocol, payload.size());
    std::copy(ip.begin(), ip.end(), f->append(ip.size()));
    if (!payload.empty()) std::memcpy(f->append(payload.size()), payload.data(), payload.size());
    f->transport_offset = static_cast<std::uint8_t>(ip.size());
    return f;
  }

  /// Seals one frame through `outbound`; it must succeed.
  packet::Frame* sealed(Bytes payload, std::uint8_t protocol = kUdp) {
    packet::Frame* f = clear(payload, protocol);
    H4A_ASSERT(seal_burst(*outbound, {&f, 1}) == 1);
    return f;
  }

  /// The same packet as it comes in: behind a link header, addresses taken from the IP header.
  packet::Frame* arrive(packet::Frame* f, std::size_t link_bytes = kLinkBytes) {
    std::uint8_t* p = f->prepend(link_bytes);
    for (std::size_t i = 0; i < link_bytes; ++i) p[i] = static_cast<std::uint8_t>(0xa0 + i);
    f->l3_offset = static_cast<std::uint8_t>(link_bytes);
    f->transport_offset = static_cast<std::uint8_t>(f->transport_offset + link_bytes);
    f->destination = destination();
    return f;
  }

  packet::Frame* received(Bytes payload, std::uint8_t protocol = kUdp) {
    return arrive(sealed(payload, protocol));
  }

  /// An arriving packet with this text (payload, pad, pad length, next header) and number, whatever
  /// they are: sealed by the cipher alone.
  packet::Frame* crafted(Bytes text, std::uint64_t sequence, std::uint32_t spi = kSpi) {
    ByteVector esp(16 + text.size() + 16);
    store_be<4>(&esp[0], spi);
    store_be<4>(&esp[4], sequence);
    store_be<8>(&esp[8], sequence);
    std::copy(text.begin(), text.end(), esp.begin() + 16);
    SealJob job{};
    job.out = &esp[16];
    job.add_segment(&esp[16], text.size());
    job.tag = esp.data() + 16 + text.size();
    job.iv = &esp[8];
    store_be<4>(&job.aad[0], spi);
    job.aad_size = options.esn ? 12 : 8;
    if (options.esn)
      store_be<8>(&job.aad[4], sequence);
    else
      store_be<4>(&job.aad[4], sequence);
    aead->seal({&job, 1});
    return arrive(clear(esp, kEsp));
  }

  /// Opens one frame. @return Drop::kNone if it was good.
  Drop open(packet::Frame* f) {
    f->drop = Drop::kNone;
    const std::size_t good = open_burst(table, {&f, 1});
    H4A_ASSERT((good == 1) == (f->drop == Drop::kNone));
    return f->drop;
  }

  /// A second frame with the same bytes and metadata.
  packet::Frame* copy(const packet::Frame* f) {
    packet::Frame* c = pool.allocate_one();
    H4A_ASSERT(c != nullptr);
    std::memcpy(c->append(f->size()), f->data(), f->size());
    c->l3_offset = f->l3_offset;
    c->transport_offset = f->transport_offset;
    c->destination = f->destination;
    return c;
  }

  PairOptions options;
  SaTable table;
  packet::HeapFramePool pool;
  InboundSa* inbound = nullptr;
  std::unique_ptr<OutboundSa> outbound;
  std::unique_ptr<Aead> aead;  // of the same key
};

/// Payload, then pad and trailer as a sender writes them.
inline ByteVector text_of(Bytes payload, std::uint8_t next_header = kUdp) {
  ByteVector text(payload.begin(), payload.end());
  const std::size_t pad = (4 - (payload.size() + 2) % 4) % 4;
  for (std::size_t i = 0; i < pad; ++i) text.push_back(static_cast<std::uint8_t>(i + 1));
  text.push_back(static_cast<std::uint8_t>(pad));
  text.push_back(next_header);
  return text;
}

}  // namespace h4a::ipsec::test
