// SPDX-License-Identifier: Apache-2.0
#include "sched/subgroup_size.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace dos::sched {
namespace {

/// Below it a task's own cost shows, above it a copy takes the time of many tasks.
constexpr Index kLeast = 500'000;
constexpr Index kMost = 256'000'000;
/// A size of sizes: each is smaller than the one before by an eighth of an octave.
constexpr double kStep = 1.0905077326652577;
/// A GPU: with more subgroups a step counts in latencies.
constexpr Index kMostTried = 2500;
constexpr double kWorthSmaller = 0.002;
/// Smaller subgroups need more buffers; each is allocated once.
constexpr double kStepsThatPayAllocations = 300;
/// How much longer than the bound a step with fill and drain takes, where it comes near it.
constexpr std::array kNearBound = {1.015, 1.02, 1.025, 1.03, 1.035, 1.04};
/// Part of an octave around the best of the coarse sizes.
constexpr double kNeighbourhood = 1.4142135623730951;
/// Tried with each of kNearBound: with few workers every number of subgroups makes whole rounds.
constexpr double kMostRounds = 12;

/// Plans with one size after another.
class Trial {
 public:
  Trial(const std::string& policy, Problem& problem, Index params, const PolicyOptions& options)
      : policy_(policy), problem_(problem), params_(params), options_(options) {}

  void plan_with(double size) {
    problem_.subgroups = cut_evenly(params_, static_cast<Index>(size));
    if (!tried_.insert(std::ssize(problem_.subgroups)).second) return;
    try {
      const Plan plan = make_plan(policy_, problem_, options_);
      times_.emplace_back(problem_.largest(),
                          plan.time.value() + allocations(plan) / kStepsThatPayAllocations);
    } catch (const Error& error) {
      obstacle_ = error.what();
    }
  }

  /// The largest size that is not worth changing for a faster one.
  [[nodiscard]] Index best() {
    expect(!times_.empty(), "{}", obstacle_);
    std::ranges::sort(times_, std::greater());
    const double least = std::ranges::min(times_, {}, &Timed::second).second;
    return std::ranges::find_if(
               times_,
               [&](const Timed& each) { return each.second <= least * (1 + kWorthSmaller); })
        ->first;
  }

 private:
  using Timed = std::pair<Index, double>;

  /// Seconds until all residents have their memory, in the first steps.
  [[nodiscard]] double allocations(const Plan& plan) const {
    const auto buffers =
        std::ranges::count(plan.assignments, Placement::kResident, &Assignment::placement) *
        problem_.cost.state_buffers;
    return static_cast<double>(buffers) * problem_.rates.allocation.value();
  }

  const std::string& policy_;
  Problem& problem_;
  Index params_;
  const PolicyOptions& options_;
  std::set<Index> tried_;  ///< numbers of subgroups
  std::vector<Timed> times_;
  std::string obstacle_;
};

Index pieces(const std::vector<Index>& parts, Index size) {
  Index count = 0;
  for (const Index part : parts) count += (part - 1) / size + 1;
  return count;
}

}  // namespace

void expect_few_subgroups(const std::vector<Index>& parts, Index size, const std::string& option) {
  require(size >= 1, "sizes are positive");
  const Index count = pieces(parts, size);
  if (count <= kMostSubgroups) return;
  Index low = size;  // too small
  Index high = *std::ranges::max_element(parts);
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (pieces(parts, middle) > kMostSubgroups ? low : high) = middle;
  }
  fail("{} {}: makes {} subgroups of a rank, a plan has at most {}: use at least {}", option, size,
       count, kMostSubgroups, high);
}

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
  const Index least = std::max(std::min(params, kLeast),
                               params / (kMostTried * std::max<Index>(1, problem.gpus())));
  const Index most = std::max(std::min(params, kMost), least);
  Trial trial(policy, problem, params, options);
  for (double size = static_cast<double>(most); size >= static_cast<double>(least); size /= kStep)
    trial.plan_with(size);
  const Index coarse = trial.best();
  const auto near = static_cast<double>(coarse);
  // Sizes of which the CPU's workers update whole rounds in the time of a good plan.
  problem.subgroups = cut_evenly(params, coarse);
  const units::Params by_worker =
      lower_bound(problem, {.residents = options.residents}).time * problem.rates.cpu_worker;
  for (const double factor : kNearBound) {
    const double all = by_worker.value() * factor;
    const double smallest = std::max(static_cast<double>(least), near / kNeighbourhood);
    const double largest = std::min(static_cast<double>(most), near * kNeighbourhood);
    const double first = std::ceil(std::max(all / largest, all / near - kMostRounds / 2));
    for (double rounds = first; rounds < first + kMostRounds && all / rounds >= smallest; ++rounds)
      trial.plan_with(all / rounds);
  }
  return trial.best();
}

}  // namespace dos::sched
