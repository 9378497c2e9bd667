// For tests of lib/edge: a server on a free loopback port with files and a handler of Offers behind it, and
// the certificate it shows.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edge/certificate.h"
#include "edge/server.h"

namespace h4a::edge::test {

/// Answers an Offer with its own octets, backwards; or with what the test sets.
class Backwards final : public OfferHandler {
 public:
  OfferReply answer(Bytes offer, const AuthInfo& from) override {
    last = from;
    ++calls;
    if (status != 200) return {status, {}};
    return {200, {offer.rbegin(), offer.rend()}};
  }
  std::atomic<unsigned> status{200};
  std::atomic<int> calls{0};
  AuthInfo last;  // read after the answer arrived
};

/// Plays the stack's thread: polls until it ends.
class StackThread {
 public:
  StackThread(OfferQueue& queue, OfferHandler& handler)
      : thread_([this, &queue, &handler] {
          while (!stop_) {
            queue.poll(handler);
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        }) {}
  ~StackThread() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// The pattern of the large file: octet i of it.
inline char pattern(std::size_t i) {
  return static_cast<char>((i * 131 + i / 251) & 0xff);
}

inline std::string pattern_text(std::size_t n) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i < n; ++i) s[i] = pattern(i);
  return s;
}

class Fixture {
 public:
  static constexpr std::size_t kLargeBytes = 1'000'003;

  explicit Fixture(const std::vector<std::string>& hosts = {"localhost", "127.0.0.1"},
                   int days = 30)
      : pem(*make_self_signed(hosts, days)) {
    char name[] = "/tmp/h4a_edge_XXXXXX";
    top = mkdtemp(name);
    std::filesystem::create_directories(top / "root/sub");
    write("secret", "not for you");
    write("root/hello.txt", "hello, world");
    write("root/empty", "");
    write("root/index.html", "<top>");
    write("root/large.bin", pattern_text(kLargeBytes));
    std::filesystem::create_symlink("../secret", top / "root/out");
    options.address = IpAddress::v4(127, 0, 0, 1);
    options.certificate_pem = pem.certificate;
    options.private_key_pem = pem.private_key;
    options.root = std::make_shared<const FileRoot>(std::move(*FileRoot::open(top / "root")));
    options.offers = &queue;
  }
  ~Fixture() {
    server.reset();
    stack.reset();
    std::filesystem::remove_all(top);
  }

  void write(const std::string& path, const std::string& text) const {
    std::ofstream(top / path, std::ios::binary) << text;
  }
  /// Starts the server as `options` says, and something that answers Offers.
  Outcome<void> start(bool with_stack = true) {
    auto started = EdgeServer::start(std::move(options));
    if (!started) return tl::unexpected(started.error());
    server = std::move(*started);
    if (with_stack) stack = std::make_unique<StackThread>(queue, handler);
    return {};
  }
  [[nodiscard]] std::string url(const std::string& target,
                                const std::string& host = "localhost") const {
    return "https://" + host + ":" + std::to_string(server->port()) + target;
  }

  std::filesystem::path top;
  PemPair pem;
  ServerOptions options;
  OfferQueue queue;
  Backwards handler;
  std::unique_ptr<EdgeServer> server;
  std::unique_ptr<StackThread> stack;
};

}  // namespace h4a::edge::test
