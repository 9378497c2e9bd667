// The two halves of the bootstrap exchange: what each side has ready goes in, what the session is
// set up with comes out. Pure: no socket, no device, no clock; randomness is handed in.
//
//   client                                        server
//   ClientExchange::start(local) → offer()   ───►  ServerExchange::receive(body)
//   finish(body) → SessionParameters         ◄───  answer(local, authorities) → body,
//   SessionParameters
//
// Both sides then install the two SAs and move the QP to RTS; the first protected packet confirms.
// Spec: DESIGN §6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "h4a/bootstrap.h"
#include "h4a/key_schedule.h"

namespace h4a::bootstrap {

/// What this side has ready: made by the session layer out of its device, QP and options.
struct LocalParameters {
  std::vector<Candidate> candidates;  // best first, 1..kCandidatesMax
  IpAddress icrc_address;
  Spi inbound_spi;                // Device::allocate_spi()
  Qpn qpn;                        // Device::create_qp()
  Psn psn;                        // random: the first this side sends
  std::uint16_t path_mtu = 1024;  // Device::max_path_mtu(true, …) or less
  std::uint32_t receive_depth = 64;
  std::uint32_t receive_bytes = 16384;
  std::uint8_t read_depth = 16;
  std::uint64_t features = 0;
  std::uint32_t lifetime_s = 3600;
  std::vector<EspSuite> suites{EspSuite::kAesGcm256, EspSuite::kAesGcm128};  // best first
};

/// What both sides agreed on, seen from this side. Keys are those of epoch 0.
struct SessionParameters {
  std::vector<Candidate> peer_candidates;  // best first; the caller decides which it may use
  IpAddress local_icrc_address;            // of one family, both
  IpAddress peer_icrc_address;

  Qpn local_qpn;
  Qpn peer_qpn;
  Psn local_psn;                  // SQ PSN
  Psn peer_psn;                   // RQ PSN
  std::uint16_t path_mtu = 1024;  // the smaller of both
  std::uint32_t peer_receive_depth = 0;
  std::uint32_t peer_receive_bytes = 0;
  std::uint8_t peer_read_depth = 0;  // RDMA READs this side may have outstanding

  EspSuite suite = EspSuite::kAesGcm128;
  Spi inbound_spi;
  Spi outbound_spi;
  KeyMaterial inbound_key;  // key then salt, as verbs::SaOptions takes them
  KeyMaterial outbound_key;

  std::uint64_t features = 0;            // of both
  std::uint32_t lifetime_s = 0;          // the smaller of both
  std::vector<std::string> authorities;  // that the session may carry
};

class ClientExchange {
 public:
  /// @return kInvalidArgument if `local` breaks a range of Terms or names no suite; kNoMemory.
  [[nodiscard]] static Result<ClientExchange> start(const LocalParameters& local, Random& random);

  /// The body to POST. Valid as long as this object.
  [[nodiscard]] Bytes offer() const noexcept { return offer_; }

  /// Takes the body of the response; once, the private key is gone after it.
  /// @return what decode_answer() returns; kMalformed (a suite or feature that was not offered),
  /// kUnsupported (the sides' ICRC addresses are of two families), kAuthentication (the key
  /// exchange failed), kInvalidState (second call).
  [[nodiscard]] Result<SessionParameters> finish(Bytes answer);

 private:
  LocalParameters local_;
  PrivateKey private_key_;
  PublicKey public_key_{};
  std::vector<std::uint8_t> offer_;
};

struct Accepted {
  std::vector<std::uint8_t> answer;  // body of the 200 response
  SessionParameters session;
};

class ServerExchange {
 public:
  /// Reads an Offer. @return what decode_offer() returns.
  [[nodiscard]] static Result<ServerExchange> receive(Bytes offer);

  /// To choose a device, an address family or a limit by, before `answer`.
  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

  /// Each call makes another key. `authorities`: those the certificate covers, at least one.
  /// @return kInvalidArgument (`local` or `authorities` out of range), kUnsupported (no suite in
  /// common, or ICRC addresses of two families), kAuthentication (the key exchange failed),
  /// kNoMemory.
  [[nodiscard]] Result<Accepted> answer(const LocalParameters& local,
                                        const std::vector<std::string>& authorities,
                                        Random& random) const;

 private:
  Offer offer_;
  std::vector<std::uint8_t> body_;
};

}  // namespace h4a::bootstrap
