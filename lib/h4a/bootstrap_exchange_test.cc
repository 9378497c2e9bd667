#include "h4a/bootstrap_exchange.h"

#include "test/test_support.h"

namespace h4a::bootstrap {
namespace {

LocalParameters client_side() {
  LocalParameters p;
  p.candidates = {{IpAddress::v4(10, 99, 0, 2), 0}};
  p.icrc_address = IpAddress::v4(10, 99, 0, 2);
  p.inbound_spi = Spi(0x1000);
  p.qpn = Qpn(0x111);
  p.psn = Psn(0x222222);
  p.path_mtu = 4096;
  p.receive_depth = 32;
  p.features = kFeatureBitmapAck | kFeatureIcrcElision;
  p.lifetime_s = 600;
  return p;
}

LocalParameters server_side() {
  LocalParameters p;
  p.candidates = {{IpAddress::v4(10, 99, 0, 1), 0}};
  p.icrc_address = IpAddress::v4(10, 99, 0, 1);
  p.inbound_spi = Spi(0x2000);
  p.qpn = Qpn(0x333);
  p.psn = Psn(0x444444);
  p.path_mtu = 1024;
  p.receive_depth = 128;
  p.features = kFeatureBitmapAck | kFeatureSelfDescribingWrites;
  p.lifetime_s = 3600;
  return p;
}

const std::vector<std::string> kNames{"files.example:8443"};

bool equal(Bytes a, Bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// One whole exchange. The tests look at what each side got.
struct Exchange {
  SeededRandom client_random{1};
  SeededRandom server_random{2};
  Result<ClientExchange> client = failure(Error::kInvalidState);
  Result<ServerExchange> server = failure(Error::kInvalidState);
  Result<Accepted> accepted = failure(Error::kInvalidState);

  explicit Exchange(const LocalParameters& c = client_side(),
                    const LocalParameters& s = server_side()) {
    client = ClientExchange::start(c, client_random);
    if (client) server = ServerExchange::receive(client->offer());
    if (server) accepted = server->answer(s, kNames, server_random);
  }
};

void both_sides_end_with_matching_keys(void**) {
  Exchange e;
  assert_ok(e.accepted);
  const auto client = e.client->finish(e.accepted->answer);
  assert_ok(client);
  const SessionParameters& server = e.accepted->session;
  assert_int_equal(client->inbound_key.size(), key_material_size(EspSuite::kAesGcm256));
  assert_true(equal(client->inbound_key.bytes(), server.outbound_key.bytes()));
  assert_true(equal(client->outbound_key.bytes(), server.inbound_key.bytes()));
  assert_false(equal(client->inbound_key.bytes(), client->outbound_key.bytes()));
}

void both_sides_see_each_other_mirrored(void**) {
  Exchange e;
  const auto client = e.client->finish(e.accepted->answer);
  assert_ok(client);
  const SessionParameters& server = e.accepted->session;
  assert_eq(client->peer_qpn, Qpn(0x333));
  assert_eq(client->peer_psn, Psn(0x444444));
  assert_eq(client->local_qpn, server.peer_qpn);
  assert_eq(client->local_psn, server.peer_psn);
  assert_eq(client->outbound_spi, server.inbound_spi);
  assert_eq(client->inbound_spi, server.outbound_spi);
  assert_eq(client->peer_icrc_address, server.local_icrc_address);
  assert_eq(client->local_icrc_address, server.peer_icrc_address);
  assert_int_equal(client->peer_receive_depth, 128);
  assert_int_equal(server.peer_receive_depth, 32);
  for (const SessionParameters* s : {&*client, &server}) {
    assert_eq(s->suite, EspSuite::kAesGcm256);
    assert_int_equal(s->path_mtu, 1024);
    assert_eq(s->features, kFeatureBitmapAck);
    assert_int_equal(s->lifetime_s, 600);
    assert_eq(s->authorities, kNames);
  }
}

void the_clients_order_of_suites_decides(void**) {
  LocalParameters c = client_side();
  c.suites = {EspSuite::kAesGcm128, EspSuite::kAesGcm256};
  Exchange e(c);
  assert_ok(e.accepted);
  assert_eq(e.accepted->session.suite, EspSuite::kAesGcm128);
  LocalParameters s = server_side();
  s.suites = {EspSuite::kAesGcm256};
  assert_eq(Exchange(c, s).accepted->session.suite, EspSuite::kAesGcm256);
  c.suites = {EspSuite::kAesGcm128};
  assert_error(Exchange(c, s).accepted, Error::kUnsupported);
}

void a_repeated_offer_makes_other_keys(void**) {
  Exchange e;
  const auto again = e.server->answer(server_side(), kNames, e.server_random);
  assert_ok(again);
  assert_false(equal(again->session.inbound_key.bytes(), e.accepted->session.inbound_key.bytes()));
}

void a_changed_octet_on_the_way_changes_the_keys(void**) {
  Exchange e;
  auto answer = e.accepted->answer;
  const auto nonce = decode_answer(answer)->terms.nonce;
  const auto at = std::search(answer.begin(), answer.end(), nonce.begin(), nonce.end());
  assert_true(at != answer.end());
  *at ^= 1;
  const auto client = e.client->finish(answer);
  assert_ok(client);  // well-formed, yet the keys do not fit: the first packet fails its ICV
  assert_false(equal(client->inbound_key.bytes(), e.accepted->session.outbound_key.bytes()));
}

void an_exchange_finishes_once(void**) {
  Exchange e;
  assert_ok(e.client->finish(e.accepted->answer));
  assert_error(e.client->finish(e.accepted->answer), Error::kInvalidState);
}

void a_low_order_key_is_refused_by_both(void**) {
  Exchange e;
  Offer offer = *decode_offer(e.client->offer());
  offer.terms.public_key = {};
  const auto server = ServerExchange::receive(encode_offer(offer));
  assert_ok(server);
  assert_error(server->answer(server_side(), kNames, e.server_random), Error::kAuthentication);
  Answer answer = *decode_answer(e.accepted->answer);
  answer.terms.public_key = {};
  assert_error(e.client->finish(encode_answer(answer)), Error::kAuthentication);
}

void our_own_key_reflected_is_refused(void**) {
  Exchange e;
  Answer answer = *decode_answer(e.accepted->answer);
  answer.terms.public_key = decode_offer(e.client->offer())->terms.public_key;
  assert_error(e.client->finish(encode_answer(answer)), Error::kAuthentication);
}

void an_answer_may_not_exceed_the_offer(void**) {
  LocalParameters c = client_side();
  c.suites = {EspSuite::kAesGcm128};
  Exchange e(c);
  Answer answer = *decode_answer(e.accepted->answer);
  answer.suite = EspSuite::kAesGcm256;
  assert_error(e.client->finish(encode_answer(answer)), Error::kMalformed);
  Exchange f;
  answer = *decode_answer(f.accepted->answer);
  answer.terms.features |= kFeatureSelfDescribingWrites;
  assert_error(f.client->finish(encode_answer(answer)), Error::kMalformed);
}

void the_icrc_needs_one_address_family(void**) {
  LocalParameters s = server_side();
  s.icrc_address = *IpAddress::parse("fd77::1");
  assert_error(Exchange(client_side(), s).accepted, Error::kUnsupported);
}

void bad_local_parameters_are_the_callers_error(void**) {
  LocalParameters p = client_side();
  p.inbound_spi = Spi(0);
  assert_error(Exchange(p).client, Error::kInvalidArgument);
  p = client_side();
  p.receive_depth = kReceiveDepthMax + 1;
  assert_error(Exchange(p).client, Error::kInvalidArgument);
  p = client_side();
  p.suites = {};
  assert_error(Exchange(p).client, Error::kInvalidArgument);
  p = server_side();
  p.path_mtu = 512;
  p.candidates = {};
  assert_error(Exchange(client_side(), p).accepted, Error::kInvalidArgument);
  Exchange e;
  assert_error(e.server->answer(server_side(), {}, e.server_random), Error::kInvalidArgument);
}

}  // namespace
}  // namespace h4a::bootstrap

int main() {
  using namespace h4a::bootstrap;
  const CMUnitTest tests[] = {
      cmocka_unit_test(both_sides_end_with_matching_keys),
      cmocka_unit_test(both_sides_see_each_other_mirrored),
      cmocka_unit_test(the_clients_order_of_suites_decides),
      cmocka_unit_test(a_repeated_offer_makes_other_keys),
      cmocka_unit_test(a_changed_octet_on_the_way_changes_the_keys),
      cmocka_unit_test(an_exchange_finishes_once),
      cmocka_unit_test(a_low_order_key_is_refused_by_both),
      cmocka_unit_test(our_own_key_reflected_is_refused),
      cmocka_unit_test(an_answer_may_not_exceed_the_offer),
      cmocka_unit_test(the_icrc_needs_one_address_family),
      cmocka_unit_test(bad_local_parameters_are_the_callers_error),
  };
  return cmocka_run_group_tests_name("bootstrap_exchange", tests, nullptr, nullptr);
}
