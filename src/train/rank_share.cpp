// SPDX-License-Identifier: Apache-2.0
#include "train/rank_share.hpp"

#include "dist/owners.hpp"

namespace dos::train {

tensor::Placement RankShare::placement() const {
  tensor::Placement placement{.zero = ranks > 1 ? zero : 0, .owned = {}};
  if (ranks > 1)
    for (const Index owner : owners) placement.owned.push_back(owner == rank);
  return placement;
}

RankShare share_of(const tensor::Layout& layout, Index rank, const std::vector<double>& weights,
                   Index zero) {
  std::vector<Index> counts;
  for (const tensor::Subgroup& subgroup : layout.subgroups) counts.push_back(subgroup.count);
  return {.rank = rank,
          .ranks = static_cast<Index>(weights.size()),
          .zero = zero,
          .owners = dist::assign_owners(counts, weights)};
}

}  // namespace dos::train
