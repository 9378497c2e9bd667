#include "apps/pingpong_end.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace h4a::apps {
namespace {

using verbs::QpType;

constexpr std::uint64_t kReceiveId = 1;
constexpr std::uint64_t kSendId = 2;
constexpr std::uint32_t kQkey = 0x1111'1111;  // that of ibv_ud_pingpong
constexpr std::uint8_t kFill = 0x7b;          // what buffers hold before the first message
constexpr std::size_t kPage = 4096;  // each page of a message that is validated starts with 0

}  // namespace

PingpongEnd::PingpongEnd(verbs::Device& device, const PingpongOptions& options)
    : device_(device), options_(options) {
  receive_buffer_.assign(offset() + options.size, kFill);
  if (options.client) send_buffer_.assign(offset() + options.size, kFill);
}

std::size_t PingpongEnd::offset() const noexcept {
  return options_.type == QpType::kUd ? verbs::kGrhBytes : 0;
}

bool PingpongEnd::fail(std::string text) {
  if (error_.empty()) error_ = std::move(text);
  return false;
}

std::unique_ptr<PingpongEnd> PingpongEnd::create(verbs::Device& device, Random& random,
                                                 const PingpongOptions& options,
                                                 std::string& error) {
  auto end = std::make_unique<PingpongEnd>(device, options);
  return end->make_objects(random, error) ? std::move(end) : nullptr;
}

bool PingpongEnd::make_objects(Random& random, std::string& error) {
  if (options_.gid_index >= device_.addresses().size()) {
    error = fmt::format("-g {}: there are {} addresses, counted from 0", options_.gid_index,
                        device_.addresses().size());
    return false;
  }
  const IpAddress gid = device_.addresses()[options_.gid_index].address;
  const std::uint16_t largest = device_.max_path_mtu(false, !gid.is_v4());
  const bool datagram = options_.type == QpType::kUd;
  if (datagram && options_.size > largest) {
    error = fmt::format("-s {}: a datagram fits one packet, on this port {} bytes", options_.size,
                        largest);
    return false;
  }
  if (datagram) options_.path_mtu = largest;
  if (options_.path_mtu > largest) {
    error = fmt::format("-m {}: the port carries path MTUs up to {}", options_.path_mtu, largest);
    return false;
  }
  const auto pd = device_.alloc_pd();
  const auto cq = device_.create_cq(options_.receives + 2);
  if (!pd || !cq) return (error = "no memory for the queues: lower -r"), false;
  const auto qpn = device_.create_qp({.type = options_.type,
                                      .pd = *pd,
                                      .send_cq = *cq,
                                      .recv_cq = *cq,
                                      .max_send_wr = 2,
                                      .max_recv_wr = options_.receives});
  if (!qpn) {
    error = fmt::format("no queue pair: {}", to_string(qpn.error()));
    return false;
  }
  std::vector<std::uint8_t>& out = options_.client ? send_buffer_ : receive_buffer_;
  const auto in_region = device_.register_memory(
      *pd, receive_buffer_.data(), receive_buffer_.size(), verbs::Access::kLocalWrite);
  const auto out_region =
      device_.register_memory(*pd, out.data(), out.size(), verbs::Access::kLocalWrite);
  if (!in_region || !out_region || !device_.to_init(*qpn, {.qkey = kQkey}))
    return (error = "the device refuses the buffers or the queue pair"), false;
  pd_ = *pd;
  cq_ = *cq;
  qpn_ = *qpn;
  receive_region_ = *in_region;
  send_region_ = *out_region;
  local_ = {qpn_, Psn(random.u32()), gid};
  if (post_receives()) return true;
  error = error_;
  return false;
}

