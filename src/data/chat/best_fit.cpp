// SPDX-License-Identifier: Apache-2.0
#include "data/chat/best_fit.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace dos::data {

std::vector<std::vector<Index>> best_fit(std::span<const Index> lengths, Index room) {
  std::vector<Index> order(lengths.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto length_of = [&](Index item) { return lengths[static_cast<std::size_t>(item)]; };
  std::ranges::stable_sort(order, [&](Index a, Index b) { return length_of(a) > length_of(b); });
  std::vector<std::vector<Index>> windows;
  std::set<std::pair<Index, std::size_t>> open;  // by what is left, then by number
  for (const Index item : order) {
    const Index length = length_of(item);
    require(length > 0 && length <= room, "an item that fits into a window");
    const auto found = open.lower_bound({length, 0});
    const auto [left, window] = found == open.end() ? std::pair(room, windows.size()) : *found;
    if (found == open.end())
      windows.emplace_back();
    else
      open.erase(found);
    windows[window].push_back(item);
    if (left > length) open.emplace(left - length, window);
  }
  return windows;
}

}  // namespace dos::data
