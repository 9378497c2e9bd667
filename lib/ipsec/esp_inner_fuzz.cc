// ESP sealed with a fixed key, so that mutation reaches the inner packet and the replay window. The input is a list
// of steps: an operation, a sequence number (4 bytes), a length, and that many bytes of text with trailer.
//
// Held against a model of its own: what the trailer says, and a set of the numbers accepted so far.
#include <cstddef>
#include <cstdint>
#include <set>

#include "base/assert.h"
#include "ipsec/esp_fixture.h"

namespace h4a::ipsec {
namespace {

enum class Operation : std::uint8_t { kCraft, kFlip, kSeal, kCount };

struct Step {
  Operation operation;
  std::uint64_t sequence;
  Bytes text;
};

/// @return false at the end of the input.
bool next_step(Bytes& input, Step& step) {
  if (input.size() < 6) return false;
  step.operation = static_cast<Operation>(input[0] % static_cast<int>(Operation::kCount));
  step.sequence = load_be32(&input[1]);
  const std::size_t n = std::min<std::size_t>(input[5], input.size() - 6);
  step.text = input.subspan(6, n);
  input = input.subspan(6 + n);
  return true;
}

/// What an authentic text deserves, written down once more.
Drop judge(Bytes text, bool v6) {
  const std::size_t pad = text[text.size() - 2];
  if (pad + 2 > text.size()) return Drop::kBadEspTrailer;
  for (std::size_t i = 1; i <= pad; ++i)
    if (text[text.size() - 2 - pad + i - 1] != i) return Drop::kBadEspTrailer;
  const std::uint8_t next = text.back();
  if (next == 59) return Drop::kEspDummy;
  return next == 17 || next == (v6 ? 58 : 1) ? Drop::kNone : Drop::kBadEspNextHeader;
}

class Run {
 public:
  explicit Run(const test::PairOptions& options) : pair_(options) {}

  void take(const Step& step) {
    switch (step.operation) {
      case Operation::kCraft:
        return craft(step);
      case Operation::kFlip:
        return flip(step);
      case Operation::kSeal:
      case Operation::kCount:
        return seal(step);
    }
  }

 private:
  void craft(const Step& step) {
    if (step.text.size() < 2) return;
    packet::Frame* f = pair_.crafted(step.text, step.sequence);
    const std::size_t size = f->size();
    const Drop drop = pair_.open(f);
    const bool reached_trailer = drop == Drop::kNone || drop == Drop::kBadEspTrailer ||
                                 drop == Drop::kEspDummy || drop == Drop::kBadEspNextHeader;
    if (reached_trailer) {
      H4A_ASSERT(step.sequence != 0);
      H4A_ASSERT(accepted_.insert(step.sequence).second);
      H4A_ASSERT(drop == judge(step.text, pair_.options.v6));
    } else {
      H4A_ASSERT(accepted_.contains(step.sequence) || step.sequence == 0 ||
                 step.sequence < pair_.inbound->window().top());
    }
    if (drop == Drop::kNone)
      expect_payload(*f, step.text);
    else
      H4A_ASSERT(f->size() == size);
    pair_.pool.release_one(f);
  }

  void expect_payload(const packet::Frame& f, Bytes text) const {
    const std::size_t n = text.size() - 2 - text[text.size() - 2];
    H4A_ASSERT(f.size() == f.transport_offset + n);
    H4A_ASSERT(std::equal(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n),
                          f.data() + f.transport_offset));
  }

  /// One bit of IV, ciphertext or ICV; the first two bytes of the text say which.
  void flip(const Step& step) {
    if (step.text.size() < 2 || step.sequence == 0) return;
    packet::Frame* f = pair_.crafted(step.text, step.sequence);
    const std::size_t begin = f->transport_offset + std::size_t{8};
    const std::size_t bit = load_be16(step.text.data()) % ((f->size() - begin) * 8);
    f->data()[begin + bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    const std::uint64_t top = pair_.inbound->window().top();
    const Drop drop = pair_.open(f);
    H4A_ASSERT(drop == Drop::kBadIcv || drop == Drop::kReplayed || drop == Drop::kReplayOld);
    H4A_ASSERT(pair_.inbound->window().top() == top);
    pair_.pool.release_one(f);
  }

  /// The text as a payload in two pieces, through seal_burst and back.
  void seal(const Step& step) {
    packet::Frame* f = pair_.clear({}, test::kUdp);
    const std::size_t cut = step.sequence % (step.text.size() + 1);
    f->add_piece(step.text.data(), cut);
    f->add_piece(step.text.data() + cut, step.text.size() - cut);
    const std::uint64_t sequence = pair_.outbound->next_sequence();
    H4A_ASSERT(seal_burst(*pair_.outbound, {&f, 1}) == 1);
    const Drop drop = pair_.open(pair_.arrive(f));
    if (drop == Drop::kNone) {
      H4A_ASSERT(accepted_.insert(sequence).second);
      H4A_ASSERT(f->size() == f->transport_offset + step.text.size());
      H4A_ASSERT(std::equal(step.text.begin(), step.text.end(), f->data() + f->transport_offset));
    } else {
      H4A_ASSERT(sequence <= pair_.inbound->window().top());
    }
    pair_.pool.release_one(f);
  }

  test::EspPair pair_;
  std::set<std::uint64_t> accepted_;
};

}  // namespace
}  // namespace h4a::ipsec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h4a::ipsec;
  for (const bool v6 : {false, true}) {
    h4a::Bytes input(data, size);
    Run run({.esn = v6, .v6 = v6, .window = v6 ? 32U : 64U, .frames = 2});
    Step step{};
    while (next_step(input, step)) run.take(step);
  }
  return 0;
}
