// One manager against a peer and an application that do what the input says: MADs made of the input
// with the IDs that the manager gave out, calls, and time. Nothing may crash, nothing may be left.
//
// Input: a sequence of steps, one byte each with what it needs behind it.
#include <algorithm>

#include "base/assert.h"
#include "roce/cm/test_pair.h"

namespace h4a::roce::cm {
namespace {

class Input {
 public:
  Input(const std::uint8_t* p, std::size_t n) : p_(p), n_(n) {}
  [[nodiscard]] bool empty() const { return n_ == 0; }
  std::uint8_t byte() {
    if (n_ == 0) return 0;
    --n_;
    return *p_++;
  }

 private:
  const std::uint8_t* p_;
  std::size_t n_;
};

/// The IDs of the last message that the manager sent, which a peer knows.
struct Known {
  std::uint32_t ours = 0;  // the manager's
  std::uint32_t theirs = 0x11223344;
  Qpn qpn;
};

void learn(Known& known, const net::MadBytes& mad) {
  const auto parsed = net::parse_cm(mad);
  H4A_ASSERT(parsed.has_value());  // whatever we send parses
  if (const auto* req = std::get_if<net::CmReq>(&parsed->message)) {
    known.ours = req->local_comm_id;
    known.qpn = req->local_qpn;
  } else if (const auto* rep = std::get_if<net::CmRep>(&parsed->message)) {
    known.ours = rep->local_comm_id;
    known.qpn = rep->local_qpn;
  } else if (const auto* mra = std::get_if<net::CmMra>(&parsed->message)) {
    known.ours = mra->local_comm_id;
  } else if (const auto* sidr = std::get_if<net::CmSidrReq>(&parsed->message)) {
    known.ours = sidr->request_id;
  }
}

net::CmMessage make_message(Input& in, const Known& k) {
  const std::uint8_t kind = in.byte();
  const std::uint32_t theirs = k.theirs ^ (kind >> 6);
  switch (kind % 11) {
    case 0: {
      net::CmReq m;
      m.local_comm_id = theirs;
      m.service_id = net::rdma_service_id(net::PortSpace::kTcp, test::Pair::kPort);
      m.local_qpn = Qpn(0x300U + in.byte());
      m.path_mtu = in.byte() % 7;
      m.transport = static_cast<net::CmTransport>(in.byte() % 4 / 3);
      m.pkey = 0xffff;
      m.max_cm_retries = in.byte() & 15;
      m.local_cm_timeout = in.byte() & 31;
      m.responder_resources = in.byte();
      m.primary.local_gid = test::host_address(1);
      m.primary.remote_gid = test::host_address(0);
      m.primary.local_ack_timeout = in.byte() & 31;
      net::IpCmHeader{1, test::host_address(1), test::host_address(0)}.build(m.private_data.data());
      return m;
    }
    case 1: {
      net::CmRep m;
      m.local_comm_id = theirs;
      m.remote_comm_id = k.ours;
      m.local_qpn = Qpn(0x300U + in.byte());
      m.responder_resources = in.byte();
      m.initiator_depth = in.byte();
      m.target_ack_delay = in.byte() & 31;
      return m;
    }
    case 2:
      return net::CmRtu{theirs, k.ours, {}};
    case 3: {
      net::CmRej m;
      m.local_comm_id = theirs;
      m.remote_comm_id = in.byte() % 2 == 0 ? k.ours : 0;
      m.reason = static_cast<net::CmRejectReason>(in.byte());
      return m;
    }
    case 4:
      return net::CmMra{theirs,
                        k.ours,
                        static_cast<net::CmMessageKind>(in.byte() & 3),
                        static_cast<std::uint8_t>(in.byte() & 31),
                        {}};
    case 5:
      return net::CmDreq{theirs, k.ours, in.byte() % 4 == 0 ? Qpn(5) : k.qpn, {}};
    case 6:
      return net::CmDrep{theirs, k.ours, {}};
    case 7: {
      net::CmSidrReq m;
      m.request_id = theirs;
      m.service_id = net::rdma_service_id(net::PortSpace::kUdp, test::Pair::kPort);
      net::IpCmHeader{1, test::host_address(1), test::host_address(0)}.build(m.private_data.data());
      return m;
    }
    case 8: {
      net::CmSidrRep m;
      m.request_id = k.ours;
      m.service_id = net::rdma_service_id(net::PortSpace::kUdp, test::Pair::kPort);
      m.qpn = Qpn(0x300U + in.byte());
      m.status = static_cast<net::CmSidrStatus>(in.byte() % 8);
      return m;
    }
    case 9:
      return net::CmLap{theirs, k.ours, k.qpn};
    default:
      return net::CmApr{};
  }
}

class Run {
 public:
  explicit Run(Input in) : in_(in), manager_(options(), random_) {
    static_cast<void>(manager_.listen(test::Pair::listen_options()));
    static_cast<void>(manager_.listen(test::Pair::listen_options(verbs::QpType::kUd)));
  }
  void go() {
    for (int steps = 0; !in_.empty() && steps < 2000; ++steps) step(in_.byte());
    for (const verbs::CmId id : ids_) static_cast<void>(manager_.destroy(id, now_));
    for (int i = 0; i < 1000 && !manager_.next_deadline().is_never(); ++i) {
      now_ = std::max(now_, manager_.next_deadline());
      manager_.run_timers(now_);
      drain();
    }
    H4A_ASSERT(manager_.connections() == 0);
  }

