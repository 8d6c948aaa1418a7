// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos {

/// Of no more than the largest divided by this, the task and its copies cost, not what they move.
inline constexpr Index kSmall = 64;

/// Places in a list of sizes, each in order.
struct BySmallness {
  std::vector<std::size_t> small;  ///< of those that had better stay where they need not move
  std::vector<std::size_t> others;
};
BySmallness by_smallness(std::span<const Index> sizes);

}  // namespace dos
