// Opening a burst. Spec: RFC 4303 §3.4, RFC 4106 §5.
//
// A packet behind the IP header:  SPI 4 | sequence 4 | IV 8 | payload, pad, pad length 1, next
// header 1 | ICV 16
#include <array>
#include <cstring>

#include "base/secret.h"
#include "ipsec/esp.h"
#include "ipsec/ip_header.h"
#include "ipsec/sieve.h"

namespace h4a::ipsec {
namespace {

using net::IpProtocol;
using packet::Frame;

constexpr std::size_t kInFront = kEspHeaderSize + kAeadIvSize;
constexpr std::size_t kSizeMin = kInFront + kEspTrailerSize + kEspIcvSize;

struct Opening {
  Frame* frame;
  InboundSa* sa;
  std::uint64_t sequence;

  [[nodiscard]] std::uint8_t* esp() const noexcept {
    return frame->data() + frame->transport_offset;
  }
  [[nodiscard]] std::uint8_t* text() const noexcept { return esp() + kInFront; }
  [[nodiscard]] std::size_t text_size() const noexcept {
    return frame->size() - frame->transport_offset - kInFront - kEspIcvSize;
  }
  // Of the plaintext's trailer, once there is one.
  [[nodiscard]] std::size_t pad_length() const noexcept { return text()[text_size() - 2]; }
  [[nodiscard]] IpProtocol next_header() const noexcept {
    return static_cast<IpProtocol>(text()[text_size() - 1]);
  }
  [[nodiscard]] IpHeader ip() const noexcept {
    return IpHeader({frame->data() + frame->l3_offset,
                     static_cast<std::size_t>(frame->transport_offset - frame->l3_offset)});
  }
};

/// Remembers the last answer, since bursts mostly come through one SA.
class SaFinder {
 public:
  explicit SaFinder(SaTable& table) noexcept : table_(table) {}
  InboundSa* find(Spi spi, const IpAddress& destination) noexcept {
    if (last_ == nullptr || last_->spi() != spi || last_->destination() != destination)
      last_ = table_.find(spi, destination);
    return last_;
  }

