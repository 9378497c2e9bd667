// The generated code keeps the layout that docs/WIRE.md states: octet strings are never
// byte-swapped.
#include <bootstrap_generated.h>

#include "test/test_support.h"

namespace h4a {
namespace {

void structs_have_the_stated_sizes(void**) {
  assert_int_equal(sizeof(fb::Address), 16);
  assert_int_equal(sizeof(fb::Candidate), 18);
  assert_int_equal(sizeof(fb::PublicKey), 32);
  assert_int_equal(sizeof(fb::Nonce), 16);
}

void octets_travel_as_they_are(void**) {
  std::uint8_t octets[16];
  for (std::uint8_t i = 0; i < 16; ++i) octets[i] = static_cast<std::uint8_t>(i * 11);
  const fb::Nonce nonce{flatbuffers::span<const std::uint8_t, 16>(octets)};
  assert_memory_equal(&nonce, octets, 16);
}

void the_identifier_of_an_offer(void**) {
  assert_string_equal(fb::OfferIdentifier(), "H4AO");
}

}  // namespace
}  // namespace h4a

int main() {
  using namespace h4a;
  const CMUnitTest tests[] = {
      cmocka_unit_test(structs_have_the_stated_sizes),
      cmocka_unit_test(octets_travel_as_they_are),
      cmocka_unit_test(the_identifier_of_an_offer),
  };
  return cmocka_run_group_tests_name("schema", tests, nullptr, nullptr);
}
