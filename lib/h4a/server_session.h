// ServerSession: answers the requests of one HTTP/4A session (DESIGN §7).
//
// A body goes the way its size allows: inline in the Response, or by RDMA WRITE into the sink the client
// offered, in work requests of at most kBodyChunkBytes; requests take turns. The Response follows on the
// same QP, so it arrives after the body, and invalidates the sink's window. A body larger than the sink
// is not sent: the Response says how much room it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "h4a/handler.h"
#include "h4a/session.h"
#include "h4a/staging_pool.h"

namespace h4a::http {

struct ServerOptions {
  SessionOptions session{.confirm_timeout =
                             Duration::s(5)};  // half-open sessions expire (DESIGN §6.8)
  /// Bodies up to this go inline, if the client's receives have room for them.
  std::uint32_t inline_max = 8192;
  /// Path, authority and header fields of a request together; longer ones get 431.
  std::uint32_t head_bytes_max = 8192;
  /// Body work requests in flight, a session.
  std::uint32_t writes_max = 16;
  /// Body chunks read in one poll().
  std::uint32_t reads_per_turn = 4;
  /// Requests answered in one poll(): each may open a file. More wait in their receive buffers.
  std::uint32_t requests_per_turn = 16;
};

class ServerSession final : public Session {
 public:
  /// All references must outlive the session. `staging` is in `pd`.
  ServerSession(verbs::Device& device, verbs::PdId pd, Random& random, Handler& handler,
                StagingPool& staging, const ServerOptions& options = {});
  ~ServerSession() override;

 private:
  enum class Stage : std::uint8_t {
    kFree,
    kBody,   // WRITEs to post
    kReady,  // the Response waits for credit
    kSent,   // the Response is in the send queue
  };
  struct Active {
    Stage stage = Stage::kFree;
    RequestId id;
    std::optional<Region> sink;
    Instant deadline = Instant::never();
    ServerResponse response;
    BodyPlace place = BodyPlace::kNone;
    std::uint64_t body_length = 0;
    std::uint64_t written = 0;
    std::uint32_t writes_pending = 0;
    bool sent_done = false;
  };
  struct Write {
    std::uint32_t request = 0;
    std::uint32_t chunk = 0;
    bool staged = false;
    bool busy = false;
  };

  [[nodiscard]] Result<void> on_open() noexcept override;
  Buffer on_frame(const Frame& frame, const verbs::Completion& completion,
                  std::uint32_t receive) noexcept override;
  void on_work_done(Work work, std::uint32_t index) noexcept override;
  std::size_t on_turn() noexcept override;
  [[nodiscard]] Instant on_next_deadline() const noexcept override;
  [[nodiscard]] bool requests_in_flight() const noexcept override;
  [[nodiscard]] RequestId last_processed() const noexcept override { return last_id_; }
  void on_ended() noexcept override;

  Buffer take_request(const RequestFrame& frame, std::uint32_t receive) noexcept;
  void on_request(const RequestFrame& frame, Active& a) noexcept;
  std::size_t take_held() noexcept;
  /// For the next request: nullptr if there is none, or enough was answered in this turn.
  [[nodiscard]] Active* free_place() noexcept;
  [[nodiscard]] std::size_t unanswered() const noexcept;
  void on_cancel(RequestId id) noexcept;
  void answer(Active& a, const RequestFrame& frame) noexcept;
  void choose_place(Active& a) noexcept;
  [[nodiscard]] std::size_t inline_room() const noexcept;
  void replace_by_error(Active& a, std::uint16_t status) noexcept;
  void expire() noexcept;
  [[nodiscard]] std::size_t write_bodies() noexcept;
  [[nodiscard]] bool write_next(Active& a) noexcept;
  [[nodiscard]] bool may_stage() const noexcept;
  [[nodiscard]] bool fill(Active& a, Write& write, verbs::Sge& sge) noexcept;
  [[nodiscard]] std::size_t send_responses() noexcept;
  [[nodiscard]] bool send_response(Active& a) noexcept;
  [[nodiscard]] Result<std::size_t> encode_response(Active& a) noexcept;
  void free_if_done(Active& a) noexcept;

  Handler& handler_;
  StagingPool& staging_;
  ServerOptions server_options_;
  std::vector<Active> active_;
  std::vector<Write> writes_;
  std::vector<std::uint32_t> held_;  // receives with requests that wait for a place, oldest first
  std::vector<std::uint8_t> inline_scratch_;
  RequestId last_id_;
  std::uint32_t answered_in_turn_ = 0;
  std::uint32_t next_turn_ = 0;  // whose body is written next
};

}  // namespace h4a::http
