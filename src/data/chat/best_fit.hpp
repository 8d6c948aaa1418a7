// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos::data {

/// Lays items into windows of `room`, few of them: from the longest item on, of equal ones the
/// first, each into the fullest window that it fits into, of equally full ones the first (best fit
/// decreasing: Johnson 1974, at most 11/9 of the fewest and one). Returns the items of each window,
/// in the order in which they came there. Pre: 0 < length <= room for all.
std::vector<std::vector<Index>> best_fit(std::span<const Index> lengths, Index room);

}  // namespace dos::data
