// SPDX-License-Identifier: Apache-2.0
#include "sched/cut.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/policy_registry.hpp"

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
/// Of a plan by which all states stay on GPUs: what less the best with some on the CPU takes is no
/// reason to cut them smaller, as the runtime changes no plan for it (Tuning::gain), and small
/// kernels show (h100, 64 GB: 1.2 % by the plan, and 2.2 % more in the run).
constexpr double kWorthMoving = 0.03;
/// Of all states, what stays on GPUs where large subgroups are tried: of less they gain little, and
/// memory of two sizes costs what the replay does not know (gh200, 2.5 GB: the plan gains 0.5 %,
/// the step takes 204 ms for 147.5).
constexpr double kStaysForLarge = 0.5;
/// Once a step is so near its bound, smaller sizes are not tried behind an octave of those that are
/// slower by so much: fill and drain are short then, latencies grow.
constexpr double kNear = 1.05;
constexpr double kSlower = 1.01;
constexpr Index kStepsAnOctave = 8;
/// A size whose first plans are slower than the best so far by so much is not searched further:
/// whole rounds and wider windows gain less.
constexpr double kHopeless = 1.1;
/// Smaller subgroups need more buffers; each is allocated once.
constexpr double kStepsThatPayAllocations = 1000;
/// How much longer than the bound a step with fill and drain takes, where it comes near it.
constexpr std::array kNearBound = {1.015, 1.02, 1.025, 1.03, 1.035, 1.04};
/// Part of an octave around the best of the coarse sizes.
constexpr double kNeighbourhood = 1.4142135623730951;
/// Tried with each of kNearBound: with few workers every number of subgroups makes whole rounds.
constexpr double kMostRounds = 12;
/// Of what stays on a GPU; small ones fill what large ones leave.
constexpr double kInLarge = 0.99;
/// Rounds of the CPU's workers beside large ones, and how much longer than the bound a step takes.
constexpr std::array kRounds = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr std::array kNearLarge = {1.02, 1.04, 1.06, 1.08, 1.1};

/// Plans with one cut after another.
class Trial {
 public:
  Trial(const std::string& policy, Problem& problem, Index params, const PolicyOptions& options)
      : policy_(policy), problem_(problem), params_(params), options_(options) {}

  /// Seconds of a step, with its part of what allocates memory once; infinite where there is no
  /// plan. Nothing when the same subgroups have been tried.
  std::optional<double> plan_with(const Cut& cut) {
    problem_.subgroups = cut_into(params_, cut);
    const Index count = std::ssize(problem_.subgroups);
    if (!tried_.emplace(count, cut.large, cut.large_params).second) return std::nullopt;
    if (!tries_.empty()) options_.hopeless = units::Seconds(least() * kHopeless);
    try {
      const Plan plan = make_plan(policy_, problem_, options_);
      const double time = plan.time.value() + allocations(plan) / kStepsThatPayAllocations;
      tries_.push_back({.time = time,
                        .subgroups = count,
                        .cut = cut,
                        .stays = std::ranges::all_of(plan.assignments, &is_resident)});
      return time;
    } catch (const Error& error) {
      obstacle_ = error.what();
      return std::numeric_limits<double>::infinity();
    }
  }

  /// Of the tries so far, in seconds.
  [[nodiscard]] double least() const {
    return tries_.empty() ? std::numeric_limits<double>::infinity()
                          : std::ranges::min(tries_, {}, &Try::time).time;
  }

  /// The one with the fewest subgroups that is not worth changing for a faster one.
  [[nodiscard]] Cut best() const {
    expect(!tries_.empty(), "{}", obstacle_);
    const Try* best = nullptr;
    for (const Try& each : tries_) {
      const double most = least() * (1 + (each.stays ? kWorthMoving : kWorthSmaller));
      if (each.time <= most && (best == nullptr || each.subgroups < best->subgroups)) best = &each;
    }
    return best->cut;
  }

 private:
  struct Try {
    double time;
    Index subgroups;
    Cut cut;
    bool stays;  ///< all states on GPUs
  };

  /// Seconds until all residents have their memory, in the first steps.
  [[nodiscard]] double allocations(const Plan& plan) const {
    const auto buffers =
        std::ranges::count_if(plan.assignments, &is_resident) * problem_.cost.state_buffers;
    return static_cast<double>(buffers) * problem_.rates.allocation.value();
  }

  const std::string& policy_;
  Problem& problem_;
  Index params_;
  PolicyOptions options_;
  std::set<std::tuple<Index, Index, Index>> tried_;  ///< subgroups, and the large ones
  std::vector<Try> tries_;
  std::string obstacle_;
};

Index pieces(const std::vector<Index>& parts, Index size) {
  Index count = 0;
  for (const Index part : parts) count += (part - 1) / size + 1;
  return count;
}

/// Sizes that are tried, in parameters.
struct Range {
  Index least;
  Index most;
};

/// From large to small, as long as there is hope.
void try_coarsely(Trial& trial, const Range& range, units::Seconds bound) {
  Index slower = 0;
  for (auto size = static_cast<double>(range.most);
       size >= static_cast<double>(range.least) && slower < kStepsAnOctave; size /= kStep) {
    const auto time = trial.plan_with({.size = static_cast<Index>(size)});
    if (!time || trial.least() > bound.value() * kNear) continue;
    slower = *time > trial.least() * kSlower ? slower + 1 : 0;
  }
}

