// SPDX-License-Identifier: Apache-2.0
#include "base/common_sizes.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

namespace dos {

std::vector<Index> common_sizes(std::span<const Index> sizes) {
  std::map<Index, Index, std::greater<>> common;
  for (const Index size : sizes) common[size] = size;
  Index leader = 0;
  for (auto& [size, rounded] : common) {
    const bool is_near = static_cast<double>(size) >= kNearlyAsLarge * static_cast<double>(leader);
    if (leader == 0 || !is_near) leader = size;
    rounded = leader;
  }
  std::vector<Index> result;
  std::ranges::transform(sizes, std::back_inserter(result),
                         [&](Index size) { return common.at(size); });
  return result;
}

}  // namespace dos
