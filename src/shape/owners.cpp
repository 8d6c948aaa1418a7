// SPDX-License-Identifier: Apache-2.0
#include "shape/owners.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <sstream>
#include <utility>

#include "base/error.hpp"

namespace dos::shape {

std::vector<Index> assign_owners(std::span<const Index> counts, std::span<const double> weights) {
  require(!weights.empty(), "at least one rank");
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  // Of ranks with one weight the one with the least load is done first, of those the lowest.
  using Loaded = std::pair<Index, Index>;  // load, rank
  using LeastLoaded = std::priority_queue<Loaded, std::vector<Loaded>, std::greater<>>;
  std::map<double, LeastLoaded> by_weight;
  for (std::size_t rank = 0; rank < weights.size(); ++rank)
    by_weight[weights[rank]].push({0, static_cast<Index>(rank)});
  std::vector<Index> owners(counts.size(), 0);
  for (const std::size_t i : order) {
    const auto end = [&](const auto& ranks) {
      const auto& [load, rank] = ranks.second.top();
      return std::pair{static_cast<double>(load + counts[i]) / ranks.first, rank};
    };
    auto& ranks = std::ranges::min_element(by_weight, {}, end)->second;
    const auto [load, rank] = ranks.top();
    ranks.pop();
    ranks.push({load + counts[i], rank});
    owners[i] = rank;
  }
  return owners;
}

std::vector<Index> owners_of(const Layout& layout, std::span<const double> weights) {
  std::vector<Index> owners(layout.subgroups.size(), 0);
  for (const bool trained : {true, false}) {
    std::vector<std::size_t> members;
    std::vector<Index> counts;
    for (std::size_t i = 0; i < layout.subgroups.size(); ++i) {
      if (layout.subgroups[i].trained != trained) continue;
      members.push_back(i);
      counts.push_back(layout.subgroups[i].count);
    }
    const std::vector<Index> of_members = assign_owners(counts, weights);
    for (std::size_t i = 0; i < members.size(); ++i) owners[members[i]] = of_members[i];
  }
  return owners;
}

std::vector<double> parse_weights(const std::string& key, const std::string& text, Index ranks) {
  if (text.empty()) return std::vector<double>(static_cast<std::size_t>(ranks), 1.0);
  std::vector<double> weights;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    double weight = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), weight);
    expect(error == std::errc() && end == part.data() + part.size() && std::isfinite(weight) &&
               weight > 0,
           "{} = '{}': '{}' is no positive number; write one a rank, separated by commas", key,
           text, part);
    weights.push_back(weight);
  }
  expect(std::ssize(weights) == ranks,
         "{} = '{}' has {} weights for {} ranks: write one a rank, or leave it empty", key, text,
         weights.size(), ranks);
  return weights;
}

}  // namespace dos::shape
