// Frame: one packet, a small header over one contiguous buffer. The header lives in the private area of
// a DPDK mbuf, or on the heap in tests; nobody above the port can tell.
//
// Layout:  buffer ... [headroom] data [tailroom], and outside the buffer: pieces, tail
//
// A Frame has one owner at a time (docs/OWNERSHIP.md). On its way out, a frame may carry its payload as
// `pieces` of application memory, followed by a few `tail` bytes (pad, ICRC); the stack copies or
// encrypts them behind the data before the frame reaches a port. Pieces are valid only within the turn
// of the poll loop that set them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/limits.h"

namespace h4a::packet {

class Frame {
 public:
  /// Pad (up to 3 bytes) and ICRC.
  static constexpr std::size_t kTailMax = 8;
  struct Piece {
    const std::uint8_t* data;
    std::uint32_t size;
  };

  /// For pools: binds the header to its memory. The frame starts empty.
  void init(std::uint8_t* buffer, std::uint32_t capacity) noexcept {
    buffer_ = buffer;
    capacity_ = capacity;
    reset(kFrameHeadroomBytes);
  }
  /// Empties the frame, with data starting `headroom` bytes into the buffer.
  void reset(std::size_t headroom) noexcept {
    H4A_ASSERT(headroom <= capacity_);
    begin_ = static_cast<std::uint32_t>(headroom);
    size_ = 0;
    clear_metadata();
  }
  /// For ports: states where the received bytes lie.
  void set_data(std::size_t begin, std::size_t size) noexcept {
    H4A_ASSERT(begin <= capacity_ && size <= capacity_ - begin);
    begin_ = static_cast<std::uint32_t>(begin);
    size_ = static_cast<std::uint32_t>(size);
    clear_metadata();
  }

  [[nodiscard]] std::uint8_t* data() noexcept { return buffer_ + begin_; }
  [[nodiscard]] const std::uint8_t* data() const noexcept { return buffer_ + begin_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Bytes bytes() const noexcept { return {data(), size_}; }
  [[nodiscard]] MutableBytes bytes() noexcept { return {data(), size_}; }
  [[nodiscard]] std::size_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t headroom() const noexcept { return begin_; }
  [[nodiscard]] std::size_t tailroom() const noexcept { return capacity_ - begin_ - size_; }

  /// Grows the data to the front by `n` bytes, n <= headroom(); returns the new first byte.
  std::uint8_t* prepend(std::size_t n) noexcept {
    H4A_ASSERT(n <= headroom());
    begin_ -= static_cast<std::uint32_t>(n);
    size_ += static_cast<std::uint32_t>(n);
    return data();
  }
  /// Grows the data at the end by `n` bytes, n <= tailroom(); returns the first new byte.
  std::uint8_t* append(std::size_t n) noexcept {
    H4A_ASSERT(n <= tailroom());
    std::uint8_t* p = data() + size_;
    size_ += static_cast<std::uint32_t>(n);
    return p;
  }
  /// Removes `n` bytes in front, n <= size().
  void trim_front(std::size_t n) noexcept {
    H4A_ASSERT(n <= size_);
    begin_ += static_cast<std::uint32_t>(n);
    size_ -= static_cast<std::uint32_t>(n);
  }
  /// Cuts the data to `n` bytes, n <= size().
  void truncate(std::size_t n) noexcept {
    H4A_ASSERT(n <= size_);
    size_ = static_cast<std::uint32_t>(n);
  }

  [[nodiscard]] std::span<const Piece> pieces() const noexcept { return {pieces_, piece_count_}; }
  /// Bytes in all pieces.
  [[nodiscard]] std::size_t pieces_size() const noexcept { return pieces_size_; }
  /// Adds application memory behind the data. At most kGatherMax pieces.
  void add_piece(const std::uint8_t* p, std::size_t n) noexcept {
    H4A_ASSERT(piece_count_ < kGatherMax);
    pieces_[piece_count_++] = {p, static_cast<std::uint32_t>(n)};
    pieces_size_ += static_cast<std::uint32_t>(n);
  }
  /// The bytes behind the pieces.
  [[nodiscard]] Bytes tail() const noexcept { return {tail_, tail_size_}; }
  /// Makes the tail `n` bytes longer, at most kTailMax in all; returns the first new byte.
  std::uint8_t* append_tail(std::size_t n) noexcept {
    H4A_ASSERT(n <= kTailMax - tail_size_);
    std::uint8_t* p = tail_ + tail_size_;
    tail_size_ = static_cast<std::uint8_t>(tail_size_ + n);
    return p;
  }
  /// Data, pieces and tail together: what goes on the wire.
  [[nodiscard]] std::size_t total_size() const noexcept {
    return size_ + pieces_size_ + tail_size_;
  }
  /// Forgets pieces and tail, once their bytes are in the data or no longer wanted.
  void clear_pieces() noexcept {
    piece_count_ = 0;
    pieces_size_ = 0;
    tail_size_ = 0;
  }
  /// Copies pieces and tail behind the data. pieces_size() + tail().size() <= tailroom().
  void flatten() noexcept;

  // What the layers tell each other about this packet. Offsets count from data().
  AssociationId association{};  // in: it came through ESP of this association; kClear if clear
  PathId path{};                // out: the way it must leave
  IpAddress source{};           // in: outer IP addresses
  IpAddress destination{};
  std::uint16_t udp_source_port = 0;
  std::uint8_t l3_offset = 0;         // of the IP header
  std::uint8_t transport_offset = 0;  // of the ESP, UDP or ICMP header
  /// in, for the transport: bytes of the IP and UDP headers, which lie in front of data(); 0: none
  std::uint8_t network_size = 0;
  std::uint8_t priority = 0;  // out: 802.1Q; 0: no tag
  bool ecn_ce = false;        // in: congestion experienced
  Drop drop = Drop::kNone;    // why it was rejected

 private:
  void clear_metadata() noexcept {
    association = kClear;
    path = PathId{};
    l3_offset = transport_offset = network_size = priority = 0;
    ecn_ce = false;
    drop = Drop::kNone;
    clear_pieces();
  }

  std::uint8_t* buffer_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t begin_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t pieces_size_ = 0;
  std::uint8_t piece_count_ = 0;
  std::uint8_t tail_size_ = 0;
  std::uint8_t tail_[kTailMax] = {};
  Piece pieces_[kGatherMax] = {};
};

}  // namespace h4a::packet
