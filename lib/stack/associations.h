// Associations: lineages of SAs between two addresses (DESIGN D3). Each has any number of inbound SAs,
// kept side by side while keys change, and sends through the newest outbound one.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "ipsec/sa.h"
#include "verbs/types.h"

namespace h4a::stack {

/// Of every SA, in AES blocks: from the first on its key should be changed, after the second it is dead.
struct SaLimits {
  std::uint64_t soft_blocks = std::uint64_t{1} << 34;  // DESIGN §6.5
  std::uint64_t hard_blocks = std::uint64_t{1} << 35;
};

/// Which of its limits an SA has already reported.
struct LimitsReported {
  bool soft = false;
  bool hard = false;
};

class Associations {
 public:
  struct Inbound {
    Spi spi;
    const ipsec::InboundSa* sa = nullptr;  // the table's
    LimitsReported reported;
  };
  struct Association {
    verbs::AssociationOptions options;
    std::unique_ptr<ipsec::OutboundSa> outbound;  // nullptr until one is installed
    Spi outbound_spi;
    LimitsReported outbound_reported;
    std::vector<Inbound> inbound;
  };

  Associations(std::size_t capacity, const SaLimits& limits, Random& random);

  [[nodiscard]] Result<AssociationId> create(const verbs::AssociationOptions& options) noexcept;
  /// Also removes its SAs.
  [[nodiscard]] Result<void> destroy(AssociationId id) noexcept;
  /// nullptr if there is none. Valid until the next create or destroy.
  [[nodiscard]] Association* find(AssociationId id) noexcept;

  [[nodiscard]] Result<Spi> allocate_spi() noexcept;
  [[nodiscard]] Result<void> install(AssociationId id, verbs::SaOptions&& sa) noexcept;
  [[nodiscard]] Result<void> remove(AssociationId id, verbs::SaDirection direction,
                                    Spi spi) noexcept;

  [[nodiscard]] ipsec::SaTable& inbound_table() noexcept { return table_; }
  /// Calls f(id, Association&) for each.
  template <class F>
  void for_each(F&& f) {
    for (auto& [id, a] : by_id_) f(AssociationId(id), *a);
  }

 private:
  std::size_t capacity_;
  SaLimits limits_;
  Random& random_;
  ipsec::SaTable table_;
  boost::unordered_flat_map<std::uint32_t, std::unique_ptr<Association>> by_id_;
};

}  // namespace h4a::stack
