// What session tests share: two fake devices on one fabric, a handler with bodies in memory, a listener
// that records, and a peer made of raw verbs that does what no session would do.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "h4a/client_session.h"
#include "h4a/fake_device_test_support.h"
#include "h4a/server_session.h"

namespace h4a::test {

using http::Frame;
using http::FrameBody;

/// Bytes that tell where they come from: the same for the same seed.
std::vector<std::uint8_t> pattern(std::size_t size, std::uint32_t seed = 1);

/// Serves bodies by path, whole or by "bytes=A-B".
class MemoryHandler final : public http::Handler {
 public:
  std::map<std::string, std::vector<std::uint8_t>, std::less<>> files;
  std::string authority = "example.org";  // empty: any
  std::string etag = "\"v1\"";
  bool ranges = true;
  bool registered = false;           // bodies lie in registered memory
  Lkey lkey;                         // with `registered`
  std::uint64_t fails_from = ~0ULL;  // reads at this offset and beyond fail
  int bodies_open = 0;
  int handled = 0;
  std::map<const void*, int> reads;  // by body

  bool serves(std::string_view scheme, std::string_view name) noexcept override;
  void handle(const http::RequestHead& head, http::ServerResponse& response) noexcept override;
};

/// Records what a client is told, and checks at once what must hold at that moment.
class Recorder final : public http::ResponseListener {
 public:
  struct Entry {
    int responses = 0;
    int releases = 0;
    http::Outcome outcome = http::Outcome::kResponse;
    std::uint16_t status = 0;
    bool body_sent = false;
    bool maybe_processed = true;
    std::uint64_t body_length = 0;
    std::vector<std::uint8_t> body;
    std::map<std::string, std::string> headers;
    const void* sink = nullptr;
  };
  explicit Recorder(FakeDevice& device) : device_(device) {}
  std::map<std::uint64_t, Entry> entries;
  std::function<void(http::RequestId)> then;  // called in on_response

  void expect(http::RequestId id, const void* sink) { entries[id.value()].sink = sink; }
  const Entry& operator[](http::RequestId id) { return entries[id.value()]; }
  [[nodiscard]] std::size_t responses() const;
  [[nodiscard]] std::size_t releases() const;
  void on_response(http::RequestId id, const http::Response& response) noexcept override;
  void on_sink_released(http::RequestId id) noexcept override;

 private:
  FakeDevice& device_;
};

/// A client session, and a server session or a raw peer, on one fabric.
struct World {
  static constexpr std::size_t kSinkBytes = std::size_t{1} << 20;

  FakeFabric fabric;
  FakeDevice client_device{fabric, IpAddress::v4(10, 0, 0, 1), 1};
  FakeDevice server_device{fabric, IpAddress::v4(10, 0, 0, 2), 2};
  SeededRandom random{3};
  verbs::PdId client_pd{*client_device.alloc_pd()};
  verbs::PdId server_pd{*server_device.alloc_pd()};
  MemoryHandler handler;
  http::Handler* served_by = &handler;
  Recorder recorder{client_device};
  http::SessionOptions client_options;
  http::ServerOptions server_options;
  std::unique_ptr<http::StagingPool> staging;
  std::unique_ptr<http::ClientSession> client;
  std::unique_ptr<http::ServerSession> server;
  std::vector<http::RegisteredBuffer> sinks;
  std::vector<std::string> authorities{"example.org"};  // that the session carries
  Duration lifetime;                                    // zero: for ever
  Instant now = Instant::from_ns(1'000'000'000);

  /// Makes and connects both sessions and lets them confirm.
  void connect();
  void connect_unconfirmed();
  /// One turn of everything; the wire moves up to `wire_max` work requests.
  void turn(std::size_t wire_max = SIZE_MAX);
  /// Turns until `done` or `max` turns. @return whether it is done.
  bool run(const std::function<bool()>& done, std::size_t max = 1000);
  void pass(Duration d) { now = now + d; }
  /// A sink of its own for one more request.
  http::SinkBuffer sink(std::size_t bytes = kSinkBytes);
  http::RequestId get(std::string_view path, const http::SinkBuffer& sink = {},
                      Duration timeout = Duration::s(10), std::string_view method = "GET",
                      http::HeaderFields headers = {});
  static http::PeerEndpoint endpoint(const FakeDevice& here, const FakeDevice& there,
                                     const http::LocalEndpoint& peer);
};

/// A cmocka fixture with a World as its state. The teardown fails if anything was not given back, a request
/// was not completed exactly once, or a SEND found no receive.
int make_world(void** state);
int drop_world(void** state);
inline World& world(void** state) {
  return *static_cast<World*>(*state);
}

/// The other end of a session, driven by the test through raw verbs.
class RawPeer {
 public:
  RawPeer(FakeDevice& device, verbs::PdId pd, std::uint32_t depth = 64,
          std::uint32_t bytes = 16384);
  ~RawPeer();
  [[nodiscard]] http::LocalEndpoint local() const { return local_; }
  void connect(const http::LocalEndpoint& peer);
  /// Sends a frame; `invalidate`, if any, with the SEND.
  void send(const FrameBody& body, const Rkey* invalidate = nullptr, std::uint64_t credit = 0);
  /// Sends octets that may be anything.
  void send_octets(Bytes octets, const Rkey* invalidate = nullptr);
  void write(const http::Region& sink, std::uint64_t offset, Bytes data);
  /// All frames of kind T received so far.
  template <class T>
  std::vector<T> all();
  [[nodiscard]] verbs::QpState state() const;
  /// Sends that failed.
  std::vector<verbs::CompletionStatus> failures;
  /// SENDs received, never given credit back by itself.
  std::uint64_t received = 0;
  /// Receives are posted again, and credit for them is given with every frame.
  bool give_credit = true;

 private:
  void post_receive(std::uint32_t index);
  void pump();

  FakeDevice& device_;
  verbs::PdId pd_;
  std::uint32_t depth_;
  std::uint32_t bytes_;
  http::RegisteredBuffer receives_;
  http::RegisteredBuffer sends_;
  http::FrameEncoder encoder_{16384};
  verbs::CqId cq_;
  http::LocalEndpoint local_;
  std::size_t send_at_ = 0;
  std::uint64_t allowed_ = 0;
  struct Message {
    std::vector<std::uint64_t> words;
    std::unique_ptr<http::HeaderScratch> scratch;
    Frame frame;
  };
  std::vector<Message> messages_;
};

template <class T>
std::vector<T> RawPeer::all() {
  pump();
  std::vector<T> out;
  for (const Message& m : messages_)
    if (const auto* t = std::get_if<T>(&m.frame.body)) out.push_back(*t);
  return out;
}

}  // namespace h4a::test
