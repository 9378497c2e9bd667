#include "apps/rping_peer.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace h4a::apps {
namespace {

using verbs::WrOpcode;

// Printable characters that the text runs through, as rping has them.
constexpr std::uint8_t kFirstCharacter = 'A';
constexpr std::uint8_t kLastCharacter = 'z';
constexpr std::uint32_t kCharacters = kLastCharacter - kFirstCharacter + 1;

/// "rdma-ping-N: " and characters from the N-th on, filled up to `size` with a zero at the end.
void write_text(std::uint8_t* p, std::uint32_t size, std::uint64_t number) {
  const std::string head = fmt::format("rdma-ping-{}: ", number);
  const auto length = std::min<std::uint32_t>(static_cast<std::uint32_t>(head.size()), size - 1);
  std::memcpy(p, head.data(), length);
  std::uint64_t character = number;
  for (std::uint32_t i = length; i + 1 < size; ++i, ++character)
    p[i] = static_cast<std::uint8_t>(kFirstCharacter + character % kCharacters);
  p[size - 1] = 0;
}

}  // namespace

RpingPeer::RpingPeer(verbs::Device& device, RpingTask task)
    : device_(device), task_(std::move(task)), memory_(std::make_unique<Memory>()) {}

std::unique_ptr<RpingPeer> RpingPeer::create(verbs::Device& device, RpingTask task,
                                             std::string& error) {
  std::unique_ptr<RpingPeer> peer(new RpingPeer(device, std::move(task)));
  return peer->open(error) ? std::move(peer) : nullptr;
}

bool RpingPeer::open(std::string& error) {
  using verbs::Access;
  const auto refused = [&](const char* what, Error e) {
    error = fmt::format("cannot make a {}: {}", what, to_string(e));
    return false;
  };
  const auto pd = device_.alloc_pd();
  if (!pd) return refused("protection domain", pd.error());
  pd_ = *pd;
  const auto cq = device_.create_cq(kReceives + kSends);
  if (!cq) return refused("completion queue", cq.error());
  cq_ = *cq;
  // A server serves no memory: it READs and WRITEs.
  const Access access = task_.server
                            ? Access::kLocalWrite
                            : Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;
  const auto region = device_.register_memory(pd_, memory_.get(), sizeof(Memory), access, kClear);
  if (!region) return refused("memory region", region.error());
  region_ = *region;
  verbs::QpOptions options;
  options.pd = pd_;
  options.send_cq = options.recv_cq = cq_;
  options.max_send_wr = kSends;
  options.max_recv_wr = kReceives;
  const auto qpn = device_.create_qp(options);
  if (!qpn) return refused("queue pair", qpn.error());
  qpn_ = *qpn;
  verbs::InitAttributes init;
  if (!task_.server) init.access = Access::kRemoteRead | Access::kRemoteWrite;
  if (const auto ok = device_.to_init(qpn_, init); !ok) return refused("queue pair", ok.error());
  for (std::uint32_t i = 0; i < kReceives; ++i)
    if (!post_receive(i)) return refused("receive queue", Error::kFull);
  step_ = task_.server ? Step::kSource : Step::kIdle;
  return true;
}

// Whatever was not made has handle 0, which is nobody's.
RpingPeer::~RpingPeer() {
  if (qpn_ != Qpn{}) static_cast<void>(device_.destroy_qp(qpn_));
  static_cast<void>(device_.deregister_memory(region_.id));
  static_cast<void>(device_.destroy_cq(cq_));
  static_cast<void>(device_.dealloc_pd(pd_));
}

verbs::CmQpParameters RpingPeer::parameters() const noexcept {
  verbs::CmQpParameters p;
  p.qpn = qpn_;
  p.responder_resources = p.initiator_depth = 1;
  return p;
}

void RpingPeer::start(Instant now) {
  if (!task_.server && step_ == Step::kIdle) begin_ping(now);
}

bool RpingPeer::poll(Instant now) {
  std::array<verbs::Completion, kReceives + kSends> completions;
  const std::size_t n = device_.poll_cq(cq_, completions);
  for (std::size_t i = 0; i < n && step_ != Step::kDone; ++i) {
    const verbs::Completion& c = completions[i];
    if (c.status != verbs::CompletionStatus::kSuccess) {
      if (!ended_ && c.status != verbs::CompletionStatus::kFlushed)
        fail(fmt::format("a work request failed: {}", to_string(c.status)));
      continue;
    }
    switch (c.opcode) {
      case verbs::CompletionOpcode::kRecv:
        on_message(static_cast<std::uint32_t>(c.wr_id), c.byte_len, now);
        break;
      case verbs::CompletionOpcode::kRdmaRead:
        show_text(memory_->text.data());
        step_ = Step::kSink;
        send_message(nullptr, 0);
        break;
      case verbs::CompletionOpcode::kRdmaWrite:
        ++times_.pings;
        step_ = Step::kSource;
        send_message(nullptr, 0);
        break;
      default:
        break;
    }
  }
  return n > 0;
}

