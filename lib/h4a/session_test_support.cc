#include "h4a/session_test_support.h"

#include <charconv>
#include <cstring>

#include "test/test_support.h"

namespace h4a::test {

using namespace http;

std::vector<std::uint8_t> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::uint8_t> out(size);
  std::uint32_t x = seed * 2654435761U + 1;
  for (auto& b : out) {
    x = x * 1664525U + 1013904223U;
    b = static_cast<std::uint8_t>(x >> 24);
  }
  return out;
}

// ---- handler ----

namespace {

class MemoryBody final : public BodySource {
 public:
  MemoryBody(MemoryHandler& owner, Bytes data) : owner_(owner), data_(data) {
    ++owner_.bodies_open;
  }
  ~MemoryBody() override { --owner_.bodies_open; }
  std::uint64_t size() const noexcept override { return data_.size(); }
  Result<void> read(std::uint64_t offset, MutableBytes out) noexcept override {
    ++owner_.reads[this];
    if (offset + out.size() > owner_.fails_from) return failure(Error::kTruncated);
    std::memcpy(out.data(), data_.data() + offset, out.size());
    return {};
  }
  std::optional<Registered> registered() const noexcept override {
    if (!owner_.registered) return std::nullopt;
    return Registered{data_.data(), owner_.lkey};
  }
  void release() noexcept override { delete this; }

 private:
  MemoryHandler& owner_;
  Bytes data_;
};

std::uint64_t number(std::string_view text) {
  std::uint64_t v = 0;
  std::from_chars(text.data(), text.data() + text.size(), v);
  return v;
}

}  // namespace

bool MemoryHandler::serves(std::string_view, std::string_view name) noexcept {
  return authority.empty() || name == authority;
}

void MemoryHandler::handle(const RequestHead& head, ServerResponse& response) noexcept {
  ++handled;
  const auto file = files.find(head.path);
  if (file == files.end()) {
    response.status = 404;
    static_cast<void>(response.headers.add("content-length", "0"));
    return;
  }
  Bytes body = file->second;
  const auto match = find_header(head.headers, "if-match");
  if (match && *match != etag) {
    response.status = 412;
    return;
  }
  const auto range = find_header(head.headers, "range");
  if (ranges && range && range->starts_with("bytes=")) {
    const std::uint64_t first = number(range->substr(6));
    const std::uint64_t last = number(range->substr(range->find('-') + 1));
    response.status = 206;
    static_cast<void>(response.headers.add("content-range", "bytes " + std::to_string(first) + "-" +
                                                                std::to_string(last) + "/" +
                                                                std::to_string(body.size())));
    body = body.subspan(first, last - first + 1);
  }
  static_cast<void>(response.headers.add("content-length", std::to_string(body.size())));
  static_cast<void>(response.headers.add("etag", etag));
  if (ranges) static_cast<void>(response.headers.add("accept-ranges", "bytes"));
  if (!body.empty()) response.body.reset(new MemoryBody(*this, body));
}

// ---- recorder ----

std::size_t Recorder::responses() const {
  std::size_t n = 0;
  for (const auto& [id, e] : entries) n += static_cast<std::size_t>(e.responses);
  return n;
}

std::size_t Recorder::releases() const {
  std::size_t n = 0;
  for (const auto& [id, e] : entries) n += static_cast<std::size_t>(e.releases);
  return n;
}

void Recorder::on_response(RequestId id, const Response& r) noexcept {
  Entry& e = entries[id.value()];
  ++e.responses;
  e.outcome = r.outcome;
  e.status = r.status;
  e.body_sent = r.body_sent;
  e.maybe_processed = r.maybe_processed;
  e.body_length = r.body_length;
  e.body.assign(r.body.begin(), r.body.end());
  for (const HeaderField& f : r.headers) e.headers[std::string(f.name)] = f.value;
  // DESIGN D4: nobody looks at a body that the peer can still change.
  if (r.outcome == Outcome::kResponse && e.sink != nullptr) assert_false(device_.reachable(e.sink));
  if (then) then(id);
}

void Recorder::on_sink_released(RequestId id) noexcept {
  Entry& e = entries[id.value()];
  ++e.releases;
  assert_int_equal(e.responses, 1);
  if (e.sink != nullptr) assert_false(device_.reachable(e.sink));
}

// ---- world ----

