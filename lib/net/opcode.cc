#include "net/opcode.h"

namespace h4a::net {

std::string_view opcode_name(std::uint8_t opcode) noexcept {
  const OpcodeInfo* row = find_opcode(opcode);
  return row == nullptr ? std::string_view("RESERVED") : row->name;
}

}  // namespace h4a::net
