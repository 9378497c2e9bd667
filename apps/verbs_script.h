// VerbsScript: one queue pair driven by lines of text, so that tests can play an exact sequence of
// verbs against an implementation that is not ours. scripts/peer/verbs-probe.c is the same program
// for libibverbs; both understand the same lines, which the head of verbs_script.cc lists.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "apps/verbs_script_line.h"
#include "base/random.h"
#include "base/time.h"
#include "verbs/device.h"

namespace h4a::apps {

class VerbsScript {
 public:
  /// @param turn runs the device once, waiting for something to happen if it may; returns the time,
  /// or Instant::never() to end a command that waits.
  /// @param print takes whole lines without their end.
  /// All must outlive the script.
  VerbsScript(verbs::Device& device, std::function<Instant()> turn,
              std::function<void(std::string_view)> print);
  ~VerbsScript();
  VerbsScript(const VerbsScript&) = delete;
  VerbsScript& operator=(const VerbsScript&) = delete;

  /// Runs one command. @return false if it failed; what failed was printed.
  [[nodiscard]] bool run(std::string_view line);

 private:
  /// Memory of the application, all zero. Large ones cost only what is touched.
  class Buffer {
   public:
    Buffer() = default;
    ~Buffer() { release(); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    [[nodiscard]] bool map(std::size_t size);
    void release();
    [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }

   private:
    MutableBytes bytes_;
  };

  bool dispatch(const ScriptLine& line);
  bool open(const ScriptLine& line);
  bool make_objects(const ScriptLine& line);
  bool connect(const ScriptLine& line);
  bool close();
  bool receive(const ScriptLine& line);
  bool post(const ScriptLine& line);
  bool post_atomic(const ScriptLine& line);
  bool bind_window(const ScriptLine& line);
  bool invalidate(const ScriptLine& line);
  bool wait(const ScriptLine& line);
  bool fill_or_check(const ScriptLine& line);
  bool set_or_get(const ScriptLine& line);
  bool state();

  /// Of a key that must be a number if it is there; remembers that it was none.
  std::uint64_t number(const ScriptLine& line, std::string_view key, std::uint64_t otherwise);
  /// [off, off + len) of the buffer; empty with a failure noted if it does not fit.
  MutableBytes span(const ScriptLine& line, std::uint64_t length);
  bool fail(std::string_view what);
  bool check(const Result<void>& result, std::string_view what);
  [[nodiscard]] std::uint32_t number32(const ScriptLine& line, std::string_view key,
                                       std::uint32_t otherwise) {
    return static_cast<std::uint32_t>(number(line, key, otherwise));
  }
  bool post_one(verbs::SendWr& wr, MutableBytes memory, std::uint64_t pieces);
  void print_completion(const verbs::Completion& c);

  verbs::Device& device_;
  std::function<Instant()> turn_;
  std::function<void(std::string_view)> print_;

  std::string verb_;  // of the line being run
  std::uint64_t line_number_ = 0;
  bool bad_number_ = false;

  bool open_ = false;
  Buffer buffer_;
  verbs::QpType type_ = verbs::QpType::kRc;
  verbs::PdId pd_;
  verbs::CqId cq_;
  verbs::MemoryRegion region_;
  Qpn qpn_;
  Psn psn_;
  IpAddress address_;
  std::uint16_t path_mtu_ = 1024;
  std::uint8_t rnr_timer_ = 12;
  std::uint64_t remote_address_ = 0;
  Rkey remote_rkey_;
  Qpn remote_qpn_;
  std::uint32_t qkey_ = 0;
  verbs::AhId ah_;  // of a datagram QP that is connected
  bool has_ah_ = false;
  std::uint64_t next_id_ = 1;
};

}  // namespace h4a::apps
