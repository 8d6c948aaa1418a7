// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos {

/// Part of a common size that each of its sizes has at least, and all of them together: it bounds
/// what rounding up wastes. Every size more has memory of its own that others cannot use.
inline constexpr double kLeastOfCommon = 0.25;
inline constexpr double kLeastFilled = 0.75;

/// By size, the one that it is rounded up to: each stands for those below it, beginning with the
/// largest, until they would fill less than kLeastFilled of it. What has few sizes can use memory
/// of each other.
std::vector<Index> common_sizes(std::span<const Index> sizes);

}  // namespace dos
