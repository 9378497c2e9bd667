// The commands. Numbers are C literals, or @OFF: the 64-bit number at OFF of the local buffer.
//
//   open  type=rc|uc|ud gid=1 mtu=1024 buf=1048576 psn=0x1000 qkey=0x11111111 depth=64 rnr=12
//         rights=rwa qp_rights=rwa
//         -> prints "local qpn= psn= gid= rkey= addr= len="
//         gid is 1 for the first IPv4 address, 2 for the first IPv6 address, 0 for the link-local one;
//         rights are those of the memory and of the QP: r(ead), w(rite), a(tomic), - for none
//   connect qpn= psn= gid= rkey= addr= timeout=14 retry=7 rnr_retry=7 rd=4 hop=64 tos=0
//   recv  off= len= n=1 sges=1
//         a datagram has 40 bytes in front of it
//   send  off= len= [imm=] [inv=RKEY] [fence=1] [solicited=1] [sges=N] [qkey=]
//   write off= roff= len= [imm=] [rkey=] [sges=N]
//   read  off= roff= len= [rkey=] [sges=N]
//   cas   off= roff= compare= swap= [rkey=]
//   faa   off= roff= add=1 [rkey=]
//   mw    off= len= at= rights=rw   bind a type 2 memory window, put its rkey at `at`, print it
//   inv   rkey=                     invalidate one of our own keys
//   wait  n=1 ms=5000 status=0      print n completions, each with that status
//   fill  off= len= seed=1          a pattern that depends on seed
//   check off= len= seed=1          fail unless the pattern stands there
//   set   off= value=  |  get off=  one 64-bit number
//   state | say TEXT | close | sleep ms=
#include "apps/verbs_script.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>

