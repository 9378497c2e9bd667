#include "h4a/establish.h"

#include <utility>

namespace h4a::http {
namespace {

Result<void> install(verbs::Device& device, AssociationId association, verbs::SaDirection direction,
                     Spi spi, EspSuite suite, bootstrap::KeyMaterial& key) noexcept {
  verbs::SaOptions sa;
  sa.direction = direction;
  sa.spi = spi;
  sa.suite = suite;
  sa.key = std::move(key);
  return device.install_sa(association, std::move(sa));
}

Result<void> install_both(verbs::Device& device, AssociationId association,
                          bootstrap::SessionParameters& agreed) noexcept {
  auto done = install(device, association, verbs::SaDirection::kInbound, agreed.inbound_spi,
                      agreed.suite, agreed.inbound_key);
  if (!done) return done;
  return install(device, association, verbs::SaDirection::kOutbound, agreed.outbound_spi,
                 agreed.suite, agreed.outbound_key);
}

}  // namespace

Result<bootstrap::LocalParameters> describe(verbs::Device& device, const LocalEndpoint& local,
                                            const IpAddress& address) noexcept {
  bootstrap::LocalParameters p;
  p.path_mtu = device.max_path_mtu(true, !address.is_v4());
  if (p.path_mtu == 0) return failure(Error::kInvalidArgument);
  const auto spi = device.allocate_spi();
  if (!spi) return failure(spi.error());
  p.candidates = {{address, 0}};
  p.icrc_address = address;
  p.inbound_spi = *spi;
  p.qpn = local.qpn;
  p.psn = local.psn;
  p.receive_depth = local.recv_depth;
  p.receive_bytes = local.recv_bytes;
  return p;
}

Result<AssociationId> establish(Session& session, bootstrap::SessionParameters& agreed,
                                const IpAddress& local, const IpAddress& remote,
                                Instant now) noexcept {
  verbs::Device& device = session.device();
  const auto association = device.create_association({local, remote});
  if (!association) return association;
  auto done = install_both(device, *association, agreed);
  if (done) {
    PeerEndpoint peer;
    peer.local_address = local;
    peer.remote_address = remote;
    peer.qpn = agreed.peer_qpn;
    peer.psn = agreed.peer_psn;
    peer.path_mtu = agreed.path_mtu;
    peer.recv_depth = agreed.peer_receive_depth;
    peer.recv_bytes = agreed.peer_receive_bytes;
    peer.association = *association;
    peer.lifetime = Duration::s(agreed.lifetime_s);
    peer.authorities = agreed.authorities;
    done = session.connect(peer, now);
  }
  if (done) return association;
  (void)device.destroy_association(*association);
  return failure(done.error());
}

}  // namespace h4a::http
