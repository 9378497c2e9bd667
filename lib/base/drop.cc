#include "base/drop.h"

namespace h4a {
namespace {

constexpr std::array<DropInfo, kDropCount> kInfos{{{"none", "not dropped"},
#define H4A_DROP_ROW(e, name, text) {name, text},
                                                   H4A_DROP_REASONS(H4A_DROP_ROW)
#undef H4A_DROP_ROW
}};

}  // namespace

const DropInfo& info(Drop reason) noexcept {
  const auto i = static_cast<std::size_t>(reason);
  return kInfos[i < kDropCount ? i : 0];
}

}  // namespace h4a
