// SPDX-License-Identifier: Apache-2.0
#include "dist/owners.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

#include "base/error.hpp"

namespace dos::dist {

std::vector<Index> assign_owners(std::span<const Index> counts, std::span<const double> weights) {
  require(!weights.empty(), "at least one rank");
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::vector<Index> load(weights.size(), 0);
  std::vector<Index> owners(counts.size(), 0);
  for (const std::size_t i : order) {
    const auto end = [&](std::size_t rank) {
      return static_cast<double>(load[rank] + counts[i]) / weights[rank];
    };
    std::size_t best = 0;
    for (std::size_t rank = 1; rank < weights.size(); ++rank)
      if (end(rank) < end(best)) best = rank;
    load[best] += counts[i];
    owners[i] = static_cast<Index>(best);
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

}  // namespace dos::dist
