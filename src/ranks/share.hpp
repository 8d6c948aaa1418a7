// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "rt/memory_ledger.hpp"
#include "tensor/ownership.hpp"

namespace dos::ranks {

/// Which part of a run one of its ranks has. The default is the only rank.
struct RankShare {
  Index rank = 0;
  Index ranks = 1;
  Index zero = 0;               ///< as in tensor::Ownership; dist.zero of several ranks
  std::vector<Index> owners{};  ///< by subgroup; empty: all of rank 0

  [[nodiscard]] tensor::Ownership ownership() const;
};

/// The share of `rank` with the owners that dist.weights decides.
RankShare share_of(const shape::Layout& layout, Index rank, const std::vector<double>& weights,
                   Index zero);

}  // namespace dos::ranks
