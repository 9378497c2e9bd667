// What the port tests share: pattern frames, waiting, and a second process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include "packet/port.h"

namespace h4a::dpdk::test {

inline constexpr std::uint16_t kTestEthertype = 0x88b5;  // IEEE 802, local experimental

/// A frame of `size` bytes from `port`'s pool to broadcast: test ethertype (behind `vlan_tags`
/// tags), then a pattern that depends on `seed`.
[[nodiscard]] packet::Frame* make_frame(packet::Port& port, std::size_t size, std::uint8_t seed,
                                        unsigned vlan_tags = 0);
/// True if the bytes are what make_frame() wrote.
[[nodiscard]] bool matches(const packet::Frame& frame, std::size_t size, std::uint8_t seed,
                           unsigned vlan_tags = 0);
/// Sends one frame, trying for up to two seconds. False: not taken, and released.
[[nodiscard]] bool send_one(packet::Port& port, packet::Frame* frame);
/// The next frame with the test ethertype within `timeout_ms`, or nullptr; others are released.
[[nodiscard]] packet::Frame* receive_one(packet::Port& port, int timeout_ms = 3000);
/// Calls `done` until it is true or two seconds are over.
[[nodiscard]] bool eventually(const std::function<bool()>& done, int timeout_ms = 3000);
/// Runs `body` in a child process, forked before the EAL starts there. @return its pid.
[[nodiscard]] pid_t spawn(const std::function<int()>& body);
/// The exit code of a child, or -1 if a signal ended it or it is not over after `timeout_ms`.
[[nodiscard]] int wait_for(pid_t pid, int timeout_ms = 8000);
/// Runs a command without a shell's output. @return true if it succeeded.
[[nodiscard]] bool run(const std::string& command);

}  // namespace h4a::dpdk::test
