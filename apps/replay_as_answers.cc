#include "apps/replay_as_answers.h"

#include <algorithm>
#include <deque>

namespace h4a::apps {
namespace {

using net::AckKind;
using net::Header;
using net::Operation;
using net::TransportPacket;

bool is_refusal(const TransportPacket& p) noexcept {
  return p.row().operation == Operation::kAcknowledge &&
         (p.aeth().kind() == AckKind::kNakInvalidRequest ||
          p.aeth().kind() == AckKind::kNakRemoteOperation);
}

}  // namespace

// Each RNR NAK belongs to the oldest request of its PSN that has none yet.
HostAnswers::HostAnswers(const Conversation& c) {
  std::map<std::uint32_t, std::deque<std::size_t>> asked;  // requests of a PSN, without such a NAK
  for (std::size_t i = 0; i < c.packets.size(); ++i) {
    const TransportPacket p = c.packets[i]->packet();
    const std::uint32_t psn = p.bth().psn().value();
    if (p.row().is_request()) {
      if (!c.from_host(*c.packets[i])) asked[psn].push_back(i);
    } else if (c.from_host(*c.packets[i])) {
      answers_[psn].push_back(c.packets[i]);
      if (!p.row().has(Header::kAeth) || p.aeth().kind() != AckKind::kRnrNak) continue;
      std::deque<std::size_t>& waiting = asked[psn];
      if (waiting.empty()) continue;
      not_ready_.insert(waiting.front());
      waiting.pop_front();
    }
  }
}

bool HostAnswers::is_ready(Psn psn, std::size_t index) {
  if (not_ready_.contains(index)) {
    refused_ = psn;
  } else if (refused_ && psn.since(*refused_) <= 0) {
    refused_.reset();
  }
  return !refused_;
}

std::optional<std::uint64_t> HostAnswers::room_before_refusal(const PsnMap& requests,
                                                              Psn psn) const {
  std::uint64_t before = 0;
  for (;; ++psn) {
    const RecordedPacket* request = requests.find(psn);
    if (request == nullptr) return std::nullopt;
    const auto answers = answers_.find(psn.value());
    if (answers != answers_.end() &&
        std::any_of(answers->second.begin(), answers->second.end(),
                    [](const auto* a) { return is_refusal(a->packet()); }))
      return before;
    const TransportPacket packet = request->packet();
    before += packet.payload().size();
    if (packet.row().ends()) return std::nullopt;
  }
}

const RecordedPacket* HostAnswers::after(Psn psn, std::uint64_t frame, Operation operation) const {
  const auto it = answers_.find(psn.value());
  if (it == answers_.end()) return nullptr;
  const auto found = std::find_if(it->second.begin(), it->second.end(), [&](const auto* a) {
    return a->frame > frame && a->packet().row().operation == operation;
  });
  return found == it->second.end() ? nullptr : *found;
}

}  // namespace h4a::apps
