// SPDX-License-Identifier: Apache-2.0
#include "sched/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/passing.hpp"
#include "sched/policy_registry.hpp"

namespace dos::sched {
namespace {

/// GPU memory of so many updates of the largest subgroup.
units::Bytes states_of(const Problem& problem, double updates) {
  return units::Params(static_cast<double>(problem.largest())) * problem.cost.held() * updates;
}

/// The largest part of the gradients that leaves each GPU memory for so many updates; negative
/// where there is none.
double largest_share(const Problem& problem, double updates) {
  double share = 1;
  for (const StateMemory& gpu : problem.memory) {
    const units::Bytes room = std::min(gpu.update - states_of(problem, updates), gpu.resident);
    if (gpu.gradients > units::Bytes(0)) share = std::min(share, room / gpu.gradients);
  }
  return share;
}

bool may_all_stay(const Problem& problem) {
  return std::ranges::all_of(problem.memory, [&](const StateMemory& gpu) {
    const units::Bytes left = std::min(gpu.update, gpu.resident) - gpu.gradients;
    return gpu.gradients == units::Bytes(0) || left >= states_of(problem, kUpdatesAtWork);
  });
}

/// Whether what GPUs hold with the plan fits: states that stay, the window, and the gradients of
/// what they update.
bool fits(const Problem& problem, const Plan& plan) {
  std::vector<units::Bytes> held = plan.window_memory;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    if (is_resident(plan.assignments[i]))
      held[static_cast<std::size_t>(plan.assignments[i].home)] +=
          problem.held_bytes(static_cast<Index>(i));
  const double share = plan.gpu_share(problem);
  for (std::size_t gpu = 0; gpu < held.size(); ++gpu) {
    const StateMemory& memory = problem.memory[gpu];
    const units::Bytes waiting = memory.gradients * share;
    constexpr double kRounding = 1 + 1e-12;
    if (held[gpu] + waiting > memory.update * kRounding || waiting > memory.resident * kRounding)
      return false;
  }
  return true;
}

/// Looks for the plan that costs least among those with room for a part of the gradients.
class ShareSearch {
 public:
  /// `given` is what is planned, `problem` the same with the memory that is used here: with weights
  /// that stay, or pass.
  ShareSearch(const std::string& policy, const Problem& given, const Problem& problem,
              const PolicyOptions& options)
      : policy_(policy),
        given_(given),
        problem_(problem),
        options_(options),
        chooses_(find_policy(policy).adapts && !options.share && !options.stride) {}

  /// Room for this part, and no larger share. Returns whether there is a plan.
  bool try_share(double share) {
    if (share > largest_share(problem_, /*updates=*/0)) return false;
    std::optional<Plan> plan = plan_within(share);
    if (!plan) return false;
    count_refetch(given_, plan->gpu_share(given_), *plan);
    // Of equal ones that with more memory: there another may be better.
    const bool is_equal =
        best_ && !(plan->cost() < best_->cost()) && !(best_->cost() < plan->cost());
    if (!best_ || plan->cost() < best_->cost() || (is_equal && share < share_)) {
      best_ = std::move(plan);
      share_ = share;
    }
    return true;
  }

  /// The largest shares that leave room for one update, two and so on.
  void try_rooms() {
    for (double updates = 1; updates <= kUpdatesAtWork; ++updates) {
      const double share = largest_share(problem_, updates);
      if (share > 0 && share < 1) try_share(share);
    }
  }

  /// Smaller steps on both sides of the best.
  void refine(double step, double least) {
    for (; best_ && step >= least; step /= 2)
      for (const double share : {share_ - step, share_ + step})
        if (share > 0 && share < 1) try_share(share);
  }

  /// Smaller windows, which may be as fast and leave more weights their place.
  void try_windows() {
    if (!best_ || options_.window) return;
    const auto smaller = [](Index window) { return std::min(window / 2 + 1, window - 1); };
    for (Index window = smaller(std::ranges::max(best_->window)); window >= 1;
         window = smaller(window)) {
      window_ = window;
      try_share(share_);
    }
    window_.reset();
  }

