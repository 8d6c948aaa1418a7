// SPDX-License-Identifier: Apache-2.0
#include "ranks/share.hpp"

#include "shape/owners.hpp"

namespace dos::ranks {

tensor::Ownership RankShare::ownership() const {
  tensor::Ownership ownership{.zero = ranks > 1 ? zero : 0, .owned = {}};
  if (ranks > 1)
    for (const Index owner : owners) ownership.owned.push_back(owner == rank);
  return ownership;
}

RankShare share_of(const shape::Layout& layout, Index rank, const std::vector<double>& weights,
                   Index zero) {
  return {.rank = rank,
          .ranks = static_cast<Index>(weights.size()),
          .zero = zero,
          .owners = shape::owners_of(layout, weights)};
}

}  // namespace dos::ranks