 private:
  SaTable& table_;
  InboundSa* last_ = nullptr;
};

/// Lengths first; short packets never reach the cipher.
Drop find_sa(Opening& o, SaFinder& finder) noexcept {
  const Frame& f = *o.frame;
  if (f.size() < f.transport_offset || f.size() - f.transport_offset < kSizeMin)
    return Drop::kTruncated;
  if (f.transport_offset <= f.l3_offset) return Drop::kBadIpHeader;
  const std::uint8_t* protocol = o.ip().protocol();
  if (protocol == nullptr || static_cast<IpProtocol>(*protocol) != IpProtocol::kEsp)
    return Drop::kBadIpHeader;
  const Spi spi(load_be32(o.esp()));
  if (spi.value() == 0) return Drop::kBadSpi;
  o.sa = finder.find(spi, f.destination);
  if (o.sa == nullptr) return Drop::kNoSa;
  o.frame->association = o.sa->association();
  return Drop::kNone;
}

Drop to_drop(ReplayVerdict verdict) noexcept {
  switch (verdict) {
    case ReplayVerdict::kNew:
      return Drop::kNone;
    case ReplayVerdict::kDuplicate:
      return Drop::kReplayed;
    case ReplayVerdict::kTooOld:
      return Drop::kReplayOld;
  }
  return Drop::kReplayOld;
}

/// Cheap refusals before the cipher runs. Number 0 is never sent: the first packet of an SA has 1,
/// and a counter may not cycle (RFC 4303 §3.3.3); with ESN that is the full 64-bit number.
Drop pre_check(Opening& o) noexcept {
  if (o.sa->exhausted()) return Drop::kSaExpired;
  o.sequence = o.sa->full_sequence(load_be32(o.esp() + 4));
  if (o.sequence == 0) return Drop::kBadSequence;
  return to_drop(o.sa->check(o.sequence));
}

/// Additional data: SPI ‖ sequence, with ESN its 64 bits. Spec: RFC 4106 §5.
void fill(OpenJob& job, const Opening& o) noexcept {
  job.data = o.text();
  job.size = o.text_size();
  job.tag = job.data + job.size;
  job.iv = o.esp() + kEspHeaderSize;
  std::memcpy(job.aad.data(), o.esp(), 4);
  job.aad_size = o.sa->esn() ? 12 : 8;
  if (o.sa->esn())
    store_be<8>(&job.aad[4], o.sequence);
  else
    store_be<4>(&job.aad[4], o.sequence);
}

/// Runs the cipher, one call for each stretch of frames of one SA.
void decrypt(std::span<const Opening> openings, std::span<OpenJob> jobs) noexcept {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < openings.size(); ++i) {
    fill(jobs[i], openings[i]);
    const bool last = i + 1 == openings.size() || openings[i + 1].sa != openings[i].sa;
    if (!last) continue;
    openings[i].sa->aead().open(jobs.subspan(begin, i + 1 - begin));
    begin = i + 1;
  }
}

/// A number left of the window is inferred to be of the next 2^32 (RFC 4303 appendix A2.1), which
/// no sender reaches in one leap: the packet is old, or its sender began anew. Otherwise the key is
/// wrong, or the packet forged.
Drop name_failure(const Opening& o) noexcept {
  const std::uint64_t top = o.sa->window().top();
  const bool leap = o.sequence > top && o.sequence - top > std::uint64_t{1} << 31;
  return o.sa->esn() && leap ? Drop::kReplayOld : Drop::kBadIcv;
}

/// Only here is a number taken: a duplicate within the burst passed pre_check and ends here.
Drop commit(const Opening& o, bool authentic) noexcept {
  if (!authentic) {
    o.sa->count_failed_icv();
    return name_failure(o);
  }
  return to_drop(o.sa->commit(o.sequence, o.text_size()));
}

/// Pad bytes count 1, 2, 3, … Spec: RFC 4303 §2.4 (the receiver SHOULD inspect them).
bool padding_is_right(const std::uint8_t* pad, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    if (pad[i] != i + 1) return false;
  return true;
}

bool carries(IpProtocol next_header, bool is_v4) noexcept {
  return next_header == IpProtocol::kUdp ||
         next_header == (is_v4 ? IpProtocol::kIcmp : IpProtocol::kIcmpv6);
}

Drop check_trailer(const Opening& o) noexcept {
  const std::size_t trailer = o.text_size() - kEspTrailerSize;  // where it begins
  const std::size_t pad = o.pad_length();
  if (pad > trailer) return Drop::kBadEspTrailer;
  if (!padding_is_right(o.text() + trailer - pad, pad)) return Drop::kBadEspTrailer;
  const IpProtocol next_header = o.next_header();
  if (next_header == IpProtocol::kNoNextHeader) return Drop::kEspDummy;  // Spec: RFC 4303 §2.6
  return carries(next_header, o.ip().is_v4()) ? Drop::kNone : Drop::kBadEspNextHeader;
}

/// Moves link and IP header over ESP header and IV, cuts the trailer, corrects the IP header.
void strip(const Opening& o) noexcept {
  Frame& f = *o.frame;
  const IpProtocol next_header = o.next_header();
  const std::size_t payload = o.text_size() - kEspTrailerSize - o.pad_length();
  std::memmove(f.data() + kInFront, f.data(), f.transport_offset);
  f.trim_front(kInFront);
  f.truncate(f.transport_offset + payload);
  o.ip().rewrite(next_header, payload);
}

/// Plaintext of a frame that goes no further does not stay in its buffer. Spec: RFC 4303 §3.4.4.1.
Drop wiped(Drop drop, const Opening& o) noexcept {
  if (drop != Drop::kNone) wipe(o.text(), o.text_size());
  return drop;
}

}  // namespace

std::size_t open_burst(SaTable& table, std::span<Frame*> frames) noexcept {
  Sieve<Opening> sieve(frames);
  SaFinder finder(table);
  std::array<OpenJob, kBurstMax> jobs;
  sieve.pass([&](Opening& o, std::size_t) { return find_sa(o, finder); });
  sieve.pass([](Opening& o, std::size_t) { return pre_check(o); });
  decrypt(sieve.good(), jobs);
  sieve.pass([&](Opening& o, std::size_t i) { return wiped(commit(o, jobs[i].authentic), o); });
  sieve.pass([](Opening& o, std::size_t) { return wiped(check_trailer(o), o); });
  for (const Opening& o : sieve.good()) strip(o);
  return sieve.finish(frames);
}

}  // namespace h4a::ipsec
