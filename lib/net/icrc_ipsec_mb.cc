// The CRC back end of intel-ipsec-mb, and the only ICRC file that knows its header.
#include <intel-ipsec-mb.h>

#include "net/icrc_backend.h"

namespace h4a::net {

Crc32Function ipsec_mb_crc32() noexcept {
  // The manager only tells which implementation suits this CPU; the function needs no state of it.
  IMB_MGR* manager = alloc_mb_mgr(0);
  if (manager == nullptr) return nullptr;
  init_mb_mgr_auto(manager, nullptr);
  const Crc32Function function =
      imb_get_errno(manager) == 0 ? manager->crc32_ethernet_fcs : nullptr;
  free_mb_mgr(manager);
  return function;
}

}  // namespace h4a::net
