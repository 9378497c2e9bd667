// A session that is fed arbitrary SENDs and WRITEs by a raw peer: it answers, ends or goes on, never breaks
// an invariant, completes every request once and gives everything back.
//
// Input: one octet chooses the side; then records of a kind octet and a length octet. Small frames are
// built from the record, so that the fuzzer gets past the verifier; other records are sent as they are.
#include <array>
#include <cstdlib>

#include "h4a/session_test_support.h"

using namespace h4a;
using namespace h4a::http;
using namespace h4a::test;

namespace {

class Input {
 public:
  explicit Input(Bytes b) : rest_(b) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t octet() {
    if (rest_.empty()) return 0;
    const std::uint8_t v = rest_[0];
    rest_ = rest_.subspan(1);
    return v;
  }
  Bytes octets(std::size_t n) {
    const Bytes out = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  Bytes rest_;
};

struct Feed : World {
  std::unique_ptr<RawPeer> peer;

  void open_client() {
    client = std::make_unique<ClientSession>(client_device, client_pd, random, client_options);
    const auto c = client->open();
    if (!c) std::abort();
    peer = std::make_unique<RawPeer>(server_device, server_pd, 16, 4096);
    peer->connect(*c);
    if (!client->connect(endpoint(client_device, server_device, peer->local()), now)) std::abort();
    turn();
    peer->send(PongFrame{peer->all<PingFrame>().at(0).nonce});
    turn();
    for (int i = 0; i < 3; ++i) static_cast<void>(get("/f", sink(4096), Duration::s(1)));
    turn();
    turn();
  }
  void open_server() {
    handler.files["/f"] = pattern(20000);
    auto pool = StagingPool::create(server_device, server_pd, 2);
    if (!pool) std::abort();
    staging = std::make_unique<StagingPool>(std::move(*pool));
    server = std::make_unique<ServerSession>(server_device, server_pd, random, handler, *staging,
                                             server_options);
    const auto s = server->open();
    if (!s) std::abort();
    peer = std::make_unique<RawPeer>(client_device, client_pd, 16, 4096);
    peer->connect(*s);
    if (!server->connect(endpoint(server_device, client_device, peer->local()), now)) std::abort();
    peer->send(PingFrame{1});
    turn();
  }
  void play(Input& in);
  void check();
};

void Feed::play(Input& in) {
  const std::uint8_t kind = in.octet() % 12;
  const std::uint8_t v = in.octet();
  const auto asked = peer->all<RequestFrame>();
  const RequestFrame* q = asked.empty() ? nullptr : &asked[v % asked.size()];
  const Rkey* key = q != nullptr && q->sink && (v & 0x80) != 0 ? &q->sink->rkey : nullptr;
  switch (kind) {
    case 0:
      return peer->send_octets(in.octets(v), nullptr);
    case 1:
      return peer->send(PingFrame{v});
    case 2:
      return peer->send(CancelFrame{RequestId(v)});
    case 3:
      return peer->send(CreditFrame{}, nullptr, v);
    case 4: {
      ResponseFrame r;
      r.id = RequestId(v & 7);
      r.status = static_cast<std::uint16_t>(200 + v);
      r.place = static_cast<BodyPlace>(in.octet() % 5);
      r.placed_bytes = std::uint64_t{in.octet()} * 20;
      r.body_length = r.placed_bytes;
      r.inline_body = in.octets(in.octet());
      return peer->send(r, key);
    }
    case 5:
      if (q != nullptr && q->sink && in.octet() != 0)
        peer->write(*q->sink, std::uint64_t{v} * 17, pattern(in.octet() * 17U + 1));
      return;
    case 6: {
      RequestFrame request;
      request.id = RequestId(v);
      request.head.authority = "example.org";
      request.head.path = (v & 1) != 0 ? "/f" : "/none";
      request.head.method = (v & 2) != 0 ? "GET" : "HEAD";
      if ((v & 4) != 0) request.sink = Region{0x1000, std::uint64_t{in.octet()} << 10, Rkey(v)};
      return peer->send(request);
    }
    case 7:
      return peer->send(SettingsFrame{v, 1, 1});
    case 8:
      return peer->send(DataFrame{RequestId(v)}, key);
    case 9:
      pass(Duration::ms(v * 10));
      return;
    case 10:
      if (client && !client->ended()) client->cancel(RequestId(v & 7));
      return;
    default:
      return peer->send(GoAwayFrame{RequestId(v), GoAwayCode::kDone, "bye"});
  }
}

void Feed::check() {
  client.reset();
  server.reset();
  peer.reset();
  const bool staged = !staging || staging->available() == staging->capacity();
  staging.reset();
  sinks.clear();
  if (!staged || client_device.objects() != 0 || server_device.objects() != 0 ||
      handler.bodies_open != 0 || recorder.responses() != recorder.entries.size() ||
      recorder.releases() != recorder.entries.size())
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 2000) return 0;
  Input in({data, size});
  Feed feed;
  if ((in.octet() & 1) != 0)
    feed.open_client();
  else
    feed.open_server();
  while (!in.empty() && feed.peer->state() == verbs::QpState::kRts) {
    feed.play(in);
    feed.turn(in.octet() % 8);
  }
  for (int i = 0; i < 5; ++i) feed.turn();
  feed.check();
  return 0;
}
