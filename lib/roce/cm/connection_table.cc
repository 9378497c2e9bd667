#include "roce/cm/connection_table.h"

namespace h4a::roce::cm {

Connection* ConnectionTable::allocate() noexcept {
  if (free_.empty()) return nullptr;
  const std::uint32_t i = free_.back();
  free_.pop_back();
  Connection& c = slots_[i];
  std::destroy_at(&c);
  std::construct_at(&c);
  generations_[i] = static_cast<std::uint16_t>(generations_[i] % kGenerationMask + 1);
  c.id = verbs::CmId(std::uint32_t{generations_[i]} << kIndexBits | i);
  do {
    c.local_comm_id = random_.u32();
  } while (c.local_comm_id == 0 || find_local(c.local_comm_id) != nullptr);
  local_[i] = c.local_comm_id;
  return &c;
}

void ConnectionTable::release(Connection& c) noexcept {
  forget_keys(c);
  const std::size_t i = index_of(c);
  c.id = {};
  free_.push_back(static_cast<std::uint32_t>(i));
}

void ConnectionTable::forget_keys(const Connection& c) noexcept {
  const std::size_t i = index_of(c);
  local_[i] = 0;
  remote_[i] = qpn_[i] = 0;
}

void ConnectionTable::index_remote(const Connection& c) noexcept {
  const std::size_t i = index_of(c);
  if (c.remote_comm_id != 0) remote_[i] = key_of(c.peer, c.remote_comm_id);
  if (c.remote_qpn != Qpn{}) qpn_[i] = key_of(c.peer, c.remote_qpn.value());
}

Connection* ConnectionTable::find(verbs::CmId id) noexcept {
  const std::size_t i = id.value() & ((1U << kIndexBits) - 1);
  return id.value() != 0 && i < slots_.size() && slots_[i].id == id ? &slots_[i] : nullptr;
}

Connection* ConnectionTable::find_local(std::uint32_t comm_id) noexcept {
  if (comm_id == 0) return nullptr;
  return search(local_, comm_id, [](const Connection&) { return true; });
}

Connection* ConnectionTable::find_remote(const Peer& peer, std::uint32_t comm_id,
                                         bool ud) noexcept {
  return search(remote_, key_of(peer, comm_id), [&](const Connection& c) {
    return c.remote_comm_id == comm_id && c.peer == peer && (c.type == verbs::QpType::kUd) == ud;
  });
}

Connection* ConnectionTable::find_qpn(const Peer& peer, Qpn qpn) noexcept {
  return search(qpn_, key_of(peer, qpn.value()), [&](const Connection& c) {
    return c.remote_qpn == qpn && c.peer == peer && c.state != State::kTimeWait &&
           c.state != State::kClosed && c.type != verbs::QpType::kUd;
  });
}

}  // namespace h4a::roce::cm