namespace h4a::apps {
namespace {

using verbs::Access;

std::uint8_t pattern(std::uint64_t i, std::uint64_t seed) noexcept {
  return static_cast<std::uint8_t>(i * 7 + (i >> 8) + seed);
}

Access rights(std::string_view letters) noexcept {
  Access a = Access::kNone;
  for (const char c : letters) {
    if (c == 'r') a = a | Access::kRemoteRead;
    if (c == 'w') a = a | Access::kRemoteWrite;
    if (c == 'a') a = a | Access::kRemoteAtomic;
  }
  return a;
}

/// As in the table of GIDs of a RoCE device.
std::string gid_text(const IpAddress& ip) {
  return ip.is_v4() ? fmt::format("::ffff:{}", to_string(ip)) : to_string(ip);
}

const IpAddress* address_at(std::span<const IpInterface> addresses, std::uint64_t gid_index) {
  const auto wanted = [&](const IpInterface& i) {
    if (gid_index == 1) return i.address.is_v4();
    return !i.address.is_v4() && i.address.is_link_local() == (gid_index == 0);
  };
  const auto found = std::find_if(addresses.begin(), addresses.end(), wanted);
  return found == addresses.end() ? nullptr : &found->address;
}

}  // namespace

bool VerbsScript::Buffer::map(std::size_t size) {
  release();
  void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  bytes_ = {static_cast<std::uint8_t*>(p), size};
  return true;
}

void VerbsScript::Buffer::release() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

VerbsScript::VerbsScript(verbs::Device& device, std::function<Instant()> turn,
                         std::function<void(std::string_view)> print)
    : device_(device), turn_(std::move(turn)), print_(std::move(print)) {}

VerbsScript::~VerbsScript() {
  if (open_) close();
}

bool VerbsScript::run(std::string_view line) {
  ++line_number_;
  const ScriptLine parsed(line);
  verb_ = parsed.verb();
  bad_number_ = false;
  return verb_.empty() || dispatch(parsed);
}

bool VerbsScript::dispatch(const ScriptLine& line) {
  if (verb_ == "say") return print_(line.word(1)), true;
  if (verb_ == "sleep") {
    const Instant end = turn_() + Duration::ms(static_cast<std::int64_t>(number(line, "ms", 100)));
    while (turn_() < end) {
    }
    return true;
  }
  if (verb_ == "open") return open(line);
  if (!open_) return fail("open comes first;");
  if (verb_ == "connect") return connect(line);
  if (verb_ == "close") return close();
  if (verb_ == "recv") return receive(line);
  if (verb_ == "send" || verb_ == "write" || verb_ == "read") return post(line);
  if (verb_ == "cas" || verb_ == "faa") return post_atomic(line);
  if (verb_ == "mw") return bind_window(line);
  if (verb_ == "inv") return invalidate(line);
  if (verb_ == "wait") return wait(line);
  if (verb_ == "fill" || verb_ == "check") return fill_or_check(line);
  if (verb_ == "set" || verb_ == "get") return set_or_get(line);
  if (verb_ == "state") return state();
  return fail("unknown command;");
}

// ---- the queue pair ----

bool VerbsScript::open(const ScriptLine& line) {
  if (open_) return fail("close comes first;");
  const std::string_view type = line.text("type", "rc");
  if (type != "rc" && type != "uc" && type != "ud") return fail("this type of queue pair;");
  type_ = type == "rc"   ? verbs::QpType::kRc
          : type == "uc" ? verbs::QpType::kUc
                         : verbs::QpType::kUd;
  const IpAddress* address = address_at(device_.addresses(), number(line, "gid", 1));
  if (address == nullptr) return fail("finding an address for this gid;");
  address_ = *address;
  path_mtu_ = static_cast<std::uint16_t>(number(line, "mtu", 1024));
  psn_ = Psn(static_cast<std::uint32_t>(number(line, "psn", 0x1000)));
  rnr_timer_ = static_cast<std::uint8_t>(number(line, "rnr", 12));
  qkey_ = number32(line, "qkey", 0x11111111);
  next_id_ = 1;
  if (!buffer_.map(number(line, "buf", 1 << 20))) return fail("allocation");
  open_ = make_objects(line);
  if (!open_) return false;
  print_(fmt::format("local qpn={:#x} psn={:#x} gid={} rkey={:#x} addr={:#x} len={}", qpn_.value(),
                     psn_.value(), gid_text(address_), region_.rkey.value(),
                     reinterpret_cast<std::uintptr_t>(buffer_.bytes().data()),
                     buffer_.bytes().size()));
  return true;
}

bool VerbsScript::make_objects(const ScriptLine& line) {
  const auto depth = static_cast<std::uint32_t>(number(line, "depth", 64));
  const Access memory = rights(line.text("rights", "rwa"));
  const auto pd = device_.alloc_pd();
  const auto cq = device_.create_cq(2 * depth);
  if (!pd || !cq) return fail("making a protection domain and a completion queue;");
  pd_ = *pd;
  cq_ = *cq;
  const auto region =
      device_.register_memory(pd_, buffer_.bytes().data(), buffer_.bytes().size(),
                              memory | Access::kLocalWrite | Access::kWindowBind, kClear);
  const auto qpn = device_.create_qp({.type = type_,
                                      .pd = pd_,
                                      .send_cq = cq_,
                                      .recv_cq = cq_,
                                      .max_send_wr = depth,
                                      .max_recv_wr = depth});
  if (!region || !qpn) return fail("registering memory and making a queue pair;");
  region_ = *region;
  qpn_ = *qpn;
  verbs::InitAttributes init;
  init.access = rights(line.text("qp_rights", type_ == verbs::QpType::kRc ? "rwa" : "w"));
  init.qkey = qkey_;
  return check(device_.to_init(qpn_, init), "to INIT");
}

bool VerbsScript::connect(const ScriptLine& line) {
  const auto remote = IpAddress::parse(line.text("gid", ""));
  if (!remote) return fail("gid");
  remote_address_ = number(line, "addr", 0);
  remote_rkey_ = Rkey(number32(line, "rkey", 0));
  remote_qpn_ = Qpn(number32(line, "qpn", 0));
  const auto reads = static_cast<std::uint8_t>(number(line, "rd", 4));
  verbs::RtrAttributes rtr;
  rtr.local_address = address_;
  rtr.remote_address = *remote;
  rtr.remote_qpn = remote_qpn_;
  rtr.rq_psn = Psn(static_cast<std::uint32_t>(number(line, "psn", 0x1000)));
  rtr.path_mtu = path_mtu_;
  rtr.max_dest_rd_atomic = reads;
  rtr.min_rnr_timer = rnr_timer_;
  rtr.hop_limit = static_cast<std::uint8_t>(number(line, "hop", 64));
  rtr.traffic_class = static_cast<std::uint8_t>(number(line, "tos", 0));
  verbs::RtsAttributes rts;
  rts.sq_psn = psn_;
  rts.timeout = static_cast<std::uint8_t>(number(line, "timeout", 14));
  rts.retry_count = static_cast<std::uint8_t>(number(line, "retry", 7));
  rts.rnr_retry = static_cast<std::uint8_t>(number(line, "rnr_retry", 7));
  rts.max_rd_atomic = reads;
  if (bad_number_) return false;
  if (!check(device_.to_rtr(qpn_, rtr), "to RTR") || !check(device_.to_rts(qpn_, rts), "to RTS"))
    return false;
  if (type_ != verbs::QpType::kUd) return true;
  const auto ah = device_.create_ah(pd_, {.local_address = rtr.local_address,
                                          .remote_address = rtr.remote_address,
                                          .hop_limit = rtr.hop_limit,
                                          .traffic_class = rtr.traffic_class});
  if (!ah) return fail("making an address handle;");
  ah_ = *ah;
  has_ah_ = true;
  return true;
}

bool VerbsScript::close() {
  open_ = false;
  if (has_ah_) static_cast<void>(device_.destroy_ah(ah_));
  has_ah_ = false;
  const bool done = check(device_.destroy_qp(qpn_), "destroying the queue pair");
  // A window that is still bound keeps its region: both go with the device then.
  static_cast<void>(device_.deregister_memory(region_.id));
  static_cast<void>(device_.destroy_cq(cq_));
  static_cast<void>(device_.dealloc_pd(pd_));
  return done;
}

// ---- work requests ----

bool VerbsScript::receive(const ScriptLine& line) {
  const MutableBytes memory = span(line, number(line, "len", 4096));
  const std::uint64_t count = number(line, "n", 1);
  if (bad_number_) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    verbs::RecvWr wr;
    wr.wr_id = next_id_++;
    wr.sge_count = 1;
    wr.sges[0] = {reinterpret_cast<std::uintptr_t>(memory.data()),
                  static_cast<std::uint32_t>(memory.size()), region_.lkey};
    if (!check(device_.post_recv(qpn_, {&wr, 1}), "posting the receive")) return false;
  }
  return true;
}

