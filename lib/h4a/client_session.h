// ClientSession: requests of one HTTP/4A session, in push mode (DESIGN §7, D3, D4, D6).
//
// A request with a sink binds a one-shot type 2 window over exactly that range, for this QP, remote write
// only, under a fresh random key; the Request frame follows it in the same batch. When the Response is
// here, the window is dead (the peer's SEND invalidated it, or we do so and wait), the coverage is
// compared with what the peer claims, and only then the application sees the body.
//
// A request that is given up (deadline, cancel) completes at once, but its window is only retired; the
// sink is released after the peer's final frame, or when the session ends.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "h4a/request.h"
#include "h4a/response.h"
#include "h4a/session.h"

namespace h4a::http {

class ClientSession final : public Session {
 public:
  /// @param device, pd, random must outlive the session.
  ClientSession(verbs::Device& device, verbs::PdId pd, Random& random,
                const SessionOptions& options = {});
  ~ClientSession() override;

  /// Queues a request. It leaves with the next poll(), or when credit and the server's limit allow.
  /// @param head copied. Methods with a body are not offered yet.
  /// @param sink where the body may be placed; empty: only an inline body can come.
  /// @param timeout > 0, from `now`; then it completes with kTimeout.
  /// @param listener must live until it was told on_sink_released.
  /// @return kFull if max_requests are in flight; kAccess for an authority that the session does not carry
  /// (DESIGN §6.3: the server would answer 421); kBusy if the sink shares bytes with that of a request
  /// that was not released; kInvalidArgument for a head with illegal text, a head that does not fit a
  /// message, a sink that wraps, or a bad timeout; kClosed if the session drains, or unless the session is confirming or open; what
  /// the device answers. After an error the listener is told nothing.
  [[nodiscard]] Result<RequestId> submit(const RequestHead& head, const SinkBuffer& sink,
                                         Duration timeout, ResponseListener& listener,
                                         Instant now) noexcept;
  /// Gives a request up: it completes with kCancelled in the next poll(). Unknown ids are ignored.
  void cancel(RequestId id) noexcept;
  /// Whether requests for `authority` ("host" or "host:port") may go over this session.
  [[nodiscard]] bool carries(std::string_view authority) const noexcept;
  /// Requests that submit() would take now.
  [[nodiscard]] std::uint32_t free_requests() const noexcept;

 private:
  enum class Stage : std::uint8_t {
    kFree,
    kQueued,    // not sent
    kSent,      // waiting for the Response
    kRevoking,  // Response here; our own invalidation of the window is on its way
    kDone,      // told; work requests of it are still in the send queue
  };
  struct Pending {
    Stage stage = Stage::kFree;
    RequestId id;
    ResponseListener* listener = nullptr;
    Instant deadline;
    Instant answer_by = Instant::never();  // given up: the peer's final frame is due then
    SinkBuffer sink;
    verbs::MwId window;
    Rkey rkey;
    std::uint32_t message_bytes = 0;
    std::uint32_t work_pending = 0;
    std::uint32_t receive = 0;  // held, in kRevoking
    bool has_window = false;
    bool window_live = false;
    bool in_queue = false;
    bool cancel_wanted = false;
    bool cancel_to_send = false;
    bool to_retire = false;
    bool told = false;
    bool refused = false;  // sent, but the server drains and will not answer it

    void begin(RequestId new_id, ResponseListener& l, Instant until, const SinkBuffer& buffer,
               std::uint32_t bytes) noexcept;
  };

  [[nodiscard]] Result<void> on_open() noexcept override;
  Buffer on_frame(const Frame& frame, const verbs::Completion& completion,
                  std::uint32_t receive) noexcept override;
  void on_work_done(Work work, std::uint32_t index) noexcept override;
  std::size_t on_turn() noexcept override;
  [[nodiscard]] Instant on_next_deadline() const noexcept override;
  [[nodiscard]] bool requests_in_flight() const noexcept override;
  void on_drain() noexcept override;
  [[nodiscard]] bool drained() const noexcept override;
  void on_ended() noexcept override;

  [[nodiscard]] Result<void> check(const RequestHead& head, const SinkBuffer& sink,
                                   Duration timeout) const noexcept;
  [[nodiscard]] bool in_use(const SinkBuffer& sink) const noexcept;
  [[nodiscard]] Pending* find(RequestId id) noexcept;
  [[nodiscard]] std::uint32_t index_of(const Pending& p) const noexcept;
  Buffer on_response(const ResponseFrame& frame, const verbs::Completion& completion,
                     std::uint32_t receive) noexcept;
  [[nodiscard]] bool body_holds(const Pending& p, const ResponseFrame& frame) noexcept;
  void finish(Pending& p, const ResponseFrame& frame) noexcept;
  void tell(Pending& p, const Response& response) noexcept;
  void tell_outcome(Pending& p, Outcome outcome, bool maybe_processed) noexcept;
  void release(Pending& p) noexcept;
  [[nodiscard]] bool send(Pending& p) noexcept;
  void give_up(Pending& p, Outcome outcome) noexcept;
  [[nodiscard]] std::size_t mind(Pending& p) noexcept;
  [[nodiscard]] std::size_t send_queued() noexcept;
  [[nodiscard]] Result<std::size_t> encode_request(Pending& p, const RequestHead& head,
                                                   const SinkBuffer& sink,
                                                   Duration timeout) noexcept;
  void on_revoked(Pending& p) noexcept;
  static void free_if_done(Pending& p) noexcept;

  std::vector<Pending> requests_;
  std::vector<std::uint32_t> queue_;  // indices in kQueued, oldest first; a ring
  std::uint32_t queue_head_ = 0;
  std::uint32_t queue_count_ = 0;
  std::uint32_t in_flight_ = 0;  // sent and not answered
  std::uint64_t next_id_ = 1;
};

}  // namespace h4a::http
