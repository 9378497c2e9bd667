// H4aFetch: one file over HTTP/4A, from the Offer to the last byte: the client's half of the bootstrap,
// a session, a FetchOperation, and the loop that drives them. A session that ends in an orderly way before
// the file is complete is followed by another, which goes on where the first got to.
#pragma once

#include <memory>
#include <string>

#include "apps/esp_key_log.h"
#include "apps/get.h"
#include "apps/host.h"
#include "apps/output_file.h"
#include "apps/progress.h"
#include "edge/client.h"
#include "h4a/bootstrap_exchange.h"
#include "h4a/fetch_operation.h"

namespace h4a::apps {

/// How an attempt ended.
struct Attempt {
  enum class End : std::uint8_t {
    kDone,
    kRenew,     // the session is over, the file is not: another one goes on
    kFallback,  // HTTP/4A is not to be had or broke: HTTPS may do it
    kFailed,    // HTTPS would not do better
  };
  End end = End::kFailed;
  int exit_code = 1;   // with kFailed
  std::string reason;  // one line; empty with kDone
};

class H4aFetch final : private http::FetchSink {
 public:
  H4aFetch(const GetArguments& arguments, const edge::Url& url, edge::EdgeClient& edge,
           OutputFile& file, Progress& progress) noexcept
      : arguments_(arguments), url_(url), edge_(edge), file_(file), progress_(progress) {}
  ~H4aFetch() override;

  [[nodiscard]] Attempt run(Instant deadline);

  // After run():
  [[nodiscard]] const http::FetchResult& result() const noexcept { return result_; }
  [[nodiscard]] std::uint32_t sessions() const noexcept { return sessions_; }
  [[nodiscard]] verbs::DeviceCounters counters() const noexcept;
  /// "HTTP/4A (RoCEv2 in ESP, AES-256-GCM, path MTU 4096)".
  [[nodiscard]] std::string protocol() const;

 private:
  [[nodiscard]] Attempt open_host();
  [[nodiscard]] Attempt open_session();
  [[nodiscard]] Attempt one_session(Instant deadline);
  [[nodiscard]] Attempt agree(Instant deadline);
  [[nodiscard]] Attempt connect(bootstrap::SessionParameters& agreed, const IpAddress& server);
  [[nodiscard]] Attempt transfer(Instant deadline);
  [[nodiscard]] Attempt judge(const http::FetchOperation& fetch, bool timed_out) const;
  [[nodiscard]] Attempt follow(http::FetchOperation& fetch, Instant deadline);
  void take_result(const http::FetchResult& result);
  void take_events() noexcept;
  void say_goodbye();
  void drop_session() noexcept;
  [[nodiscard]] std::string with_top_drop(std::string text) const;

  [[nodiscard]] Result<void> on_head(const http::FetchHead& head) noexcept override;
  [[nodiscard]] Result<void> on_data(std::uint64_t offset, Bytes data) noexcept override;

  const GetArguments& arguments_;
  const edge::Url& url_;
  edge::EdgeClient& edge_;
  OutputFile& file_;
  Progress& progress_;
  EspKeyLog keys_;
  std::unique_ptr<Host> host_;
  verbs::PdId pd_;
  std::unique_ptr<http::ClientSession> session_;
  std::uint32_t sessions_ = 0;
  std::uint16_t path_mtu_ = 0;
  AssociationId association_;
  EspSuite suite_ = EspSuite::kAesGcm128;
  http::FetchResult result_;
  std::uint64_t total_ = 0;
};

}  // namespace h4a::apps