bool VerbsScript::post(const ScriptLine& line) {
  const MutableBytes memory = span(line, number(line, "len", 64));
  verbs::SendWr wr;
  const bool imm = line.has("imm");
  wr.imm = static_cast<std::uint32_t>(number(line, "imm", 0));
  wr.fence = number(line, "fence", 0) != 0;
  wr.solicited = number(line, "solicited", 0) != 0;
  if (verb_ == "send") {
    wr.ah = ah_;
    wr.remote_qpn = remote_qpn_;
    wr.remote_qkey = number32(line, "qkey", qkey_);
    wr.opcode = imm ? verbs::WrOpcode::kSendWithImm : verbs::WrOpcode::kSend;
    if (line.has("inv")) {
      wr.opcode = verbs::WrOpcode::kSendWithInvalidate;
      wr.invalidate_rkey =
          Rkey(static_cast<std::uint32_t>(line.number("inv", 0, buffer_.bytes()).value_or(0)));
    }
  } else {
    wr.opcode = verb_ == "read" ? verbs::WrOpcode::kRdmaRead
                : imm           ? verbs::WrOpcode::kRdmaWriteWithImm
                                : verbs::WrOpcode::kRdmaWrite;
    wr.remote_address = remote_address_ + number(line, "roff", 0);
    wr.rkey = Rkey(static_cast<std::uint32_t>(number(line, "rkey", remote_rkey_.value())));
  }
  return post_one(wr, memory, number(line, "sges", 1));
}

bool VerbsScript::post_atomic(const ScriptLine& line) {
  verbs::SendWr wr;
  const bool swap = verb_ == "cas";
  wr.opcode = swap ? verbs::WrOpcode::kCompareSwap : verbs::WrOpcode::kFetchAdd;
  wr.compare_add = swap ? number(line, "compare", 0) : number(line, "add", 1);
  wr.swap = number(line, "swap", 0);
  wr.remote_address = remote_address_ + number(line, "roff", 0);
  wr.rkey = Rkey(number32(line, "rkey", remote_rkey_.value()));
  return post_one(wr, span(line, 8), 1);
}

/// Gathers from, or scatters to, `pieces` parts of `memory`, all but the last of one size.
bool VerbsScript::post_one(verbs::SendWr& wr, MutableBytes memory, std::uint64_t pieces) {
  if (bad_number_) return false;
  if (pieces < 1 || pieces > kSgeMax) return fail("sges");
  const std::size_t part = memory.size() / pieces;
  for (std::uint64_t i = 0; i < pieces && !memory.empty(); ++i) {
    const bool last = i + 1 == pieces;
    const MutableBytes piece = memory.subspan(i * part, last ? std::dynamic_extent : part);
    wr.sges[wr.sge_count++] = {reinterpret_cast<std::uintptr_t>(piece.data()),
                               static_cast<std::uint32_t>(piece.size()), region_.lkey};
  }
  wr.wr_id = next_id_++;
  return check(device_.post_send(qpn_, {&wr, 1}), "posting the work request");
}