  /// The best with any share, which a policy that chooses none tries from the largest on.
  std::optional<Plan> search() {
    constexpr double kShareStep = 0.25;
    for (double share = 1; share >= 0; share -= kShareStep)
      if (try_share(share) && !chooses_) break;
    if (chooses_) {
      try_rooms();
      refine(kShareStep / 2, kShareStep / 8);
    }
    if (may_pass(given_)) try_windows();
    return std::move(best_);
  }

 private:
  [[nodiscard]] std::optional<Plan> plan_within(double share) const {
    const Problem beside = beside_gradients(problem_, share);
    PolicyOptions options = options_;
    options.residents = options.residents && share == 1;
    if (window_) options.window = window_;
    std::optional<Plan> plan = plan_of(policy_, beside, options);
    if (!plan || fits(problem_, *plan)) return plan;
    return chooses_ ? plan_limited(share, beside, options) : std::nullopt;
  }

  /// With this share, or as another policy has it.
  [[nodiscard]] std::optional<Plan> plan_limited(double share, const Problem& beside,
                                                 const PolicyOptions& options) const {
    const double half_a_subgroup =
        static_cast<double>(problem_.largest()) / 2 / problem_.total().value();
    std::optional<Plan> best;
    const auto consider = [&](std::optional<Plan> plan, std::string reason) {
      if (!plan || !fits(problem_, *plan) || (best && !(plan->time < best->time))) return;
      best = std::move(plan);
      best->policy = policy_;
      best->reason = std::move(reason);
    };
    // Whole subgroups may be more than the share, and then do not fit.
    for (const double wanted : {share, std::max(0.0, share - half_a_subgroup)}) {
      PolicyOptions limited = options;
      limited.share = wanted;
      consider(plan_of(policy_, beside, limited),
               fmt::format("room for {:.0f} % of the gradients beside their states", share * 100));
    }
    for (const Policy& other : policies())
      if (other.name != policy_)
        consider(plan_of(other.name, beside, options), reason_as(other.name));
    return best;
  }

  /// Nothing where it cannot place the problem, with what is left of the memory.
  static std::optional<Plan> plan_of(const std::string& policy, const Problem& problem,
                                     const PolicyOptions& options) {
    try {
      return make_plan(policy, problem, options);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const std::string& policy_;
  const Problem& given_;
  const Problem& problem_;
  const PolicyOptions& options_;
  const bool chooses_;
  std::optional<Index> window_{};  ///< that is tried
  std::optional<Plan> best_;
  double share_ = 0;
};

}  // namespace

Plan plan_beside_gradients(const std::string& policy, const Problem& problem,
                           const PolicyOptions& options) {
  std::optional<Plan> plan;
  if (!may_all_stay(problem)) {
    plan = ShareSearch(policy, problem, problem, options).search();
    if (may_pass(problem)) {
      // What stays would take the memory for which weights go.
      PolicyOptions no_residents = options;
      no_residents.residents = false;
      const Problem roomy = with_passing_weights(problem);
      std::optional<Plan> passing = ShareSearch(policy, problem, roomy, no_residents).search();
      if (passing && (!plan || passing->cost() < plan->cost())) plan = std::move(passing);
    }
  }
  if (plan) return std::move(*plan);
  plan = make_plan(policy, beside_gradients(problem, 1), options);
  count_refetch(problem, waiting_gradients(problem, *plan), *plan);
  return std::move(*plan);
}

double waiting_gradients(const Problem& problem, const Plan& plan) {
  return may_all_stay(problem) ? 1 : plan.gpu_share(problem);
}

Problem beside_gradients(Problem problem, double share) {
  for (StateMemory& gpu : problem.memory) {
    const units::Bytes waiting = std::exchange(gpu.gradients, units::Bytes(0)) * share;
    for (units::Bytes* free :
         {&gpu.update, &gpu.resident, &gpu.passing.update, &gpu.passing.resident})
      *free = std::max(units::Bytes(0), *free - waiting);
  }
  return problem;
}

Problem settled(Problem problem, const Plan& plan) {
  const double waiting = waiting_gradients(problem, plan);
  problem = beside_gradients(std::move(problem), waiting);
  return plan.overflow > units::Bytes(0) ? with_passing_weights(std::move(problem)) : problem;
}

}  // namespace dos::sched
