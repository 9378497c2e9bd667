// EspOpener: opens the ESP packets of a capture with keys from a table, as the receiver would have.
//
// For each SA that a key fits (SPI and addresses), the first packet whose ICV is right tells whether it
// uses extended sequence numbers; from then on the high half is tracked through the replay window
// (RFC 4303 appendix A2). The ICV is verified before the window is asked, so that a forged packet is
// reported as forged even if its number was used before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "apps/replay_keys.h"
#include "base/address.h"
#include "base/bytes.h"
#include "base/drop.h"
#include "base/result.h"
#include "ipsec/aead.h"
#include "ipsec/replay_window.h"

namespace h4a::apps {

struct OpenedEsp {
  enum class Icv : std::uint8_t { kOk, kBad, kNoKey, kNoSuite, kNone };
  Icv icv = Icv::kNone;
  Drop drop = Drop::kNone;       // besides kBadIcv: replayed, bad trailer, …
  std::uint64_t sequence = 0;    // full, if the ICV is right
  bool esn = false;              // likewise
  std::string_view algorithm;    // of the key, if one fits
  std::uint8_t next_header = 0;  // if `drop` is kNone
  Bytes payload;                 // likewise: without pad and trailer; until the next call of open()
};

class EspOpener {
 public:
  static constexpr std::uint32_t kDefaultWindow = 16'384;
  /// Most SAs that are followed at once; packets of further ones are opened, but replays not seen.
  static constexpr std::size_t kStateMax = 4096;

  /// @return kUnsupported or kNoMemory if a cipher cannot be made.
  [[nodiscard]] static Result<EspOpener> create(std::vector<EspKey> keys);
  /// An opener without keys.
  EspOpener() = default;

  /// Opens one packet. @param esp from the ESP header to the end of the ICV.
  [[nodiscard]] OpenedEsp open(Bytes esp, const IpAddress& source, const IpAddress& destination);
  /// Forgets sequence numbers, not keys: before the next file.
  void reset() { states_.clear(); }

 private:
  struct Sa {
    EspKey key;
    std::unique_ptr<ipsec::Aead> aead;  // nullptr: a suite that is not built
  };
  /// What is known of one SA once a packet of it was authentic.
  struct State {
    bool esn;
    ipsec::ReplayWindow window;
  };
  using StateKey = std::tuple<std::size_t, std::uint32_t, IpAddress, IpAddress>;
  struct Candidate {
    bool esn;
    std::uint64_t sequence;
  };

  [[nodiscard]] static std::vector<Candidate> candidates(const EspKey& key, const State* state,
                                                         std::uint32_t low);
  [[nodiscard]] bool decrypt(Sa& sa, Bytes esp, const Candidate& candidate);
  [[nodiscard]] bool try_sa(std::size_t index, Bytes esp, const StateKey& id, OpenedEsp& out);
  [[nodiscard]] Drop judge_sequence(const EspKey& key, const StateKey& id, const OpenedEsp& opened);
  void read_trailer(OpenedEsp& out) const;

  std::vector<Sa> sas_;
  std::map<StateKey, State> states_;
  std::vector<std::uint8_t> text_;  // plaintext of the packet that was opened last
};

}  // namespace h4a::apps