PeerEndpoint World::endpoint(const FakeDevice& here, const FakeDevice& there,
                             const LocalEndpoint& peer) {
  PeerEndpoint e;
  e.local_address = here.addresses()[0].address;
  e.remote_address = there.addresses()[0].address;
  e.qpn = peer.qpn;
  e.psn = peer.psn;
  e.recv_depth = peer.recv_depth;
  e.recv_bytes = peer.recv_bytes;
  e.association = AssociationId(77);
  return e;
}

void World::connect_unconfirmed() {
  auto pool = StagingPool::create(server_device, server_pd, 8);
  assert_ok(pool);
  staging = std::make_unique<StagingPool>(std::move(*pool));
  client = std::make_unique<ClientSession>(client_device, client_pd, random, client_options);
  server = std::make_unique<ServerSession>(server_device, server_pd, random, *served_by, *staging,
                                           server_options);
  const auto c = client->open();
  const auto s = server->open();
  assert_ok(c);
  assert_ok(s);
  PeerEndpoint other = endpoint(server_device, client_device, *c);
  other.lifetime = lifetime;
  assert_ok(server->connect(other, now));
  PeerEndpoint peer = endpoint(client_device, server_device, *s);
  peer.authorities = authorities;
  peer.lifetime = lifetime;
  assert_ok(client->connect(peer, now));
}

void World::connect() {
  connect_unconfirmed();
  assert_true(run([this] { return client->state() == SessionState::kOpen; }));
  assert_true(server->state() == SessionState::kOpen);
}

void World::turn(std::size_t wire_max) {
  fabric.run(wire_max);
  if (server) server->poll(now);
  if (client) client->poll(now);
}

bool World::run(const std::function<bool()>& done, std::size_t max) {
  for (std::size_t i = 0; i < max && !done(); ++i) turn();
  return done();
}

SinkBuffer World::sink(std::size_t bytes) {
  auto buffer = RegisteredBuffer::create(client_device, client_pd, bytes,
                                         verbs::Access::kLocalWrite | verbs::Access::kWindowBind,
                                         AssociationId(77));
  assert_ok(buffer);
  sinks.push_back(std::move(*buffer));
  return sinks.back().sink();
}

RequestId World::get(std::string_view path, const SinkBuffer& sink, Duration timeout,
                     std::string_view method, HeaderFields headers) {
  const RequestHead head{method, "https", "example.org", path, headers};
  const auto id = client->submit(head, sink, timeout, recorder, now);
  assert_ok(id);
  recorder.expect(*id, sink.address);
  return *id;
}

int make_world(void** state) {
  *state = new World;
  return 0;
}
int drop_world(void** state) {
  World* w = static_cast<World*>(*state);
  w->client.reset();
  w->server.reset();
  const std::size_t staged = w->staging ? w->staging->available() : 0;
  const std::size_t all = w->staging ? w->staging->capacity() : 0;
  w->staging.reset();
  w->sinks.clear();
  // Everything went back where it came from.
  const bool clean = staged == all && w->client_device.objects() == 0 &&
                     w->server_device.objects() == 0 && w->handler.bodies_open == 0 &&
                     w->recorder.responses() == w->recorder.entries.size() &&
                     w->recorder.releases() == w->recorder.entries.size();
  const bool credit_kept = w->client_device.violations.receiver_not_ready == 0 &&
                           w->server_device.violations.receiver_not_ready == 0;
  delete w;
  if (!clean) print_error("something was not given back\n");
  if (!credit_kept) print_error("a SEND found no receive\n");
  return clean && credit_kept ? 0 : -1;
}

// ---- raw peer ----

RawPeer::RawPeer(FakeDevice& device, verbs::PdId pd, std::uint32_t depth, std::uint32_t bytes)
    : device_(device), pd_(pd), depth_(depth), bytes_(bytes) {
  receives_ = *RegisteredBuffer::create(device, pd, std::size_t{depth} * bytes);
  sends_ = *RegisteredBuffer::create(device, pd, std::size_t{1} << 22, verbs::Access::kNone);
  cq_ = *device.create_cq(8192);
  verbs::QpOptions options;
  options.pd = pd;
  options.send_cq = options.recv_cq = cq_;
  options.max_send_wr = 4096;
  options.max_recv_wr = depth;
  local_ = {*device.create_qp(options), Psn(1), depth, bytes};
  assert_ok(device.to_init(local_.qpn, {verbs::Access::kRemoteWrite, 0xffff}));
  for (std::uint32_t i = 0; i < depth; ++i) post_receive(i);
  allowed_ = depth;
}

