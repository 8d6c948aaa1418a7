// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos::shape {

/// Places for states on disks: each holds those of one subgroup. They come in few sizes, the
/// largest first: what is written goes to a free one of its size, and the one that it came from
/// becomes free then.
struct StateRegions {
  std::vector<Index> bytes{};    ///< of a region, by size
  std::vector<Index> counts{};   ///< by size: one for each subgroup, and those to be written to
  std::vector<Index> size_of{};  ///< by subgroup, which of the sizes it has

  [[nodiscard]] Index total_bytes() const;
};

/// For states of these sizes, in bytes, that pass through `slots` from and to so many disks: beside
/// those of the states no more than are written at the same time. Pre: sizes are positive.
StateRegions regions_for(std::span<const Index> sizes, Index slots, Index disks);

}  // namespace dos::shape
