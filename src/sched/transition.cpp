// SPDX-License-Identifier: Apache-2.0
#include "sched/transition.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "sched/interleave.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched {
namespace {

/// Nothing over the links is 0, all residents that are elsewhere 1, and all that the target streams
/// besides 2.
constexpr std::array kParts = {0.015, 0.03, 0.06, 0.125, 0.25, 0.35, 0.5,
                               0.7,   0.85, 1.0,  1.25,  1.5,  1.75, 2.0};
constexpr int kHalvings = 3;
/// What all at once may lose more than the best way: fewer steps are worth something, too.
constexpr double kWorthOneStep = 1.1;
/// Of the target's time: what a step loses at least.
constexpr double kLeastLoss = 0.01;

bool is_missing(const Problem& problem, const Plan& target, std::size_t subgroup) {
  const Assignment& goal = target.assignments[subgroup];
  return is_resident(goal) && problem.homes[subgroup] != goal.home;
}

bool is_misplaced(const Problem& problem, const Plan& target, std::size_t subgroup) {
  return problem.is_gpu(problem.homes[subgroup]) && !is_resident(target.assignments[subgroup]);
}

/// Steps of more and more over the links.
class Steps {
 public:
  Steps(const Problem& problem, const Plan& target) : problem_(problem), target_(target) {
    for (std::size_t i = 0; i < target.assignments.size(); ++i) {
      if (is_missing(problem, target, i))
        missing_.push_back(i);
      else if (is_streamed(target.assignments[i]))
        streamed_.push_back(i);
    }
    settled_ = time_settled();
  }

  [[nodiscard]] Plan plan_with(double part) const {
    Plan plan = target_;
    keep(plan, missing_, std::min(part, 1.0));
    keep(plan, streamed_, std::max(part - 1, 0.0));
    return played(std::move(plan));
  }
  /// Only the smallest resident comes, and nothing is streamed.
  [[nodiscard]] Plan least() const {
    Plan plan = target_;
    keep(plan, missing_, 0);
    keep(plan, streamed_, 0);
    const std::size_t smallest = *std::ranges::min_element(
        missing_, {}, [&](std::size_t i) { return problem_.subgroups[i].params; });
    plan.assignments[smallest] = target_.assignments[smallest];
    return played(std::move(plan));
  }

  /// What is lost until all residents are at home, if each step brings as many as this one: seconds
  /// beyond the target's, as often as such steps are needed.
  double loss_of(double part) {
    const Plan plan = plan_with(part);
    double come = 0;
    double all = 0;
    for (const std::size_t i : missing_) {
      const auto params = static_cast<double>(problem_.subgroups[i].params);
      all += params;
      if (is_resident(plan.assignments[i])) come += params;
    }
    const double lost = std::max(plan.time.value() - settled_, kLeastLoss * settled_);
    const double loss = come > 0 ? lost * all / come : std::numeric_limits<double>::infinity();
    losses_.push_back({part, loss});
    return loss;
  }

  struct Loss {
    double part;
    double seconds;
  };
  /// The least loss of parts of at least `from`.
  [[nodiscard]] Loss least_loss(double from) const {
    Loss best{0, std::numeric_limits<double>::infinity()};
    for (const Loss& each : losses_)
      if (each.part >= from && each.seconds < best.seconds) best = each;
    return best;
  }
  [[nodiscard]] bool is_missing_any() const { return !missing_.empty(); }

 private:
  [[nodiscard]] double time_settled() const {
    Problem settled = problem_;
    settled.homes.clear();
    return replay(settled, target_).update_end.value();
  }
  [[nodiscard]] Plan played(Plan plan) const {
    deal_weights(problem_, plan);
    plan.time = replay(problem_, plan).update_end;
    return plan;
  }
  /// Leaves `part` of the subgroups of each GPU where the target has them, evenly over the order;
  /// the CPU updates the others.
  void keep(Plan& plan, const std::vector<std::size_t>& subgroups, double part) const {
    std::vector<double> owed_to(problem_.rates.gpus.size(), 0.0);
    for (const std::size_t i : subgroups) {
      const auto params = static_cast<double>(problem_.subgroups[i].params);
      double& owed = owed_to[static_cast<std::size_t>(target_.assignments[i].device)];
      owed += params * part;
      if (part < 1 && owed < params / 2)
        plan.assignments[i] =
            on_cpu(is_resident(plan.assignments[i]) ? kHost : plan.assignments[i].home);
      else
        owed -= params;
    }
  }

  const Problem& problem_;
  const Plan& target_;
  std::vector<std::size_t> missing_;
  std::vector<std::size_t> streamed_;
  std::vector<Loss> losses_;
  double settled_ = 0;
};

/// The part with the least loss, looked for on both sides of the best, nearer each time.
double best_part(Steps& steps) {
  for (const double part : kParts) steps.loss_of(part);
  double step = 0.25;
  for (int halving = 0; halving < kHalvings; ++halving) {
    step /= 2;
    const double at = steps.least_loss(0).part;
    for (const double part : {at * (1 - step), at * (1 + step)})
      if (part <= 2) steps.loss_of(part);
  }
  const Steps::Loss best = steps.least_loss(0);
  const Steps::Loss at_once = steps.least_loss(1);
  return at_once.seconds <= kWorthOneStep * best.seconds ? at_once.part : best.part;
}

}  // namespace

Plan step_towards(const Problem& problem, const Plan& target) {
  if (problem.homes.empty()) return target;
  bool moves = false;
  for (std::size_t i = 0; i < problem.homes.size(); ++i)
    moves = moves || is_missing(problem, target, i) || is_misplaced(problem, target, i);
  if (!moves) return target;
  Steps steps(problem, target);
  if (!find_policy(target.policy).adapts || !steps.is_missing_any()) return steps.plan_with(2);
  const double part = best_part(steps);
  return part > 0 ? steps.plan_with(part) : steps.least();
}

}  // namespace dos::sched
