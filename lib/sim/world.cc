#include "sim/world.h"

#include <algorithm>

#include "base/assert.h"

namespace h4a::sim {
namespace {

stack::StackOptions host_options(const WorldOptions& options, IpAddress address) {
  stack::StackOptions o;
  o.addresses = {{address, static_cast<std::uint8_t>(address.is_v4() ? 24 : 64)}};
  o.engine = options.engine;
  return o;
}

template <class T>
T must(Result<T> r) {
  H4A_ASSERT(r.has_value());
  if constexpr (!std::is_void_v<T>) return *r;
}

}  // namespace

World::World(const WorldOptions& options) : random_(options.seed), link_(options.link, random_) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto last = static_cast<std::uint8_t>(i + 1);
    addresses_[i] = IpAddress::v4(10, 0, 0, last);
    if (options.ipv6) {
      std::array<std::uint8_t, 16> raw{0xfd, 0x77};
      raw[15] = last;
      addresses_[i] = IpAddress::load_v6(raw.data());
    }
    hosts_[i] = std::make_unique<stack::Stack>(link_.port(i), host_options(options, addresses_[i]),
                                               random_);
  }
}

Instant World::turn() {
  link_.set_now(now_);
  Instant next = Instant::never();
  bool more = false;
  for (auto& host : hosts_) {
    const stack::PollResult r = host->poll_once(now_);
    more = more || r.more || r.sent > 0 || r.received > 0;
    next = std::min(next, r.next_deadline);
  }
  if (application_) next = std::min(next, application_(now_));
  next = std::min(next, link_.next_arrival());
  // A turn that did something is followed by one a moment later, as on a real core.
  if (more) next = std::min(next, now_ + Duration::ns(200));
  return next;
}

bool World::run_until(const std::function<bool()>& done, Duration limit) {
  const Instant end = now_ + limit;
  while (!done()) {
    const Instant next = turn();
    if (done()) return true;
    if (next > end) return false;
    now_ = std::max(next, now_ + Duration::ns(1));
  }
  return true;
}

void World::run_for(Duration span) {
  const Instant end = now_ + span;
  while (now_ < end) {
    const Instant next = turn();
    now_ = std::min(end, std::max(next, now_ + Duration::ns(1)));
  }
}

Protection protect(World& world, EspSuite suite) {
  Protection p;
  Spi spi[2];  // spi[i]: inbound at host i
  for (std::size_t i = 0; i < 2; ++i) {
    p.of_host[i] = must(world.host(i).create_association({world.address(i), world.address(1 - i)}));
    spi[i] = must(world.host(i).allocate_spi());
  }
  for (std::size_t to = 0; to < 2; ++to) {
    Secret<kEspKeyMaterialMax> key;
    world.random().fill(key.resize(key_material_size(suite)));
    for (std::size_t i = 0; i < 2; ++i) {
      verbs::SaOptions sa;
      sa.direction = i == to ? verbs::SaDirection::kInbound : verbs::SaDirection::kOutbound;
      sa.spi = spi[to];
      sa.suite = suite;
      sa.key = key.duplicate();
      must(world.host(i).install_sa(p.of_host[i], std::move(sa)));
    }
  }
  return p;
}

Pair connect_pair(World& world, const PairOptions& options, const Protection& protection) {
  Pair pair;
  for (std::size_t i = 0; i < 2; ++i) {
    stack::Stack& host = world.host(i);
    Endpoint& e = pair.of_host[i];
    e.pd = must(host.alloc_pd());
    e.cq = must(host.create_cq(4 * options.queue_depth));
    verbs::QpOptions qp;
    qp.type = options.type;
    qp.pd = e.pd;
    qp.send_cq = qp.recv_cq = e.cq;
    qp.max_send_wr = qp.max_recv_wr = options.queue_depth;
    qp.max_inline = options.max_inline;
    if (options.shared_receives)
      qp.srq = e.srq = must(host.create_srq({.pd = e.pd, .max_wr = options.queue_depth}));
    e.qpn = must(host.create_qp(qp));
    must(host.to_init(e.qpn, {.access = options.access}));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    stack::Stack& host = world.host(i);
    verbs::RtrAttributes rtr;
    rtr.local_address = world.address(i);
    rtr.remote_address = world.address(1 - i);
    rtr.remote_qpn = pair.of_host[1 - i].qpn;
    rtr.rq_psn = options.first_psn[1 - i];
    rtr.path_mtu = options.path_mtu;
    rtr.max_dest_rd_atomic = options.rd_atomic;
    rtr.min_rnr_timer = options.min_rnr_timer;
    rtr.association = protection.of_host[i];
    rtr.end_to_end_credits = options.end_to_end_credits;
    must(host.to_rtr(pair.of_host[i].qpn, rtr));
    verbs::RtsAttributes rts;
    rts.sq_psn = options.first_psn[i];
    rts.timeout = options.timeout;
    rts.retry_count = options.retry_count;
    rts.rnr_retry = options.rnr_retry;
    rts.max_rd_atomic = options.rd_atomic;
    must(host.to_rts(pair.of_host[i].qpn, rts));
  }
  return pair;
}

}  // namespace h4a::sim
