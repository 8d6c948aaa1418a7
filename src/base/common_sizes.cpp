// SPDX-License-Identifier: Apache-2.0
#include "base/common_sizes.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

namespace dos {

std::vector<Index> common_sizes(std::span<const Index> sizes) {
  std::map<Index, Index, std::greater<>> counts;
  for (const Index size : sizes) ++counts[size];
  std::map<Index, Index> common;
  Index leader = 0;
  double used = 0;
  double room = 0;
  for (const auto& [size, count] : counts) {
    const double more = static_cast<double>(size * count);
    const double more_room = static_cast<double>(leader * count);
    const bool is_near =
        static_cast<double>(size) >= kLeastOfCommon * static_cast<double>(leader) &&
        used + more >= kLeastFilled * (room + more_room);
    if (leader == 0 || !is_near) {
      leader = size;
      used = room = more;
    } else {
      used += more;
      room += more_room;
    }
    common[size] = leader;
  }
  std::vector<Index> result;
  std::ranges::transform(sizes, std::back_inserter(result),
                         [&](Index size) { return common.at(size); });
  return result;
}

}  // namespace dos
