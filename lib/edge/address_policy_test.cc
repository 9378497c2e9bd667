#include "edge/address_policy.h"

#include <vector>

#include "test/test_support.h"

namespace h4a::edge {
namespace {

IpAddress ip(std::string_view text) {
  const auto a = IpAddress::parse(text);
  if (!a) fail_msg("%s", std::string(text).c_str());
  return *a;
}

void scopes(void**) {
  const std::pair<const char*, AddressScope> cases[] = {
      {"0.0.0.0", AddressScope::kNone},
      {"0.1.2.3", AddressScope::kNone},
      {"224.0.0.1", AddressScope::kNone},
      {"240.0.0.1", AddressScope::kNone},
      {"255.255.255.255", AddressScope::kNone},
      {"::", AddressScope::kNone},
      {"ff02::1", AddressScope::kNone},
      {"127.0.0.1", AddressScope::kLoopback},
      {"127.255.0.9", AddressScope::kLoopback},
      {"::1", AddressScope::kLoopback},
      {"169.254.1.1", AddressScope::kLinkLocal},
      {"fe80::1", AddressScope::kLinkLocal},
      {"10.99.0.1", AddressScope::kPrivate},
      {"172.16.0.1", AddressScope::kPrivate},
      {"172.31.255.1", AddressScope::kPrivate},
      {"172.32.0.1", AddressScope::kGlobal},
      {"192.168.1.1", AddressScope::kPrivate},
      {"192.169.1.1", AddressScope::kGlobal},
      {"100.64.0.1", AddressScope::kPrivate},
      {"100.128.0.1", AddressScope::kGlobal},
      {"fd77::1", AddressScope::kPrivate},
      {"fc00::1", AddressScope::kPrivate},
      {"2001:db8::1", AddressScope::kGlobal},
      {"8.8.8.8", AddressScope::kGlobal},
      {"::ffff:10.0.0.1", AddressScope::kPrivate},
  };
  for (const auto& [text, scope] : cases)
    if (scope_of(ip(text)) != scope) fail_msg("%s", text);
}

struct Case {
  const char* candidate;
  std::vector<const char*> resolved;
  bool allowed;
};

void rules(void**) {
  const Case cases[] = {
      {"203.0.113.5", {"203.0.113.5"}, true},       // the address itself
      {"203.0.113.6", {"203.0.113.5"}, true},       // another global one
      {"2001:db8::9", {"203.0.113.5"}, true},       // of either family
      {"10.0.0.1", {"203.0.113.5"}, false},         // a public name, our private network
      {"127.0.0.1", {"203.0.113.5"}, false},        // our own services
      {"169.254.169.254", {"203.0.113.5"}, false},  // the cloud's metadata service
      {"fe80::1", {"2001:db8::1"}, false},
      {"10.99.0.1", {"10.0.0.5"}, true},
      {"10.99.0.1", {"192.168.7.7"}, true},
      {"203.0.113.5", {"10.0.0.5"}, false},
      {"127.0.0.1", {"10.0.0.5"}, false},
      {"169.254.1.1", {"10.0.0.5"}, false},
      {"10.99.0.1", {"203.0.113.5", "10.0.0.5"}, true},  // split horizon
      {"10.99.0.1", {"127.0.0.1"}, true},                // trials on one machine
      {"fd77::1", {"::1"}, true},
      {"203.0.113.5", {"127.0.0.1"}, true},
      {"224.0.0.1", {"127.0.0.1"}, false},
      {"0.0.0.0", {"0.0.0.0"}, false},
      {"224.0.0.1", {"224.0.0.1"}, false},
      {"10.0.0.1", {}, false},
  };
  for (const Case& c : cases) {
    std::vector<IpAddress> resolved;
    for (const char* r : c.resolved) resolved.push_back(ip(r));
    if (address_allowed(ip(c.candidate), resolved) != c.allowed)
      fail_msg("row %td: %s", &c - cases, c.candidate);
  }
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {cmocka_unit_test(scopes), cmocka_unit_test(rules)};
  return cmocka_run_group_tests_name("address_policy", tests, nullptr, nullptr);
}
