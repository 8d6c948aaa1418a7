// SPDX-License-Identifier: Apache-2.0
#include "sched/transition.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched {
namespace {

/// Of the time of the fastest step: what more residents in it may cost.
constexpr double kWorthMoving = 0.02;
/// Between nothing over the links and all that the target wants.
constexpr int kCoarseSteps = 8;
constexpr int kHalvings = 3;

bool is_missing(const Problem& problem, const Plan& target, std::size_t subgroup) {
  const Assignment& goal = target.assignments[subgroup];
  return goal.placement == Placement::kResident && problem.homes[subgroup] != goal.gpu;
}

bool is_misplaced(const Problem& problem, const Plan& target, std::size_t subgroup) {
  return problem.homes[subgroup] >= 0 &&
         target.assignments[subgroup].placement != Placement::kResident;
}

/// The best that a user had from another policy in the first step that it plans.
units::Seconds best_baseline(const Problem& problem, const PolicyOptions& options) {
  Problem fresh = problem;
  fresh.homes.assign(problem.subgroups.size(), -1);
  units::Seconds best(std::numeric_limits<double>::infinity());
  PolicyOptions own = options;
  own.share.reset();
  for (const Policy& policy : policies()) {
    if (policy.adapts) continue;
    try {
      best = std::min(best, replay(fresh, policy.plan(fresh, own)).update_end);
    } catch (const Error&) {
      // It cannot place this problem.
    }
  }
  return best;
}

/// Steps of more and more over the links.
class Steps {
 public:
  Steps(const Problem& problem, const Plan& target) : problem_(problem), target_(target) {
    for (std::size_t i = 0; i < target.assignments.size(); ++i)
      (is_missing(problem, target, i) ? missing_ : others_).push_back(i);
  }

  /// `part` of what the target wants over the links, 0 to 2: from 0 to 1 of the residents that are
  /// elsewhere, from 1 to 2 of what it streams.
  Plan plan_with(double part) {
    Plan plan = target_;
    keep(plan, missing_, std::min(part, 1.0));
    keep(plan, streamed(), std::max(part - 1, 0.0));
    deal_weights(problem_, plan);
    plan.time = replay(problem_, plan).update_end;
    tried_.push_back({part, plan.time.value()});
    return plan;
  }
  double time_of(double part) { return plan_with(part).time.value(); }

  /// Only the smallest resident comes, and nothing is streamed.
  Plan least() {
    Plan plan = target_;
    const auto smallest = std::ranges::min_element(
        missing_, {}, [&](std::size_t i) { return problem_.subgroups[i].params; });
    for (const std::size_t i : missing_)
      if (i != *smallest) plan.assignments[i] = {};
    keep(plan, streamed(), 0);
    deal_weights(problem_, plan);
    plan.time = replay(problem_, plan).update_end;
    return plan;
  }
  [[nodiscard]] bool brings_any(const Plan& plan) const {
    return std::ranges::any_of(missing_, [&](std::size_t i) {
      return plan.assignments[i].placement == Placement::kResident;
    });
  }
  [[nodiscard]] bool is_missing_any() const { return !missing_.empty(); }

  struct Tried {
    double part;
    double seconds;
  };
  [[nodiscard]] const std::vector<Tried>& tried() const { return tried_; }
  [[nodiscard]] Tried fastest() const {
    return *std::ranges::min_element(tried_, {}, &Tried::seconds);
  }

 private:
  [[nodiscard]] std::vector<std::size_t> streamed() const {
    std::vector<std::size_t> result;
    for (const std::size_t i : others_)
      if (target_.assignments[i].placement == Placement::kStreamed) result.push_back(i);
    return result;
  }
  /// Leaves `part` of the subgroups where the target has them, evenly over the order; the CPU
  /// updates the others.
  void keep(Plan& plan, const std::vector<std::size_t>& subgroups, double part) const {
    double owed = 0;
    for (const std::size_t i : subgroups) {
      const auto params = static_cast<double>(problem_.subgroups[i].params);
      owed += params * part;
      if (part < 1 && owed < params / 2)
        plan.assignments[i] = {};
      else
        owed -= params;
    }
  }

  const Problem& problem_;
  const Plan& target_;
  std::vector<std::size_t> missing_;
  std::vector<std::size_t> others_;
  std::vector<Tried> tried_;
};

/// Looks on both sides of the fastest part, nearer each time.
void search_fastest(Steps& steps) {
  double step = 2.0 / kCoarseSteps;
  for (int i = 0; i <= kCoarseSteps; ++i) steps.time_of(i * step);
  for (int halving = 0; halving < kHalvings; ++halving) {
    step /= 2;
    const double at = steps.fastest().part;
    if (at - step >= 0) steps.time_of(at - step);
    if (at + step <= 2) steps.time_of(at + step);
  }
}

/// The largest part, of those that were tried and some beyond, whose step takes no more than
/// `limit`.
double largest_part(Steps& steps, double limit) {
  double good = 0;
  double bad = 2;
  for (const Steps::Tried& each : steps.tried())
    if (each.seconds <= limit) good = std::max(good, each.part);
  for (const Steps::Tried& each : steps.tried())
    if (each.part > good) bad = std::min(bad, each.part);
  for (int halving = 0; good < 2 && halving < kHalvings; ++halving) {
    const double middle = (good + bad) / 2;
    (steps.time_of(middle) <= limit ? good : bad) = middle;
  }
  return good;
}

}  // namespace

Plan step_towards(const Problem& problem, const Plan& target, const PolicyOptions& options) {
  if (problem.homes.empty()) return target;
  bool moves = false;
  for (std::size_t i = 0; i < problem.homes.size(); ++i)
    moves = moves || is_missing(problem, target, i) || is_misplaced(problem, target, i);
  if (!moves) return target;
  Steps steps(problem, target);
  if (!find_policy(target.policy).adapts) return steps.plan_with(2);
  search_fastest(steps);
  const double fastest = steps.fastest().seconds;
  const double baseline = best_baseline(problem, options).value();
  const double most = largest_part(steps, std::max(fastest * (1 + kWorthMoving), baseline));
  Plan step = steps.plan_with(most);
  // However slow a link is, all residents come in the end.
  return steps.is_missing_any() && !steps.brings_any(step) ? steps.least() : step;
}

}  // namespace dos::sched
