// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "base/types.hpp"

/// Second banks of parameters and states, of updates that go ahead of the norm.
namespace dos::shape {

/// Places of subgroups of these depths, those first whose gradients backward completes first.
inline std::vector<std::size_t> by_completion(std::span<const Index> depths) {
  std::vector<std::size_t> places(depths.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, std::ranges::greater{},
                           [&](std::size_t i) { return depths[i]; });
  return places;
}

/// Of banks of these bytes, in this order, how many `left` has room for.
inline std::size_t banks_that_fit(std::span<const double> bytes, double left) {
  std::size_t count = 0;
  for (double taken = 0; count < bytes.size(); ++count) {
    taken += bytes[count];
    if (taken > left) break;
  }
  return count;
}

}  // namespace dos::shape
