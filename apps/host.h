// Host: a stack on a port as the command line asks for it: EAL, port, fault injector, capture, stack,
// and how it waits when there is nothing to do (DESIGN D9).
#pragma once

#include <memory>
#include <string>

#include "apps/host_arguments.h"
#include "base/random.h"
#include "net/pcapng.h"
#include "packet/fault_injector.h"
#include "packet/pcap_tap.h"
#include "packet/port.h"
#include "stack/stack.h"

namespace h4a::apps {

class Host {
 public:
  /// Opens everything. @param error one line for the user, if the result is nullptr.
  [[nodiscard]] static std::unique_ptr<Host> open(const HostArguments& arguments,
                                                  std::string& error);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] stack::Stack& stack() noexcept { return *stack_; }
  [[nodiscard]] packet::Port& port() noexcept { return *port_; }
  [[nodiscard]] Random& random() noexcept { return random_; }

  /// One turn of the stack.
  stack::PollResult poll(Instant now) noexcept { return stack_->poll_once(now); }

  /// Call it at the end of each turn of the program's loop. Spins on while there is work, then for
  /// kSpin, then sleeps: on the port's descriptor where it has one, else up to 200 µs, and never beyond
  /// `wake_at`. @param worked true if anything at all happened in this turn.
  /// @param wake_fd a descriptor of the program's own to wake up for, or -1.
  void wait(bool worked, Instant wake_at, int wake_fd = -1) noexcept;

  /// Ends the capture. @return false if the file could not be written completely.
  [[nodiscard]] bool finish_capture() noexcept;

 private:
  Host() = default;
  [[nodiscard]] bool open_capture(const HostArguments& arguments, std::string& error);
  [[nodiscard]] bool open_stack(const HostArguments& arguments, std::string& error);

  SystemRandom random_;
  std::unique_ptr<packet::Port> port_;  // the device
  std::unique_ptr<net::PcapngWriter> capture_;
  std::unique_ptr<packet::PcapTap> tap_;
  std::unique_ptr<packet::FaultInjector> faults_;
  std::unique_ptr<stack::Stack> stack_;
  packet::Port* top_ = nullptr;  // what the stack uses
  bool busy_poll_ = false;
  Instant last_work_;
};

}  // namespace h4a::apps
