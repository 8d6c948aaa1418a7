// SPDX-License-Identifier: Apache-2.0
#include "base/small_sizes.hpp"

#include <algorithm>

namespace dos {

BySmallness by_smallness(std::span<const Index> sizes) {
  BySmallness result;
  if (sizes.empty()) return result;
  const Index largest = *std::ranges::max_element(sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    (sizes[i] <= largest / kSmall ? result.small : result.others).push_back(i);
  return result;
}

}  // namespace dos