/// Near `coarse`, those of which the CPU's workers update whole rounds in the time of a good plan.
void try_rounds(Trial& trial, const Range& range, Index coarse, units::Params by_worker) {
  const auto near = static_cast<double>(coarse);
  const double smallest = std::max(static_cast<double>(range.least), near / kNeighbourhood);
  const double largest = std::min(static_cast<double>(range.most), near * kNeighbourhood);
  for (const double factor : kNearBound) {
    const double all = by_worker.value() * factor;
    const double first = std::ceil(std::max(all / largest, all / near - kMostRounds / 2));
    for (double rounds = first; rounds < first + kMostRounds && all / rounds >= smallest; ++rounds)
      trial.plan_with({.size = static_cast<Index>(all / rounds)});
  }
}

/// How long the states of one subgroup are on their way to a GPU.
units::Seconds copy_of(const Problem& problem, const perfmodels::GpuRates& gpu,
                       units::Params size) {
  return problem.rates.transfer_latency * static_cast<double>(problem.cost.state_buffers) +
         size * problem.cost.streamed_in() / gpu.h2d;
}

/// Nearly all that stays on GPUs in the optimum in a few large ones, the others in rounds of the
/// CPU's workers.
void try_large(Trial& trial, const Range& range, const Problem& problem, Index params,
               const Bound& bound) {
  const perfmodels::GpuRates& gpu = problem.rates.gpus.front();
  const units::Params stays = *std::ranges::min_element(bound.resident);
  const double all_stay = stays.value() * static_cast<double>(problem.gpus());
  if (all_stay < kStaysForLarge * static_cast<double>(params)) return;
  const units::Params by_worker = bound.time * problem.rates.cpu_worker;
  for (const int rounds : kRounds) {
    for (const double factor : kNearLarge) {
      Cut cut{.size = std::max(kLeast, static_cast<Index>(by_worker.value() * factor / rounds))};
      const units::Params size(static_cast<double>(cut.size));
      const auto window = static_cast<double>(useful_window(problem, 0, cut.size));
      const units::Params room =
          problem.memory.front().update / problem.cost.held() - size * window;
      const auto stay = static_cast<Index>(kInLarge * std::min(stays, room).value());
      // Were a large update longer than a copy of small states, the link would wait for it.
      const auto most = std::min(
          range.most, static_cast<Index>((copy_of(problem, gpu, size) * gpu.update).value()));
      if (most <= cut.size || stay <= most / 2) continue;
      const Index count = ceil_div(stay, most);
      cut.large = count * problem.gpus();
      cut.large_params = stay / count;
      if (cut.large_params <= cut.size || cut.in_large() >= params) continue;
      const Index small = ceil_div(params - cut.in_large(), cut.size);
      if (small + cut.large <= kMostTried * problem.gpus()) trial.plan_with(cut);
    }
  }
}

}  // namespace

void expect_few_subgroups(const std::vector<Index>& parts, Index size, const std::string& option) {
  require(size >= 1, "sizes are positive");
  const Index count = pieces(parts, size);
  if (count <= kMostPieces) return;
  Index low = size;  // too small
  Index high = *std::ranges::max_element(parts);
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (pieces(parts, middle) > kMostPieces ? low : high) = middle;
  }
  fail("{} {}: makes {} subgroups of a rank, a plan has at most {}: use at least {}", option, size,
       count, kMostPieces, high);
}

std::vector<Subgroup> cut_into(Index params, const Cut& cut) {
  const Index in_small = params - cut.in_large();
  require(cut.size >= 1 && cut.large >= 0 && cut.large_params >= 0 && in_small >= 1,
          "something to cut");
  const Index small = ceil_div(in_small, cut.size);
  const Index each = ceil_div(in_small, small);
  std::vector<Subgroup> subgroups;
  Index large = 0;
  Index left = in_small;
  // Behind every small one as many large ones as bring both on alike.
  for (Index i = 0; left > 0; ++i) {
    for (; large * small < i * cut.large; ++large)
      subgroups.push_back({.params = cut.large_params, .depth = std::ssize(subgroups)});
    subgroups.push_back({.params = std::min(each, left), .depth = std::ssize(subgroups)});
    left -= each;
  }
  for (; large < cut.large; ++large)
    subgroups.push_back({.params = cut.large_params, .depth = std::ssize(subgroups)});
  return subgroups;
}

Cut choose_cut(const std::string& policy, Problem problem, Index params,
               const PolicyOptions& options) {
  const Index gpus = std::max<Index>(1, problem.gpus());
  const Index least = std::max(std::min(params, kLeast), params / (kMostTried * gpus));
  const Range range{least, std::max(std::min(params, kMost), least)};
  problem.subgroups = cut_into(params, {.size = range.least});
  const Bound bound = lower_bound(problem, {.residents = options.residents, .deals_evenly = true});
  Trial trial(policy, problem, params, options);
  try_coarsely(trial, range, bound.time);
  try_rounds(trial, range, trial.best().size, bound.time * problem.rates.cpu_worker);
  // A policy that does not adapt streams from the first step on, while residents come: blocks of
  // memory of two sizes are freed and allocated for each other then.
  const bool adapts = find_policy(policy).adapts;
  if (problem.gpus() > 0 && adapts) try_large(trial, range, problem, params, bound);
  return trial.best();
}

}  // namespace dos::sched