bool PingpongEnd::connect(const PingpongContact& remote) {
  remote_ = remote;
  if (remote.gid.is_unspecified())
    return fail("the peer has no GID: give it one, as in ibv_rc_pingpong -g 1");
  if (remote.gid.is_v4() != local_.gid.is_v4())
    return fail(
        fmt::format("the peer's address {} and ours, {}, are not of one family: choose with "
                    "-g on either side",
                    to_string(remote.gid), to_string(local_.gid)));
  verbs::RtrAttributes rtr{.local_address = local_.gid,
                           .remote_address = remote.gid,
                           .remote_qpn = remote.qpn,
                           .rq_psn = remote.psn,
                           .path_mtu = options_.path_mtu,
                           .max_dest_rd_atomic = 1,
                           .min_rnr_timer = 12,
                           .priority = options_.priority};
  if (const auto done = device_.to_rtr(qpn_, rtr); !done)
    return fail(fmt::format("cannot reach {} from {}: {}", to_string(remote.gid),
                            to_string(local_.gid), to_string(done.error())));
  const verbs::RtsAttributes rts{
      .sq_psn = local_.psn, .timeout = 14, .retry_count = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  if (!device_.to_rts(qpn_, rts)) return fail("the queue pair does not go to RTS");
  return options_.type != QpType::kUd || connect_address(remote);
}

bool PingpongEnd::connect_address(const PingpongContact& remote) {
  const auto ah = device_.create_ah(
      pd_,
      {.local_address = local_.gid, .remote_address = remote.gid, .priority = options_.priority});
  if (!ah)
    return fail(fmt::format("cannot reach {} from {}: {}", to_string(remote.gid),
                            to_string(local_.gid), to_string(ah.error())));
  ah_ = *ah;
  return true;
}

bool PingpongEnd::serve() {
  if (!options_.client) return true;
  if (options_.validate) {
    for (std::size_t i = 0; i < options_.size; ++i)
      send_buffer_[offset() + i] =
          i % kPage == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
  }
  return post_send();
}

bool PingpongEnd::post_receives() {
  verbs::RecvWr wr;
  wr.wr_id = kReceiveId;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(receive_buffer_.data()),
                static_cast<std::uint32_t>(receive_buffer_.size()), receive_region_.lkey};
  for (; receives_posted_ < options_.receives; ++receives_posted_)
    if (!device_.post_recv(qpn_, {&wr, 1})) return fail("cannot post a receive");
  return true;
}

bool PingpongEnd::post_send() {
  const std::uint8_t* from = options_.client ? send_buffer_.data() : receive_buffer_.data();
  verbs::SendWr wr;
  wr.wr_id = kSendId;
  wr.sge_count = 1;
  wr.sges[0] = {reinterpret_cast<std::uintptr_t>(from) + offset(), options_.size,
                send_region_.lkey};
  wr.ah = ah_;
  wr.remote_qpn = remote_.qpn;
  wr.remote_qkey = kQkey;
  if (const auto posted = device_.post_send(qpn_, {&wr, 1}); !posted)
    return fail(fmt::format("cannot post a send: {}", to_string(posted.error())));
  send_pending_ = receive_pending_ = true;
  return true;
}

std::size_t PingpongEnd::poll() {
  std::array<verbs::Completion, 16> completions;
  const std::size_t n = device_.poll_cq(cq_, completions);
  for (std::size_t i = 0; i < n && error_.empty(); ++i) handle(completions[i]);
  return n;
}

void PingpongEnd::handle(const verbs::Completion& c) {
  const bool receive = c.wr_id == kReceiveId;
  if (c.status != verbs::CompletionStatus::kSuccess) {
    static_cast<void>(fail(fmt::format("a {} failed: {} (status {})", receive ? "receive" : "send",
                                       verbs::to_string(c.status), static_cast<int>(c.status))));
    return;
  }
  if (receive && c.byte_len != offset() + options_.size) {
    static_cast<void>(
        fail(fmt::format("a message of {} bytes came, not of {}: use the same -s on "
                         "both sides",
                         c.byte_len - offset(), options_.size)));
    return;
  }
  if (receive) {
    ++received_;
    receive_pending_ = false;
    if (--receives_posted_ <= 1 && !post_receives()) return;
  } else {
    ++sent_;
    send_pending_ = false;
  }
  if (sent_ < options_.iterations && !send_pending_ && !receive_pending_)
    static_cast<void>(post_send());
}

bool PingpongEnd::validate() {
  if (!options_.validate) return true;
  for (std::size_t i = 0; i < options_.size; i += options_.client ? 1 : kPage) {
    const std::size_t at = offset() + i;
    const std::uint8_t wanted = options_.client ? send_buffer_[at] : std::uint8_t{0};
    if (receive_buffer_[at] != wanted)
      return fail(fmt::format("invalid data at byte {} of the message (page {})", i, i / kPage));
  }
  return true;
}

}  // namespace h4a::apps
