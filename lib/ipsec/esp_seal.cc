// Sealing a burst. Spec: RFC 4303 §3.3, RFC 4106 §3, §4.
//
// The frame holds IP header and transport header; the payload lies in application memory. The IP
// header moves 16 bytes to the front, ESP header and IV take its place, the trailer is written
// where it will be encrypted, and the cipher brings the payload in between. The explicit IV is the
// 64-bit sequence number, which never repeats under one key (RFC 4106 §3.1).
#include <array>
#include <cstring>

#include "ipsec/esp.h"
#include "ipsec/ip_header.h"
#include "ipsec/sieve.h"
#include "net/esp.h"

namespace h4a::ipsec {
namespace {

using packet::Frame;

constexpr std::size_t kInFront = kEspHeaderSize + kAeadIvSize;
constexpr std::size_t kIpPacketMax = 65535;

struct Sealing {
  Frame* frame;
  std::uint64_t sequence;
};

IpHeader ip_of(Frame& f) noexcept {
  return IpHeader(f.bytes().first(f.transport_offset));
}

std::size_t clear_size(const Frame& f) noexcept {
  return f.total_size() - f.transport_offset;
}

/// Bytes that the cipher sees: payload, pad and trailer.
std::size_t text_size(std::size_t clear_bytes) noexcept {
  return sealed_size(clear_bytes) - kInFront - kEspIcvSize;
}

bool fits(const Frame& f) noexcept {
  const std::size_t sealed = sealed_size(clear_size(f));
  const std::size_t behind_data = sealed - kInFront - (f.size() - f.transport_offset);
  return f.headroom() >= kInFront && f.tailroom() >= behind_data &&
         f.transport_offset + sealed <= kIpPacketMax;
}

/// The last refusals; a frame that passes has its number. Spec: RFC 4303 §3.3.3.
Drop admit(OutboundSa& sa, Sealing& s) noexcept {
  Frame& f = *s.frame;
  if (f.transport_offset > f.size() || ip_of(f).protocol() == nullptr) return Drop::kBadIpHeader;
  if (!fits(f)) return Drop::kOversize;
  const std::size_t text = text_size(clear_size(f));
  if (sa.sequence_exhausted()) return Drop::kSaExhausted;
  if (!sa.has_blocks_for(text)) return Drop::kSaExpired;
  s.sequence = sa.take(text);
  return Drop::kNone;
}

/// Pad to four bytes with 1, 2, 3. @return bytes written.
std::size_t write_trailer(std::uint8_t* p, std::size_t clear_bytes,
                          std::uint8_t protocol) noexcept {
  const std::size_t pad = text_size(clear_bytes) - kEspTrailerSize - clear_bytes;
  for (std::size_t i = 0; i < pad; ++i) p[i] = static_cast<std::uint8_t>(i + 1);
  p[pad] = static_cast<std::uint8_t>(pad);
  p[pad + 1] = protocol;
  return pad + kEspTrailerSize;
}

/// The tail goes where it will be encrypted, the trailer behind it. @return bytes of both.
std::size_t write_tail(std::uint8_t* p, Bytes tail, std::size_t clear_bytes,
                       std::uint8_t protocol) noexcept {
  if (!tail.empty()) std::memcpy(p, tail.data(), tail.size());
  return tail.size() + write_trailer(p + tail.size(), clear_bytes, protocol);
}

/// Moves the IP header 16 bytes to the front.
void open_gap(Frame& f) noexcept {
  const std::uint8_t* old = f.data();
  std::uint8_t* front = f.prepend(kInFront);
  std::memmove(front, old, f.transport_offset);
}

/// Additional data: SPI ‖ sequence, with ESN its 64 bits. Spec: RFC 4106 §5.
void fill_aad(SealJob& job, const OutboundSa& sa, std::uint64_t sequence) noexcept {
  store_be<4>(&job.aad[0], sa.spi().value());
  job.aad_size = sa.esn() ? 12 : 8;
  if (sa.esn())
    store_be<8>(&job.aad[4], sequence);
  else
    store_be<4>(&job.aad[4], sequence);
}

/// Makes the frame the ESP packet that it will be, ciphertext and ICV aside, which the job
/// describes.
void prepare(SealJob& job, const OutboundSa& sa, const Sealing& s) noexcept {
  Frame& f = *s.frame;
  const std::size_t clear = clear_size(f);
  const std::size_t header_part = f.size() - f.transport_offset;
  const std::uint8_t protocol = *ip_of(f).protocol();
  open_gap(f);
  std::uint8_t* const esp = f.data() + f.transport_offset;
  net::build(esp, {sa.spi(), static_cast<std::uint32_t>(s.sequence)});
  store_be<8>(esp + kEspHeaderSize, s.sequence);

  job.out = esp + kInFront;
  job.iv = esp + kEspHeaderSize;
  job.tag = job.out + text_size(clear);
  fill_aad(job, sa, s.sequence);
  std::uint8_t* const tail = job.out + header_part + f.pieces_size();
  job.segment_count = 0;
  job.add_segment(job.out, header_part);
  for (const Frame::Piece& piece : f.pieces()) job.add_segment(piece.data, piece.size);
  job.add_segment(tail, write_tail(tail, f.tail(), clear, protocol));

  f.clear_pieces();
  static_cast<void>(f.append(sealed_size(clear) - kInFront - header_part));
  ip_of(f).rewrite(net::IpProtocol::kEsp, sealed_size(clear));
}

}  // namespace

std::size_t seal_burst(OutboundSa& sa, std::span<Frame*> frames) noexcept {
  Sieve<Sealing> sieve(frames);
  std::array<SealJob, kBurstMax> jobs;
  sieve.pass([&](Sealing& s, std::size_t) { return admit(sa, s); });
  const std::span<const Sealing> admitted = sieve.good();
  for (std::size_t i = 0; i < admitted.size(); ++i) prepare(jobs[i], sa, admitted[i]);
  sa.aead().seal(std::span(jobs).first(admitted.size()));
  return sieve.finish(frames);
}

}  // namespace h4a::ipsec
