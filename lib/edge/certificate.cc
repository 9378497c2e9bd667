#include "edge/certificate.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <sstream>
#include <utility>

#include "base/address.h"
#include "h4a/bootstrap.h"

namespace h4a::edge {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const noexcept {
    Free(p);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

std::string_view without_brackets(std::string_view host) noexcept {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    return host.substr(1, host.size() - 2);
  return host;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(n)};
}

std::string host_of(const ASN1_OCTET_STRING* ip) {
  const auto* p = ASN1_STRING_get0_data(ip);
  switch (ASN1_STRING_length(ip)) {
    case 4:
      return to_string(IpAddress::load_v4(p));
    case 16:
      return fmt::format("[{}]", to_string(IpAddress::load_v6(p)));
    default:
      return {};
  }
}

std::string host_of(const GENERAL_NAME* name) {
  if (name->type == GEN_IPADD) return host_of(name->d.iPAddress);
  if (name->type != GEN_DNS) return {};
  const ASN1_IA5STRING* s = name->d.dNSName;
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(s)),
          static_cast<std::size_t>(ASN1_STRING_length(s))};
}

/// "DNS:a.example,IP:10.0.0.1", as the configuration syntax of OpenSSL wants it; empty if a host is neither.
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& given : hosts) {
    const std::string host(without_brackets(given));
    if (!out.empty()) out += ',';
    if (IpAddress::parse(host))
      out += "IP:" + host;
    else if (bootstrap::is_authority(host) && host.find(':') == std::string::npos)
      out += "DNS:" + host;
    else
      return {};
  }
  return out;
}

bool add_extension(X509* x, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, x, x, nullptr, nullptr, 0);
  X509_EXTENSION* e = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  const bool ok = e != nullptr && X509_add_ext(x, e, -1) == 1;
  X509_EXTENSION_free(e);
  return ok;
}

bool set_serial(X509* x) {
  std::array<std::uint8_t, 16> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) return false;
  random[0] &= 0x7f;  // positive (RFC 5280 §4.1.2.2)
  random[0] |= 0x40;  // and not zero
  BIGNUM* n = BN_bin2bn(random.data(), static_cast<int>(random.size()), nullptr);
  const bool ok = n != nullptr && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != nullptr;
  BN_free(n);
  return ok;
}

bool set_subject(X509* x, std::string_view host) {
  constexpr std::size_t kCommonNameMax = 64;  // RFC 5280 appendix A, ub-common-name
  X509_NAME* name = X509_get_subject_name(x);
  const std::string cn(host.substr(0, kCommonNameMax));
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(cn.c_str()), -1, -1,
                                    0) == 1 &&
         X509_set_issuer_name(x, name) == 1;
}

bool set_validity(X509* x, int days) {
  constexpr long kHour = 3600;
  const bool expired = days < 0;  // then it began one day before its end
  return X509_gmtime_adj(X509_getm_notBefore(x), expired ? (days - 1) * 24 * kHour : -kHour) !=
             nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(x), days * 24 * kHour) != nullptr;
}

bool fill(X509* x, EVP_PKEY* key, const std::vector<std::string>& hosts, const std::string& names,
          int days) {
  return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) && set_validity(x, days) &&
         set_subject(x, hosts.front()) && X509_set_pubkey(x, key) == 1 &&
         add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(x, NID_key_usage, "critical,digitalSignature") &&
         add_extension(x, NID_ext_key_usage, "serverAuth") &&
         add_extension(x, NID_subject_alt_name, names) && X509_sign(x, key, EVP_sha256()) > 0;
}

}  // namespace

Outcome<Certificate> Certificate::from_pem(std::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  X509* x = bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr;
  if (x == nullptr)
    return fail_with(Error::kMalformed, "no certificate in PEM form (BEGIN CERTIFICATE) found");
  return Certificate(x);
}

Certificate::Certificate(Certificate&& o) noexcept : x_(std::exchange(o.x_, nullptr)) {}

Certificate::~Certificate() {
  X509_free(x_);
}

bool Certificate::covers(std::string_view host) const {
  host = without_brackets(host);
  if (host.empty()) return false;
  const std::string name(host);
  if (IpAddress::parse(name)) return X509_check_ip_asc(x_, name.c_str(), 0) == 1;
  return X509_check_host(x_, name.data(), name.size(), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                         nullptr) == 1;
}

std::vector<std::string> Certificate::hosts() const {
  std::vector<std::string> out;
  const NamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x_, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    std::string host = host_of(sk_GENERAL_NAME_value(names.get(), i));
    if (bootstrap::is_authority(host)) out.push_back(std::move(host));  // leaves wildcards out
  }
  return out;
}

std::string Certificate::public_key_pin() const {
  unsigned char* der = nullptr;
  const int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x_), &der);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(der, static_cast<std::size_t>(std::max(n, 0)), digest.data());
  OPENSSL_free(der);
  std::array<unsigned char, 48> text{};
  const int length = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
  return {text.begin(), text.begin() + length};
}

Outcome<PemPair> make_self_signed(const std::vector<std::string>& hosts, int days) {
  const std::string names = hosts.empty() ? std::string() : alternative_names(hosts);
  if (names.empty())
    return fail_with(Error::kInvalidArgument, "a certificate needs names or addresses: " +
                                                  fmt::to_string(fmt::join(hosts, ", ")));
  const PrivateKeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr x(X509_new());
  const Bio certificate(BIO_new(BIO_s_mem()));
  const Bio private_key(BIO_new(BIO_s_mem()));
  const bool ok = key && x && certificate && private_key &&
                  fill(x.get(), key.get(), hosts, names, days) &&
                  PEM_write_bio_X509(certificate.get(), x.get()) == 1 &&
                  PEM_write_bio_PKCS8PrivateKey(private_key.get(), key.get(), nullptr, nullptr, 0,
                                                nullptr, nullptr) == 1;
  if (!ok) return fail_with(Error::kNoMemory, "OpenSSL could not make a certificate");
  return PemPair{text_of(certificate.get()), text_of(private_key.get())};
}

Outcome<std::string> read_pem_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (in && !text.str().empty()) return text.str();
  switch (errno) {
    case ENOENT:
      return fail_with(Error::kNotFound, path + ": no such file");
    case EACCES:
      return fail_with(Error::kAccess, path + ": permission denied");
    default:
      return fail_with(Error::kIo, path + ": not a readable file of PEM text");
  }
}

Result<HostPort> split_authority(std::string_view authority) {
  if (!bootstrap::is_authority(authority)) return failure(Error::kMalformed);
  HostPort out;
  const std::size_t end = authority.front() == '[' ? authority.find(']') + 1 : authority.find(':');
  out.host = without_brackets(authority.substr(0, end));
  if (end < authority.size()) {
    const std::string_view port = authority.substr(end + 1);
    std::from_chars(port.data(), port.data() + port.size(), out.port);
  }
  return out;
}

}  // namespace h4a::edge