RawPeer::~RawPeer() {
  static_cast<void>(device_.destroy_qp(local_.qpn));
  static_cast<void>(device_.destroy_cq(cq_));
}

void RawPeer::post_receive(std::uint32_t index) {
  verbs::RecvWr wr;
  wr.wr_id = index;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(receives_.data() + std::size_t{index} * bytes_),
                bytes_, receives_.lkey()};
  static_cast<void>(device_.post_recv(local_.qpn, {&wr, 1}));
}

void RawPeer::connect(const LocalEndpoint& peer) {
  verbs::RtrAttributes rtr;
  rtr.remote_qpn = peer.qpn;
  rtr.association = AssociationId(77);
  assert_ok(device_.to_rtr(local_.qpn, rtr));
  assert_ok(device_.to_rts(local_.qpn, {}));
}

void RawPeer::send(const FrameBody& body, const Rkey* invalidate, std::uint64_t credit) {
  pump();
  alignas(64) std::array<std::uint8_t, 16384> out{};
  if (credit == 0 && give_credit) credit = allowed_;
  const auto n = encoder_.encode(Frame{credit, body}, out);
  assert_ok(n);
  send_octets(Bytes(out).first(*n), invalidate);
}

void RawPeer::send_octets(Bytes octets, const Rkey* invalidate) {
  verbs::SendWr wr;
  wr.wr_id = 1ULL << 32;
  wr.opcode = invalidate == nullptr ? verbs::WrOpcode::kSend : verbs::WrOpcode::kSendWithInvalidate;
  if (invalidate != nullptr) wr.invalidate_rkey = *invalidate;
  if (send_at_ + octets.size() > sends_.size()) send_at_ = 0;
  if (!octets.empty()) std::memcpy(sends_.data() + send_at_, octets.data(), octets.size());
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(sends_.data() + send_at_),
                static_cast<std::uint32_t>(octets.size()), sends_.lkey()};
  send_at_ += octets.size();
  assert_ok(device_.post_send(local_.qpn, {&wr, 1}));
}

void RawPeer::write(const Region& sink, std::uint64_t offset, Bytes data) {
  if (send_at_ + data.size() > sends_.size()) send_at_ = 0;
  std::memcpy(sends_.data() + send_at_, data.data(), data.size());
  verbs::SendWr wr;
  wr.wr_id = 1ULL << 32;
  wr.opcode = verbs::WrOpcode::kRdmaWrite;
  wr.rkey = sink.rkey;
  wr.remote_address = sink.address + offset;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(sends_.data() + send_at_),
                static_cast<std::uint32_t>(data.size()), sends_.lkey()};
  send_at_ += data.size();
  assert_ok(device_.post_send(local_.qpn, {&wr, 1}));
}

void RawPeer::pump() {
  std::array<verbs::Completion, 64> batch;
  for (std::size_t n = device_.poll_cq(cq_, batch); n > 0; n = device_.poll_cq(cq_, batch)) {
    for (std::size_t i = 0; i < n; ++i) {
      const verbs::Completion& c = batch[i];
      if (c.status != verbs::CompletionStatus::kSuccess) {
        failures.push_back(c.status);
        continue;
      }
      if (c.wr_id >= 1ULL << 32) continue;
      ++received;
      const auto index = static_cast<std::uint32_t>(c.wr_id);
      Message m;
      m.words.resize(c.byte_len / 8 + 1);
      std::memcpy(m.words.data(), receives_.data() + std::size_t{index} * bytes_, c.byte_len);
      m.scratch = std::make_unique<HeaderScratch>();
      const auto frame = decode_frame(
          {reinterpret_cast<const std::uint8_t*>(m.words.data()), c.byte_len}, *m.scratch);
      if (!frame) fail_msg("the session sent no frame");
      m.frame = *frame;
      messages_.push_back(std::move(m));
      if (!give_credit) continue;
      post_receive(index);
      ++allowed_;
    }
  }
}

verbs::QpState RawPeer::state() const {
  const auto s = device_.qp_status(local_.qpn);
  return s ? s->state : verbs::QpState::kReset;
}

}  // namespace h4a::test
