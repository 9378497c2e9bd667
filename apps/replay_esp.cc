// Opening one ESP packet: key, form of the sequence number, ICV, window, trailer. Spec: RFC 4303 §3.4,
// RFC 4106 §5 (additional data: SPI ‖ sequence, 64 bits of it with ESN).
#include "apps/replay_esp.h"

#include <algorithm>
#include <utility>

#include "net/esp.h"
#include "net/ip_protocol.h"

namespace h4a::apps {
namespace {

constexpr std::size_t kIvEnd = net::EspView::kSize + ipsec::kAeadIvSize;
constexpr std::size_t kTrailer = 2;  // pad length, next header

std::uint64_t with_high(std::uint64_t high, std::uint32_t low) noexcept {
  return high << 32 | low;
}

std::uint32_t window_size(const EspKey& key) noexcept {
  return std::clamp(key.stated.window.value_or(EspOpener::kDefaultWindow),
                    ipsec::ReplayWindow::kSizeMin, ipsec::ReplayWindow::kSizeMax);
}

Drop to_drop(ipsec::ReplayVerdict verdict) noexcept {
  switch (verdict) {
    case ipsec::ReplayVerdict::kNew:
      return Drop::kNone;
    case ipsec::ReplayVerdict::kDuplicate:
      return Drop::kReplayed;
    case ipsec::ReplayVerdict::kTooOld:
      return Drop::kReplayOld;
  }
  return Drop::kNone;
}

}  // namespace

Result<EspOpener> EspOpener::create(std::vector<EspKey> keys) {
  EspOpener opener;
  for (EspKey& key : keys) {
    Sa sa{std::move(key), nullptr};
    if (sa.key.icv_size != 0) {
      const Bytes material = sa.key.key.bytes();
      const std::size_t key_size = material.size() - ipsec::kAeadSaltSize;
      auto aead = ipsec::make_aes_gcm(material.first(key_size), material.subspan(key_size),
                                      sa.key.icv_size);
      if (!aead) return failure(aead.error());
      sa.aead = std::move(*aead);
    }
    sa.key.key.clear();
    opener.sas_.push_back(std::move(sa));
  }
  return opener;
}

OpenedEsp EspOpener::open(Bytes esp, const IpAddress& source, const IpAddress& destination) {
  OpenedEsp out;
  const auto view = net::EspView::parse(esp);
  if (!view) {
    out.drop = Drop::kTruncated;
    return out;
  }
  const std::uint32_t spi = view->spi().value();
  out.sequence = view->sequence();
  if (spi == 0) {
    out.drop = Drop::kBadSpi;
    return out;
  }
  out.icv = OpenedEsp::Icv::kNoKey;
  for (std::size_t i = 0; i < sas_.size(); ++i) {
    if (!sas_[i].key.matches(spi, source, destination)) continue;
    if (try_sa(i, esp, {i, spi, source, destination}, out)) break;
  }
  return out;
}

/// @return true if the packet is this SA's: no other key needs to be tried.
bool EspOpener::try_sa(std::size_t index, Bytes esp, const StateKey& id, OpenedEsp& out) {
  Sa& sa = sas_[index];
  out.algorithm = sa.key.algorithm;
  if (sa.aead == nullptr) {
    if (out.icv == OpenedEsp::Icv::kNoKey) out.icv = OpenedEsp::Icv::kNoSuite;
    return false;
  }
  if (esp.size() < kIvEnd + kTrailer + sa.aead->tag_size()) {
    out.icv = OpenedEsp::Icv::kNone;
    out.drop = Drop::kTruncated;
    return true;
  }
  const auto known = states_.find(id);
  const State* state = known == states_.end() ? nullptr : &known->second;
  for (const Candidate& c : candidates(sa.key, state, load_be32(&esp[4]))) {
    if (!decrypt(sa, esp, c)) continue;
    out.icv = OpenedEsp::Icv::kOk;
    out.esn = c.esn;
    out.sequence = c.sequence;
    out.drop = judge_sequence(sa.key, id, out);
    if (out.drop == Drop::kNone) read_trailer(out);
    return true;
  }
  out.icv = OpenedEsp::Icv::kBad;
  out.drop = Drop::kBadIcv;
  return false;
}

// One form once an SA is known; before that, what the table states, then what is most likely.
std::vector<EspOpener::Candidate> EspOpener::candidates(const EspKey& key, const State* state,
                                                        std::uint32_t low) {
  if (state != nullptr && !state->esn) return {{false, low}};
  if (state != nullptr)
    return {{true, ipsec::infer_sequence(state->window.top(), state->window.size(), low)}};
  const Candidate plain{false, low};
  if (key.stated.esn == false) return {plain};
  std::vector<Candidate> all;
  if (key.stated.esn == true) {
    for (const std::uint64_t high : {key.stated.high + 0ULL, key.stated.high + 1ULL})
      all.push_back({true, with_high(high, low)});
  }
  all.push_back(plain);
  for (const std::uint64_t high : {0ULL, 1ULL}) all.push_back({true, with_high(high, low)});
  return all;
}

bool EspOpener::decrypt(Sa& sa, Bytes esp, const Candidate& candidate) {
  const std::size_t tag_at = esp.size() - sa.aead->tag_size();
  text_.assign(esp.begin() + kIvEnd, esp.begin() + static_cast<std::ptrdiff_t>(tag_at));
  ipsec::OpenJob job;
  job.data = text_.data();
  job.size = text_.size();
  job.tag = &esp[tag_at];
  job.iv = &esp[net::EspView::kSize];
  std::copy_n(esp.begin(), 4, job.aad.begin());
  if (candidate.esn) {
    store_be<8>(&job.aad[4], candidate.sequence);
    job.aad_size = 12;
  } else {
    store_be<4>(&job.aad[4], candidate.sequence);
    job.aad_size = 8;
  }
  job.authentic = false;
  sa.aead->open({&job, 1});
  return job.authentic;
}

Drop EspOpener::judge_sequence(const EspKey& key, const StateKey& id, const OpenedEsp& opened) {
  if (opened.sequence == 0) return Drop::kBadSequence;
  auto at = states_.find(id);
  if (at == states_.end()) {
    if (states_.size() >= kStateMax) return Drop::kNone;
    // Numbers before the first one that is seen were not captured: they count as not received.
    at = states_
             .emplace(id,
                      State{opened.esn, ipsec::ReplayWindow(window_size(key), opened.sequence - 1)})
             .first;
  }
  const Drop drop = to_drop(at->second.window.commit(opened.sequence));
  return key.stated.window == 0U ? Drop::kNone : drop;
}

// pad 1, 2, 3, … | pad length | next header. Spec: RFC 4303 §2.4.
void EspOpener::read_trailer(OpenedEsp& out) const {
  const std::size_t pad = text_[text_.size() - 2];
  const std::size_t end = text_.size() - kTrailer;
  out.drop = Drop::kBadEspTrailer;
  if (pad > end) return;
  for (std::size_t i = 0; i < pad; ++i)
    if (text_[end - pad + i] != i + 1) return;
  out.next_header = text_.back();
  const bool dummy = out.next_header == static_cast<std::uint8_t>(net::IpProtocol::kNoNextHeader);
  out.drop = dummy ? Drop::kEspDummy : Drop::kNone;
  out.payload = Bytes(text_).first(end - pad);
}

}  // namespace h4a::apps
