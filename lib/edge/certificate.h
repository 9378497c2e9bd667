// The certificate a server shows: which authorities it covers, and one made on the spot for trials.
// Spec: RFC 5280, RFC 6125 (names: subjectAltName alone, never the common name).
#pragma once

#include <cstdint>
#include <openssl/x509.h>
#include <string>
#include <string_view>
#include <vector>

#include "edge/outcome.h"

namespace h4a::edge {

class Certificate {
 public:
  /// Reads the first certificate of a PEM chain. @return kMalformed.
  [[nodiscard]] static Outcome<Certificate> from_pem(std::string_view pem);
  Certificate(Certificate&& o) noexcept;
  Certificate& operator=(Certificate&&) = delete;
  ~Certificate();

  /// Does it cover `host`: a DNS name (wildcards as in RFC 6125 §6.4.3) or an IP address, with or without
  /// brackets, without a port?
  [[nodiscard]] bool covers(std::string_view host) const;
  /// DNS names and addresses it lists, in order, wildcards left out; IPv6 in brackets, as in a URL.
  [[nodiscard]] std::vector<std::string> hosts() const;
  /// Base64 of the SHA-256 of the public key, as `curl --pinnedpubkey sha256//…` takes it.
  [[nodiscard]] std::string public_key_pin() const;

 private:
  explicit Certificate(X509* x) noexcept : x_(x) {}
  X509* x_;
};

struct PemPair {
  std::string certificate;
  std::string private_key;
};

/// A self-signed P-256 certificate for `hosts` (DNS names and addresses), valid from an hour ago for `days`
/// (negative: it has expired already). For trials: a client trusts it only by being given it.
/// @return kInvalidArgument if `hosts` is empty or one of them is neither a name nor an address.
[[nodiscard]] Outcome<PemPair> make_self_signed(const std::vector<std::string>& hosts,
                                                int days = 30);

/// The whole of a file of PEM text. @return kNotFound, kAccess, kIo, with a text that names `path`.
[[nodiscard]] Outcome<std::string> read_pem_file(const std::string& path);

/// Splits "host:port", "[::1]:port" or a host alone. The host keeps no brackets. Port 443 where absent.
struct HostPort {
  std::string host;
  std::uint16_t port = 443;
};
/// @return kMalformed unless it is an authority (h4a/bootstrap.h).
[[nodiscard]] Result<HostPort> split_authority(std::string_view authority);

}  // namespace h4a::edge