bool VerbsScript::bind_window(const ScriptLine& line) {
  const MutableBytes memory = span(line, number(line, "len", 4096));
  const std::uint64_t at = number(line, "at", buffer_.bytes().size());
  if (bad_number_) return false;
  const auto window = device_.alloc_window(pd_);
  if (!window) return fail("making a window;");
  const auto key = device_.fresh_rkey(window->id);
  if (!key) return fail("a key for the window;");
  verbs::SendWr wr;
  wr.opcode = verbs::WrOpcode::kBindWindow;
  wr.rkey = *key;
  wr.window = window->id;
  wr.region = region_.id;
  wr.bind_address = reinterpret_cast<std::uintptr_t>(memory.data());
  wr.bind_length = memory.size();
  wr.bind_access = rights(line.text("rights", "rw"));
  if (!post_one(wr, {}, 1)) return false;
  const std::uint64_t stored = key->value();
  const MutableBytes all = buffer_.bytes();
  if (at <= all.size() && all.size() - at >= sizeof(stored))
    std::memcpy(all.data() + at, &stored, sizeof(stored));
  print_(fmt::format("mw rkey={:#x}", stored));
  return true;
}

bool VerbsScript::invalidate(const ScriptLine& line) {
  verbs::SendWr wr;
  wr.opcode = verbs::WrOpcode::kLocalInvalidate;
  wr.invalidate_rkey = Rkey(static_cast<std::uint32_t>(number(line, "rkey", 0)));
  return post_one(wr, {}, 1);
}

// ---- what came of it ----

bool VerbsScript::wait(const ScriptLine& line) {
  std::uint64_t left = number(line, "n", 1);
  const std::uint64_t status = number(line, "status", 0);
  const auto limit = Duration::ms(static_cast<std::int64_t>(number(line, "ms", 5000)));
  if (bad_number_) return false;
  Instant now = turn_();
  const Instant end = now + limit;
  while (left > 0) {
    verbs::Completion c;
    if (device_.poll_cq(cq_, {&c, 1}) == 0) {
      if (now > end) return fail("completion (timed out);");
      now = turn_();
      continue;
    }
    print_completion(c);
    if (static_cast<std::uint64_t>(c.status) != status) return fail("the status expected;");
    --left;
  }
  return true;
}

void VerbsScript::print_completion(const verbs::Completion& c) {
  std::string text = fmt::format("wc id={} status={} ({})", c.wr_id,
                                 static_cast<unsigned>(c.status), verbs::to_string(c.status));
  if (c.status == verbs::CompletionStatus::kSuccess) {
    text += fmt::format(" len={}", c.byte_len);
    if (c.has_imm) text += fmt::format(" imm={:#x}", c.imm);
    if (type_ == verbs::QpType::kUd && c.opcode == verbs::CompletionOpcode::kRecv)
      text += fmt::format(" src_qp={:#x}", c.source_qpn.value());
    if (c.has_invalidate) text += fmt::format(" inv={:#x}", c.invalidated_rkey.value());
  }
  print_(text);
}

bool VerbsScript::fill_or_check(const ScriptLine& line) {
  const MutableBytes memory = span(line, number(line, "len", 8));
  const std::uint64_t seed = number(line, "seed", 1);
  if (bad_number_) return false;
  if (verb_ == "fill") {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = pattern(i, seed);
    return true;
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] == pattern(i, seed)) continue;
    print_(fmt::format("byte {} is {:#04x}", i, memory[i]));
    return fail("the pattern");
  }
  print_(fmt::format("check ok len={}", memory.size()));
  return true;
}

bool VerbsScript::set_or_get(const ScriptLine& line) {
  std::uint64_t value = number(line, "value", 0);
  const MutableBytes memory = span(line, sizeof(value));
  if (bad_number_) return false;
  if (verb_ == "set") std::memcpy(memory.data(), &value, sizeof(value));
  std::memcpy(&value, memory.data(), sizeof(value));
  print_(fmt::format("u64 {:#x}", value));
  return true;
}

bool VerbsScript::state() {
  const auto status = device_.qp_status(qpn_);
  if (!status) return fail("asking for the state;");
  print_(fmt::format("state={}", static_cast<unsigned>(status->state)));
  return true;
}

// ---- helpers ----

std::uint64_t VerbsScript::number(const ScriptLine& line, std::string_view key,
                                  std::uint64_t otherwise) {
  const auto value = line.number(key, otherwise, buffer_.bytes());
  if (!value && !bad_number_) {
    bad_number_ = true;
    fail(key);
  }
  return value.value_or(otherwise);
}

MutableBytes VerbsScript::span(const ScriptLine& line, std::uint64_t length) {
  const std::uint64_t offset = number(line, "off", 0);
  const MutableBytes all = buffer_.bytes();
  if (offset <= all.size() && length <= all.size() - offset) return all.subspan(offset, length);
  if (!bad_number_) fail("off/len");
  bad_number_ = true;
  return {};
}

bool VerbsScript::fail(std::string_view what) {
  print_(fmt::format("line {}: {}: {} failed", line_number_, verb_, what));
  return false;
}

bool VerbsScript::check(const Result<void>& result, std::string_view what) {
  return result ? true : fail(fmt::format("{} ({})", what, to_string(result.error())));
}

}  // namespace h4a::apps
