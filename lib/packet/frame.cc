#include "packet/frame.h"

#include <cstring>

namespace h4a::packet {

void Frame::flatten() noexcept {
  for (const Piece& piece : pieces()) std::memcpy(append(piece.size), piece.data, piece.size);
  if (tail_size_ > 0) std::memcpy(append(tail_size_), tail_, tail_size_);
  clear_pieces();
}

}  // namespace h4a::packet
