#include "edge/offer_queue.h"

#include <thread>

#include "test/test_support.h"

namespace h4a::edge {
namespace {

/// Answers with the offer's own octets.
class Echo final : public OfferHandler {
 public:
  OfferReply answer(Bytes offer, const AuthInfo& from) override {
    ++calls;
    last_authority = from.authority;
    return {200, {offer.begin(), offer.end()}};
  }
  int calls = 0;
  std::string last_authority;
};

AuthInfo from(const char* authority) {
  AuthInfo a;
  a.authority = authority;
  return a;
}

void an_offer_is_answered_when_polled(void**) {
  OfferQueue queue;
  Echo echo;
  OfferReply got;
  assert_true(queue.push({1, 2, 3}, from("a.example"), [&](OfferReply&& r) { got = r; }) !=
              nullptr);
  assert_int_equal(queue.waiting(), 1);
  assert_int_equal(echo.calls, 0);
  assert_int_equal(queue.poll(echo), 1);
  assert_int_equal(got.status, 200);
  assert_eq(got.answer, (std::vector<std::uint8_t>{1, 2, 3}));
  assert_string_equal(echo.last_authority.c_str(), "a.example");
  assert_int_equal(queue.poll(echo), 0);
}

void a_full_queue_takes_no_more(void**) {
  OfferQueue queue(2);
  Echo echo;
  int done = 0;
  const auto count = [&](OfferReply&&) { ++done; };
  assert_true(queue.push({}, {}, count) != nullptr);
  assert_true(queue.push({}, {}, count) != nullptr);
  assert_true(queue.push({}, {}, count) == nullptr);
  assert_int_equal(queue.poll(echo, 1), 1);  // bounded work
  assert_true(queue.push({}, {}, count) != nullptr);
  assert_int_equal(queue.poll(echo, 8), 2);
  assert_int_equal(done, 3);
}

void an_abandoned_offer_is_not_looked_at(void**) {
  OfferQueue queue;
  Echo echo;
  int done = 0;
  const auto ticket = queue.push({}, {}, [&](OfferReply&&) { ++done; });
  ticket->abandon();
  assert_int_equal(queue.poll(echo), 0);
  assert_int_equal(echo.calls + done, 0);
}

void closing_answers_all_with_503(void**) {
  OfferQueue queue;
  unsigned status = 0;
  assert_true(queue.push({}, {}, [&](OfferReply&& r) { status = r.status; }) != nullptr);
  queue.close();
  assert_int_equal(status, 503);
  assert_true(queue.push({}, {}, [](OfferReply&&) {}) == nullptr);
}

void two_threads_lose_nothing(void**) {
  constexpr int kOffers = 2000;
  OfferQueue queue(8);
  Echo echo;
  std::atomic<int> done{0};
  std::thread pusher([&] {
    for (int i = 0; i < kOffers;) {
      if (queue.push({}, {}, [&](OfferReply&&) { ++done; }))
        ++i;
      else
        std::this_thread::yield();
    }
  });
  while (echo.calls < kOffers)
    if (queue.poll(echo) == 0) std::this_thread::yield();
  pusher.join();
  assert_int_equal(done.load(), kOffers);
  assert_int_equal(queue.waiting(), 0);
}

}  // namespace
}  // namespace h4a::edge

int main() {
  using namespace h4a::edge;
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_offer_is_answered_when_polled),
      cmocka_unit_test(a_full_queue_takes_no_more),
      cmocka_unit_test(an_abandoned_offer_is_not_looked_at),
      cmocka_unit_test(closing_answers_all_with_503),
      cmocka_unit_test(two_threads_lose_nothing),
  };
  return cmocka_run_group_tests_name("offer_queue", tests, nullptr, nullptr);
}
