// SPDX-License-Identifier: Apache-2.0
#include "sched/subgroup_size.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace dos::sched {
namespace {

/// Below it a task's own cost shows, above it a copy takes the time of many tasks.
constexpr Index kLeast = 500'000;
constexpr Index kMost = 256'000'000;
/// A size of sizes: each is smaller than the one before by an eighth of an octave.
constexpr double kStep = 1.0905077326652577;
constexpr Index kMostSubgroups = 2500;
constexpr double kWorthSmaller = 0.002;

}  // namespace

std::vector<Subgroup> cut_evenly(Index params, Index size) {
  require(params >= 1 && size >= 1, "something to cut");
  const Index count = (params + size - 1) / size;
  const Index each = (params + count - 1) / count;
  std::vector<Subgroup> subgroups;
  for (Index left = params; left > 0; left -= each)
    subgroups.push_back({.params = std::min(each, left), .depth = std::ssize(subgroups)});
  return subgroups;
}

Index choose_subgroup_size(const std::string& policy, Problem problem, Index params,
                           const PolicyOptions& options) {
  const Index least = std::max(std::min(params, kLeast), params / kMostSubgroups);
  std::vector<std::pair<Index, double>> times;
  std::string obstacle;
  for (double size = static_cast<double>(std::max(std::min(params, kMost), least));
       size >= static_cast<double>(least); size /= kStep) {
    problem.subgroups = cut_evenly(params, static_cast<Index>(size));
    try {
      times.emplace_back(problem.largest(), make_plan(policy, problem, options).time.value());
    } catch (const Error& error) {
      obstacle = error.what();
    }
  }
  expect(!times.empty(), "{}", obstacle);
  const double best = std::ranges::min(times, {}, &std::pair<Index, double>::second).second;
  return std::ranges::find_if(
             times, [&](const auto& each) { return each.second <= best * (1 + kWorthSmaller); })
      ->first;
}

}  // namespace dos::sched
