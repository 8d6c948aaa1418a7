// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos {

/// Part of a size that one has to be at least to be rounded up to it: subgroups of a model are that
/// near to the largest, but for those of a few vectors. It bounds what rounding up wastes.
inline constexpr double kNearlyAsLarge = 0.75;

/// By size, the one that it is rounded up to: each stands for those that are nearly as large,
/// beginning with the largest. What has few sizes can use memory of each other.
std::vector<Index> common_sizes(std::span<const Index> sizes);

}  // namespace dos