 private:
  static Options options() {
    Options o;
    o.connection_max = 8;
    return o;
  }
  void step(std::uint8_t what) {
    switch (what % 10) {
      case 0:
      case 1:
      case 2:
        receive(what);
        break;
      case 3:
        connect(what);
        break;
      case 4: {
        verbs::CmAcceptOptions o;
        o.qp = test::Pair::qp(next_qpn_++);
        static_cast<void>(manager_.settings(pick(), o.qp));
        static_cast<void>(manager_.accept(pick(), o, now_));
        break;
      }
      case 5:
        static_cast<void>(manager_.reject(pick(), {}, now_));
        break;
      case 6:
        static_cast<void>(manager_.disconnect(pick(), {}, now_));
        break;
      case 7:
        static_cast<void>(manager_.destroy(pick(), now_));
        break;
      default:
        now_ = now_ + Duration::ms(std::int64_t{1} << (in_.byte() % 14));
        manager_.run_timers(now_);
    }
    drain();
  }
  void receive(std::uint8_t what) {
    net::MadBytes mad;
    net::build_cm({in_.byte(), 0, make_message(in_, known_)}, mad);
    if (what >= 0xf0) mad[in_.byte()] = in_.byte();
    const Peer from{test::host_address(0), test::host_address(1), kClear};
    const Received r = manager_.receive(from, mad, 1024, now_);
    if (r.replied == verbs::CmId{}) return;
    H4A_ASSERT(manager_.settings(r.replied, {}).has_value());
    what >= 0x80 ? manager_.ready(r.replied) : manager_.refuse(r.replied, now_);
  }
  void connect(std::uint8_t what) {
    auto o = test::Pair::connect_options(what >= 0x80 ? verbs::QpType::kUd : verbs::QpType::kRc);
    o.qp = test::Pair::qp(next_qpn_++);
    if (const auto id = manager_.connect(o, now_)) ids_.push_back(*id);
  }
  verbs::CmId pick() { return ids_.empty() ? verbs::CmId{} : ids_[in_.byte() % ids_.size()]; }
  void drain() {
    verbs::CmEvent e;
    while (manager_.poll_event(e))
      if (e.type == verbs::CmEvent::Type::kConnectRequest) ids_.push_back(e.id);
    Output o;
    while (manager_.next_output(o)) learn(known_, o.mad);
  }

  Input in_;
  SeededRandom random_{1};
  Manager manager_;
  Known known_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::vector<verbs::CmId> ids_;
  std::uint32_t next_qpn_ = 0x100;
};

}  // namespace
}  // namespace h4a::roce::cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h4a::roce::cm::Run(h4a::roce::cm::Input(data, size)).go();
  return 0;
}