void RpingPeer::on_message(std::uint32_t slot, std::uint32_t length, Instant now) {
  const std::array<std::uint8_t, kMessageSize> message = memory_->received[slot];
  if (!post_receive(slot)) return fail("cannot post a receive");
  if (length != kMessageSize)
    return fail(fmt::format("the peer sent a message of {} bytes, not {}", length, kMessageSize));
  if (task_.server) return on_server_message(message);
  switch (step_) {
    case Step::kSource:
      step_ = Step::kSink;
      return send_message(memory_->sink.data(), task_.size);
    case Step::kSink:
      return end_ping(now);
    default:
      return fail("the peer sent a message that nothing waits for");
  }
}

void RpingPeer::on_server_message(Bytes message) {
  if (step_ != Step::kSource && step_ != Step::kSink)
    return fail("the client advertised a buffer while another one is in use");
  remote_address_ = load_be64(message.data());
  remote_rkey_ = Rkey(load_be32(message.data() + 8));
  remote_length_ = load_be32(message.data() + 12);
  if (remote_length_ == 0 || remote_length_ > kRpingSizeMax)
    return fail(fmt::format("the client advertised a buffer of {} bytes; 1 to {} are possible",
                            remote_length_, kRpingSizeMax));
  if (step_ == Step::kSource) {
    step_ = Step::kReading;
    std::fill(memory_->text.begin(), memory_->text.end(), std::uint8_t{0});
    post_rdma(WrOpcode::kRdmaRead, remote_length_);
  } else {
    step_ = Step::kWriting;
    post_rdma(WrOpcode::kRdmaWrite, std::min(text_length(), remote_length_));
  }
}

/// With its terminating zero.
std::uint32_t RpingPeer::text_length() const noexcept {
  const auto end = std::find(memory_->text.begin(), memory_->text.end(), std::uint8_t{0});
  return static_cast<std::uint32_t>(end - memory_->text.begin()) + 1;
}

void RpingPeer::begin_ping(Instant now) {
  write_text(memory_->text.data(), task_.size, times_.pings);
  std::fill_n(memory_->sink.begin(), task_.size, std::uint8_t{0});
  began_ = now;
  step_ = Step::kSource;
  send_message(memory_->text.data(), task_.size);
}

void RpingPeer::end_ping(Instant now) {
  if (task_.validate &&
      !std::equal(memory_->sink.begin(), memory_->sink.begin() + task_.size, memory_->text.begin()))
    return fail(fmt::format("ping {} came back changed", times_.pings));
  show_text(memory_->sink.data());
  const Duration took = now - began_;
  times_.least = times_.pings == 0 ? took : std::min(times_.least, took);
  times_.most = std::max(times_.most, took);
  times_.sum = times_.sum + took;
  ++times_.pings;
  if (task_.count != 0 && times_.pings >= task_.count) {
    step_ = Step::kDone;
  } else {
    begin_ping(now);
  }
}

void RpingPeer::show_text(const std::uint8_t* text) const {
  if (!task_.show) return;
  const auto* end = std::find(text, text + kRpingSizeMax, std::uint8_t{0});
  task_.show({reinterpret_cast<const char*>(text), static_cast<std::size_t>(end - text)});
}

bool RpingPeer::post_receive(std::uint32_t slot) noexcept {
  verbs::RecvWr wr;
  wr.wr_id = slot;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(memory_->received[slot].data()), kMessageSize,
                region_.lkey};
  return device_.post_recv(qpn_, {&wr, 1}).has_value();
}

void RpingPeer::send_message(const std::uint8_t* buffer, std::uint32_t length) {
  // At most two messages a ping are on their way, so a slot is free long before its turn comes again.
  auto& message = memory_->sent[sends_++ % kSends];
  store_be<8>(message.data(), reinterpret_cast<std::uintptr_t>(buffer));
  store_be<4>(message.data() + 8, buffer == nullptr ? 0 : region_.rkey.value());
  store_be<4>(message.data() + 12, length);
  verbs::SendWr wr;
  wr.opcode = WrOpcode::kSend;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(message.data()), kMessageSize, region_.lkey};
  if (!device_.post_send(qpn_, {&wr, 1})) fail("cannot post a message");
}

void RpingPeer::post_rdma(WrOpcode opcode, std::uint32_t length) {
  verbs::SendWr wr;
  wr.opcode = opcode;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(memory_->text.data()), length, region_.lkey};
  wr.remote_address = remote_address_;
  wr.rkey = remote_rkey_;
  if (!device_.post_send(qpn_, {&wr, 1})) fail("cannot post an RDMA request");
}

void RpingPeer::fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
  step_ = Step::kDone;
}

}  // namespace h4a::apps
